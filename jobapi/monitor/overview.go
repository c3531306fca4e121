package monitor

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
)

// Overview implements [jobapi.Watch].
func (m *Monitor) Overview(ctx context.Context) (*jobapi.Overview, error) {
	m.init()
	m.want(0, afterOverview)
	asked := time.Now()
	running := make([]<-chan struct{}, len(m.scopes))
	for range 2 { // the second time for those that were being looked at while something was changed through this server
		begun := make([]time.Time, len(m.scopes))
		for i, s := range m.scopes {
			running[i], begun[i] = s.refresh(ctx, asked)
		}
		for i, done := range running {
			if err := wait(ctx, done, begun[i]); err != nil {
				return nil, err
			}
		}
	}
	now := time.Now()
	o := &jobapi.Overview{At: jobapi.At(now), Scopes: []jobapi.ScopeOverview{}, Errors: []jobapi.ErrorGroup{}, Warnings: []jobapi.Warning{}}
	for i, s := range m.scopes {
		l, ok := s.now(running[i])
		shown := s.shown(l, ok, now)
		o.Scopes = append(o.Scopes, shown)
		o.Errors = append(o.Errors, s.numbers.errors()...)
		o.Warnings = append(o.Warnings, s.warnings(l, shown)...)
		if ok {
			count(&o.Workers, l.workers)
		}
	}
	slices.SortStableFunc(o.Errors, byCount)
	slices.SortStableFunc(o.Warnings, func(a, b jobapi.Warning) int { return urgency(a) - urgency(b) })
	return o, nil
}

// wait waits for a look, but no longer than an answer may take since the look or the question began.
func wait(ctx context.Context, done <-chan struct{}, begun time.Time) error {
	if done == nil {
		return nil
	}
	late := time.NewTimer(time.Until(begun.Add(answerWait)))
	defer late.Stop()
	select {
	case <-done:
	case <-late.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// shown returns the numbers of the scope. ok says that the look is good.
func (s *scope) shown(l *look, ok bool, now time.Time) jobapi.ScopeOverview {
	o := jobapi.ScopeOverview{Name: s.Name, States: map[string]int{}, Kinds: []jobapi.KindOverview{}, Day: []jobapi.Point{}}
	s.mu.Lock()
	samples := s.samples
	s.mu.Unlock()
	o.Recent = recent(samples)
	if !ok {
		o.Unavailable = whyNot(l)
		return o
	}
	if c := l.counts; c != nil {
		for state := jobs.Queued; state <= jobs.Canceled; state++ {
			o.States[state.String()] = c.States[state]
		}
		if c.DeadLetters >= 0 {
			o.DeadLetters = &c.DeadLetters
		}
		o.Day = day(c.Hours, now)
	}
	o.Kinds = s.kindsOf(l)
	return o
}

// kindsOf returns the numbers of all kinds that are known, by name.
func (s *scope) kindsOf(l *look) []jobapi.KindOverview {
	kinds := map[string]*jobapi.KindOverview{}
	of := func(name string) *jobapi.KindOverview {
		if kinds[name] == nil {
			kinds[name] = &jobapi.KindOverview{Kind: name}
		}
		return kinds[name]
	}
	for _, k := range l.kinds {
		of(k.Name)
	}
	if l.counts != nil {
		for _, c := range l.counts.Kinds {
			k := of(c.Kind)
			k.Queued, k.Running, k.Oldest = c.Queued, c.Running, jobapi.At(c.Oldest)
		}
	}
	for _, p := range l.paused {
		of(p.Kind).Paused = p.Since
	}
	for _, w := range l.workers {
		for _, name := range w.Kinds {
			if !lives(w) {
				continue
			}
			k := of(name)
			k.Workers++
			if w.State != "draining" {
				k.Slots += w.Slots
			}
		}
	}
	all := make([]jobapi.KindOverview, 0, len(kinds))
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		k := kinds[name]
		k.Wait, k.Run = s.numbers.of(name)
		all = append(all, *k)
	}
	return all
}

// lives reports whether something was heard of a worker.
func lives(w jobapi.Worker) bool { return w.State != "silent" }

// count adds workers to counts.
func count(c *jobapi.WorkerCounts, workers []jobapi.Worker) {
	for _, w := range workers {
		switch w.State {
		case "working":
			c.Working++
		case "idle":
			c.Idle++
		case "draining":
			c.Draining++
		case "unready":
			c.Unready++
		default:
			c.Silent++
		}
		if lives(w) && w.State != "draining" {
			c.Slots += w.Slots
			c.InHand += w.Jobs
		}
	}
}

// urgency returns the place of a warning among others.
func urgency(w jobapi.Warning) int {
	return cmp.Or(slices.Index([]string{"UNAVAILABLE", "NO_WORKER", "SILENT_WORKER", "DRAINING", "PAUSED"}, w.Code), 0)
}
