package client

import "github.com/batchfleet/batchfleet/grid/wire"

// recentJobs is how many of the last jobs that have ended are remembered at least.
const recentJobs = 1 << 16

// recent is a set of ids that forgets the oldest half when it is full.
type recent struct{ young, old map[wire.GUID]struct{} }

func (r *recent) add(id wire.GUID) {
	if r.young == nil {
		r.young = map[wire.GUID]struct{}{}
	}
	r.young[id] = struct{}{}
	if len(r.young) >= recentJobs {
		r.young, r.old = r.old, r.young
		clear(r.young)
	}
}

func (r *recent) has(id wire.GUID) bool {
	if _, ok := r.young[id]; ok {
		return true
	}
	_, ok := r.old[id]
	return ok
}

func (r *recent) remove(id wire.GUID) {
	delete(r.young, id)
	delete(r.old, id)
}
