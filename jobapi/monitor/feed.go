package monitor

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
)

const (
	// pace is the least time between two rounds of a scope, and between two writes to a stream.
	pace = 250 * time.Millisecond
	// burst is how many full pages of changes a round may have.
	burst = 5
	// again is when a store that does not answer is asked again.
	again = time.Second
	// poll is how often a scope is listed that cannot tell when something changes.
	poll = 2 * time.Second
	// newest is how many jobs are compared in a scope that does not tell which have changed.
	newest = 200
)

// feed adds what changes in the scope to the ring, until ctx ends.
func (s *scope) feed(ctx context.Context) {
	defer s.following(false)
	round := s.compare
	if _, ok := s.Jobs.(jobapi.Feed); ok {
		round = s.follow
	}
	at, well := "", true
	for pages := 0; ctx.Err() == nil; {
		begun := time.Now()
		var next string
		var full bool
		err := s.safely(ctx, func() (err error) {
			next, full, err = round(ctx, at)
			return err
		})
		s.following(err == nil)
		if err != nil && ctx.Err() == nil {
			if well {
				s.monitor.server.Log.WarnContext(ctx, "cannot read what has changed", "scope", s.Name, "err", err)
			}
			well = false
			_ = jobs.Sleep(ctx, again)
			continue
		}
		at, well = next, true
		if pages++; full && pages < burst {
			continue
		}
		pages = 0
		_ = jobs.Sleep(ctx, pace-time.Since(begun))
	}
}

// follow reads one page of changes behind a position, and waits for it. full means that there may be more at once.
func (s *scope) follow(ctx context.Context, at string) (next string, full bool, err error) {
	ids, next, lost, err := s.Jobs.(jobapi.Feed).Changes(ctx, at)
	if err != nil {
		return at, false, err
	}
	if lost || at == "" {
		s.lost()
		return next, false, nil
	}
	if len(ids) == 0 {
		return next, false, nil
	}
	full = len(ids) >= jobapi.MaxGet
	calling, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	found, err := s.Jobs.Get(calling, last(ids))
	if err != nil {
		return at, false, err // and read the same page again
	}
	items := make([]jobapi.Item, len(found))
	for i := range found {
		items[i] = found[i].Item()
	}
	s.tell(items)
	return next, full, nil
}

// last returns each id once, where it stands last.
func last(ids []string) []string {
	seen := make(map[string]bool, len(ids))
	var kept []string
	for _, id := range slices.Backward(ids) {
		if !seen[id] {
			seen[id] = true
			kept = append(kept, id)
		}
	}
	slices.Reverse(kept)
	return kept
}

// compare lists the newest jobs and tells which differ from before, and waits until something has changed. It is for a scope
// that cannot tell. A position is "" for the first time.
func (s *scope) compare(ctx context.Context, at string) (next string, full bool, err error) {
	var changed <-chan struct{}
	if n, ok := s.Jobs.(jobapi.Notifier); ok {
		changed = n.Changed() // before the list, so that no change is missed
	}
	calling, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	page, err := s.Jobs.List(calling, jobapi.Query{Limit: newest})
	if err != nil {
		return at, false, err
	}
	slices.Reverse(page.Items)
	if at == "" {
		for _, i := range page.Items {
			s.seen.put(i)
		}
		s.lost()
	} else {
		s.tell(page.Items)
	}
	var tick <-chan time.Time
	if changed == nil {
		tick = time.After(poll)
	}
	select {
	case <-ctx.Done():
	case <-changed:
	case <-tick:
	}
	return "compared", false, nil
}

// lost tells that changes may have been missed.
func (s *scope) lost() {
	s.touched()
	s.monitor.ring.add(change{scope: s.Name, lost: true, text: []byte("event: reset\ndata: \n\n")})
}

// tell adds the items that differ from what was told before.
func (s *scope) tell(items []jobapi.Item) {
	var changes []change
	for _, i := range items {
		before, known := s.seen.get(i.ID)
		if known && before == i {
			continue
		}
		c := change{scope: s.Name, kind: s.kind(i.Type), id: i.ID, now: i.Status}
		if known {
			c.was = c.was.with(before.Status)
		} else {
			c.was = mayHaveBeen(i)
		}
		text, err := json.Marshal(i)
		if err != nil { // no item is like that
			continue
		}
		c.text = slices.Concat([]byte("event: job\ndata: "), text, []byte("\n\n"))
		s.seen.put(i)
		s.numbers.ended(c.kind, i)
		changes = append(changes, c)
	}
	if len(changes) > 0 {
		s.touched()
		s.monitor.ring.add(changes...)
	}
}

// kind returns the kind of a type.
func (s *scope) kind(jobType string) string { return strings.TrimPrefix(jobType, s.Name+".") }

// mayHaveBeen returns the states that a job may have had before, if nothing was known of it.
func mayHaveBeen(i jobapi.Item) (was states) {
	switch {
	case i.Status.Terminal():
		return was.with(jobs.Queued).with(jobs.Running)
	case i.Status == jobs.Running:
		return was.with(jobs.Queued)
	case i.Attempt == 0 && i.StartedAt.IsZero(): // it is new
		return was
	}
	return was.with(jobs.Running).with(jobs.Succeeded).with(jobs.Failed).with(jobs.Canceled)
}

// seen keeps the items that were told last. Only the scope's feed uses it.
type seen struct {
	now, before map[string]jobapi.Item // at most kept of each
}

func newSeen() *seen { return &seen{now: map[string]jobapi.Item{}} }

func (s *seen) get(id string) (jobapi.Item, bool) {
	if i, ok := s.now[id]; ok {
		return i, true
	}
	i, ok := s.before[id]
	return i, ok
}

func (s *seen) put(i jobapi.Item) {
	if len(s.now) >= kept {
		s.now, s.before = map[string]jobapi.Item{}, s.now
	}
	s.now[i.ID] = i
}
