package monitor

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
)

const (
	maxEnded   = 200  // jobs of a kind whose times count
	maxKinds   = 1000 // kinds whose times are known
	maxGroups  = 50   // error groups of a scope
	maxMessage = 500  // bytes of a message
)

// numbers are what is known of the newest jobs of a scope that have ended.
type numbers struct {
	mu     sync.Mutex
	kinds  map[string]*times
	failed map[string]failure // by id: those that were listed last
	groups []jobapi.ErrorGroup
	total  jobapi.Flow // as of the last read
	known  bool        // total is
}

// failure is a job that has failed, as far as its group is concerned.
type failure struct {
	finished    jobapi.Time
	fingerprint string // empty for a job without an error
	jobType     string
	code        string
	message     string
}

// times are how long the newest jobs of a kind have waited and run.
type times struct {
	all  []ended // a ring once it is full
	next int
	ids  map[string]bool // of all
}

type ended struct {
	id        string
	wait, run time.Duration
}

func newNumbers() *numbers {
	return &numbers{kinds: map[string]*times{}, failed: map[string]failure{}}
}

// outdated reports whether jobs have ended since the last read, as far as counts tell, and remembers them.
func (n *numbers) outdated(counts *jobapi.Counts) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if counts == nil {
		return true
	}
	was, known := n.total, n.known
	n.total, n.known = counts.Total, true
	return !known || was.Succeeded != n.total.Succeeded || was.Failed != n.total.Failed || was.Canceled != n.total.Canceled
}

// again has the next read happen whatever the counts say.
func (n *numbers) again() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.known = false
}

// read lists the newest jobs that have succeeded and failed.
func (n *numbers) read(ctx context.Context, s *scope) error {
	for _, state := range []jobs.State{jobs.Succeeded, jobs.Failed} {
		page, err := s.Jobs.List(ctx, jobapi.Query{Status: state, Limit: newest})
		if err != nil {
			return err
		}
		for _, i := range slices.Backward(page.Items) {
			n.ended(s.kind(i.Type), i)
		}
		if state == jobs.Failed {
			if err := n.group(ctx, s, page.Items); err != nil {
				return err
			}
		}
	}
	return nil
}

// ended counts the times of a job that has ended.
func (n *numbers) ended(kind string, i jobapi.Item) {
	if i.FinishedAt.IsZero() || i.StartedAt.IsZero() {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	t := n.kinds[kind]
	if t == nil {
		if len(n.kinds) >= maxKinds {
			return
		}
		t = &times{ids: map[string]bool{}}
		n.kinds[kind] = t
	}
	if t.ids[i.ID] {
		return
	}
	e := ended{i.ID, max(0, i.StartedAt.Sub(i.CreatedAt.Time)), max(0, i.FinishedAt.Sub(i.StartedAt.Time))}
	if len(t.all) < maxEnded {
		t.all = append(t.all, e)
	} else {
		delete(t.ids, t.all[t.next].id)
		t.all[t.next] = e
		t.next = (t.next + 1) % maxEnded
	}
	t.ids[i.ID] = true
}

// of returns the times of a kind: nil where there are none.
func (n *numbers) of(kind string) (wait, run *jobapi.Quantiles) {
	n.mu.Lock()
	defer n.mu.Unlock()
	t := n.kinds[kind]
	if t == nil || len(t.all) == 0 {
		return nil, nil
	}
	var waits, runs []time.Duration
	for _, e := range t.all {
		waits, runs = append(waits, e.wait), append(runs, e.run)
	}
	return quantiles(waits), quantiles(runs)
}

// quantiles returns those of at least one time: each is one of the times.
func quantiles(all []time.Duration) *jobapi.Quantiles {
	slices.Sort(all)
	at := func(percent int) int64 { return all[(len(all)*percent+99)/100-1].Milliseconds() }
	return &jobapi.Quantiles{P50: at(50), P95: at(95), P99: at(99), N: len(all)}
}

// group makes the error groups of the jobs that have failed, and reads those that are not known yet.
func (n *numbers) group(ctx context.Context, s *scope, items []jobapi.Item) error {
	failed := make(map[string]failure, len(items))
	var unknown []string
	n.mu.Lock()
	for _, i := range items {
		if f, ok := n.failed[i.ID]; ok && f.finished == i.FinishedAt {
			failed[i.ID] = f
		} else {
			unknown = append(unknown, i.ID)
		}
	}
	n.mu.Unlock()
	for chunk := range slices.Chunk(unknown, jobapi.MaxGet) {
		found, err := s.Jobs.Get(ctx, chunk)
		if err != nil {
			return err
		}
		for _, j := range found {
			f := failure{finished: j.FinishedAt, jobType: j.Type}
			if j.Error != nil {
				f.fingerprint, f.code, f.message = jobapi.Fingerprint(j.Type, j.Error), j.Error.Code, jobs.Clip(j.Error.Message, maxMessage, "…")
			}
			failed[j.ID] = f
		}
	}
	groups := groupsOf(s.Name, failed)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.failed, n.groups = failed, groups
	return nil
}

func groupsOf(scope string, failed map[string]failure) []jobapi.ErrorGroup {
	byPrint := map[string]*jobapi.ErrorGroup{}
	for id, f := range failed {
		if f.fingerprint == "" {
			continue
		}
		g := byPrint[f.fingerprint]
		if g == nil {
			g = &jobapi.ErrorGroup{Fingerprint: f.fingerprint, Scope: scope, Type: f.jobType, Code: f.code}
			byPrint[f.fingerprint] = g
		}
		g.Count++
		if newer := f.finished.Compare(g.Newest.Time); g.JobID == "" || newer > 0 || newer == 0 && id > g.JobID {
			g.Newest, g.JobID, g.Message = f.finished, id, f.message
		}
	}
	groups := make([]jobapi.ErrorGroup, 0, len(byPrint))
	for _, g := range byPrint {
		groups = append(groups, *g)
	}
	slices.SortFunc(groups, byCount)
	return groups[:min(len(groups), maxGroups)]
}

// byCount has the most frequent first, and of equals the newest.
func byCount(a, b jobapi.ErrorGroup) int {
	return cmp.Or(b.Count-a.Count, b.Newest.Compare(a.Newest.Time), cmp.Compare(a.Fingerprint, b.Fingerprint))
}

func (n *numbers) errors() []jobapi.ErrorGroup {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.groups
}
