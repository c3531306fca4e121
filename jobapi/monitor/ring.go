package monitor

import (
	"crypto/rand"
	"strconv"
	"strings"
	"sync"

	"github.com/batchfleet/batchfleet/jobs"
)

// kept is how many changes are kept for streams that come back, or are slow.
const kept = 10_000

// change is a job that has changed, or the news that changes of a scope were lost.
type change struct {
	scope, kind, id string
	lost            bool       // lists of the scope are to be read again; there is no job
	now             jobs.State // of the job
	was             states     // that it may have had before
	text            []byte     // of its event, without the id
}

// states is a set of states.
type states uint16

func (s states) with(state jobs.State) states { return s | 1<<state }
func (s states) has(state jobs.State) bool    { return s&(1<<state) != 0 }

// place is where in the changes of an epoch a reader is: behind n of them.
type place struct {
	epoch string
	n     uint64
}

// String returns the id of an event.
func (p place) String() string { return p.epoch + "-" + strconv.FormatUint(p.n, 10) }

func parsePlace(id string) place {
	epoch, text, _ := strings.Cut(id, "-")
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || len(epoch) > 40 {
		return place{}
	}
	return place{epoch, n}
}

// ring keeps the newest changes. Use restart first.
type ring struct {
	mu    sync.Mutex
	epoch string   // places of another one are lost
	all   []change // number i is at i % kept
	made  uint64
	more  chan struct{} // closed at the next change
}

// restart forgets all: places from before are lost.
func (r *ring) restart() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.epoch, r.all, r.made = rand.Text()[:12], nil, 0
	r.wake()
}

func (r *ring) wake() {
	if r.more != nil {
		close(r.more)
	}
	r.more = make(chan struct{})
}

func (r *ring) add(changes ...change) {
	if len(changes) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range changes {
		if len(r.all) < kept {
			r.all = append(r.all, c)
		} else {
			r.all[r.made%kept] = c
		}
		r.made++
	}
	r.wake()
}

// knows reports whether what comes behind a place is kept.
func (r *ring) knows(p place) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.has(p)
}

func (r *ring) has(p place) bool {
	return p.epoch == r.epoch && p.n <= r.made && r.made-p.n <= uint64(len(r.all))
}

// since returns the changes behind a place, the place behind them, and a channel that is closed when there are more. lost
// means that some of them are no longer kept; then there are none, and next is the present.
func (r *ring) since(p place) (changes []change, next place, lost bool, more <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	next = place{r.epoch, r.made}
	if !r.has(p) {
		return nil, next, true, r.more
	}
	for n := p.n; n < r.made; n++ {
		changes = append(changes, r.all[n%kept])
	}
	return changes, next, false, r.more
}
