package jobapi

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
)

// hoursKept is for how many hours a [Tally] knows what came and ended: 24, and the current one.
const hoursKept = 25

// keptKinds is how many kinds a [Tally] keeps room for: one whose jobs come and end is not made again and again.
const keptKinds = 1000

// Tally counts jobs as they change, for a [Counter] that keeps its jobs in memory: totals and hours begin with the process. Its
// methods may be called concurrently. The zero value is ready.
type Tally struct {
	mu     sync.Mutex
	states [jobs.Canceled + 1]int
	kinds  map[string]*KindCount
	total  Flow
	hours  []Flow // the oldest first
}

// Move counts a job that goes from one state to another: from 0 when it is made or read from a disk, to 0 when it is deleted.
// now is when that happened; zero for what is not to count as coming or ending, since it did so before this process.
func (t *Tally) Move(now time.Time, kind string, from, to jobs.State) {
	if from == to {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.add(kind, from, -1)
	t.add(kind, to, 1)
	if now.IsZero() || from != 0 && !to.Terminal() {
		return
	}
	hour := t.hour(now)
	for _, f := range []*Flow{&t.total, hour} {
		f.count(from, to)
	}
}

// add counts n more jobs of a kind in a state.
func (t *Tally) add(kind string, s jobs.State, n int) {
	if s == 0 {
		return
	}
	t.states[s] += n
	if s != jobs.Queued && s != jobs.Running {
		return
	}
	k := t.kinds[kind]
	if k == nil {
		if t.kinds == nil {
			t.kinds = map[string]*KindCount{}
		}
		k = &KindCount{Kind: kind}
		t.kinds[kind] = k
	}
	if s == jobs.Queued {
		k.Queued += n
	} else {
		k.Running += n
	}
	if k.Queued == 0 && k.Running == 0 && len(t.kinds) > keptKinds {
		delete(t.kinds, kind)
	}
}

func (f *Flow) count(from, to jobs.State) {
	switch to {
	case jobs.Succeeded:
		f.Succeeded++
	case jobs.Failed:
		f.Failed++
	case jobs.Canceled:
		f.Canceled++
	case jobs.Queued, jobs.Running:
	}
	if from == 0 && to != 0 {
		f.In++
	}
}

// hour returns the flow of the hour of now, and forgets old ones. A clock that was set back counts in the newest hour.
func (t *Tally) hour(now time.Time) *Flow {
	start := now.UTC().Truncate(time.Hour)
	if n := len(t.hours); n == 0 || t.hours[n-1].Start.Before(start) {
		oldest := start.Add(-(hoursKept - 1) * time.Hour)
		t.hours = append(slices.DeleteFunc(t.hours, func(f Flow) bool { return f.Start.Before(oldest) }), Flow{Start: start})
	}
	return &t.hours[len(t.hours)-1]
}

// Counts returns what is counted now, without DeadLetters, and without the Oldest of the kinds, which oldest returns: zero for none.
func (t *Tally) Counts(oldest func(kind string) time.Time) Counts {
	t.mu.Lock()
	c := Counts{States: map[jobs.State]int{}, Total: t.total, Hours: slices.Clone(t.hours)}
	for s := jobs.Queued; s <= jobs.Canceled; s++ {
		c.States[s] = t.states[s]
	}
	for _, kind := range slices.Sorted(maps.Keys(t.kinds)) {
		if k := t.kinds[kind]; k.Queued+k.Running > 0 {
			c.Kinds = append(c.Kinds, *k)
		}
	}
	t.mu.Unlock()
	for i := range c.Kinds {
		if k := &c.Kinds[i]; k.Queued > 0 {
			k.Oldest = oldest(k.Kind)
		}
	}
	return c
}

// Has reports whether jobs of a kind are queued or running.
func (t *Tally) Has(kind string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := t.kinds[kind]
	return k != nil && k.Queued+k.Running > 0
}
