package relay

import (
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/batchfleet/batchfleet/internal/disk"
	"github.com/batchfleet/batchfleet/jobs"
)

// overview is the answer of GET /v1/status.
type overview struct {
	Tasks     map[string]int `json:"tasks"` // by status
	Kinds     []kindOverview `json:"kinds"`
	Callbacks struct {
		Pending int `json:"pending"` // events
		Dead    int `json:"dead"`    // events that were given up
	} `json:"callbacks"`
	Disk struct {
		Free    int64 `json:"free_bytes"`
		MinFree int64 `json:"min_free_bytes"`
	} `json:"disk"`
	MaxQueued    int  `json:"max_queued"`
	Orchestrator bool `json:"orchestrator"` // whether artifacts are sent to one
}

// kindOverview is what there is of a kind.
type kindOverview struct {
	Kind        jobs.Kind `json:"kind"`
	Slots       int       `json:"slots"` // 0: it shares the slots of all kinds
	GPUs        int       `json:"gpus"`  // that each task holds
	Queued      int       `json:"queued"`
	Running     int       `json:"running"`
	Uploading   int       `json:"uploading"`
	PausedUntil time.Time `json:"paused_until,omitzero"`
	PausedSince time.Time `json:"paused_since,omitzero"` // by a person
	Missing     bool      `json:"missing,omitempty"`     // it is no longer in the kinds file
}

// overview returns what the relay has and does now.
func (r *Relay) overview() overview {
	var o overview
	o.MaxQueued, o.Orchestrator, o.Disk.MinFree = r.MaxQueued, r.Orchestrator != nil, r.MinFree
	o.Disk.Free, _ = disk.Free(r.Dir) // 0 is as bad
	o.Tasks = map[string]int{}
	for s := Queued; s <= Canceled; s++ {
		o.Tasks[s.String()] = r.tasks.count(s)
	}
	by := map[jobs.Kind]map[State]int{}
	r.tasks.newest("", time.Time{}, func(t *Task) bool {
		o.Callbacks.Pending += len(t.Events)
		o.Callbacks.Dead += t.Callback.Dead
		if by[t.Kind] == nil {
			by[t.Kind] = map[State]int{}
		}
		by[t.Kind][t.State]++
		return true
	})
	for _, k := range r.Kinds().Kinds {
		n := by[k.Name]
		one := kindOverview{Kind: k.Name, Slots: k.Slots, GPUs: k.GPUs, Queued: n[Queued], Running: n[Running], Uploading: n[Uploading]}
		if until := r.pauses.until(k.Name); until.After(time.Now()) {
			one.PausedUntil = until.UTC()
		}
		one.PausedSince, _ = r.paused.since(k.Name)
		o.Kinds = append(o.Kinds, one)
		delete(by, k.Name)
	}
	for _, kind := range slices.Sorted(maps.Keys(by)) { // no longer in the file
		if n := by[kind]; n[Queued]+n[Running]+n[Uploading] > 0 {
			o.Kinds = append(o.Kinds, kindOverview{Kind: kind, Queued: n[Queued], Running: n[Running], Uploading: n[Uploading], Missing: true})
		}
	}
	return o
}

// whyQueued says why tasks of a kind are not started, if that is the kind's fault.
func (r *Relay) whyQueued(kind jobs.Kind) string {
	k := r.Kinds().Get(kind)
	switch until := r.pauses.until(kind); {
	case k == nil:
		return "its kind is no longer in the kinds file"
	case !r.runs(k):
		return "its kind needs a GPU, and this relay has none"
	case r.paused.has(kind):
		return "its kind is paused: resume it"
	case until.After(time.Now()):
		return "tasks of its kind have failed one after the other: it waits until " + until.UTC().Format(time.RFC3339)
	}
	return ""
}

// KindsChanged is called when the kinds file was read again: tasks that have waited for a kind may start, and others wait from
// now on.
func (r *Relay) KindsChanged() {
	waiting := map[jobs.Kind]int{}
	for _, e := range r.tasks.all(Queued) {
		waiting[e.task.Load().Kind]++
	}
	for kind, n := range waiting {
		if !r.runs(r.Kinds().Get(kind)) {
			r.Log.Warn("tasks wait for a kind that this relay cannot run", "kind", kind, "tasks", n, "why", r.whyQueued(kind))
		}
	}
	r.queue.Wake()
}

func (s *server) status(w http.ResponseWriter, _ *http.Request) error {
	return answer(w, http.StatusOK, s.relay.overview())
}
