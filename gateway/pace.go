package gateway

import (
	"context"
	"crypto/rand"
	mathrand "math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/batchfleet/batchfleet/gateway/wire"
)

// Intervals between requests while there are no jobs: 5 s at first, doubled up to 20 s,
// each with up to a half more at random.
const (
	pollMin = 5 * time.Second
	pollMax = 20 * time.Second
)

// pace decides when to request jobs. Only one slot of a worker does at a time, for all
// that wait then: more would only make more requests.
type pace struct {
	turn chan struct{} // holds a token while a slot has the turn

	mu        sync.Mutex
	waiting   []*slot // those between begin and end, the longest first
	every     time.Duration
	next      time.Time     // of the next request; jobEnded cuts it short
	notBefore time.Time     // from the control plane's Retry-After
	jobEnded  chan struct{} // closed when a job was leased or has ended
	requestID string        // of requests that have not brought a job
	several   bool          // one of those was for several jobs
	brought   int           // jobs by the last request
}

// leased is a job that a request has brought.
type leased struct {
	wire.LeaseResponse
	asked time.Time // when the request was made
	entry entry
	err   error // why the entry is not on disk
}

// slot is one of the worker that waits for a job.
type slot struct {
	job chan *leased // holds the one that the request of another slot has brought
}

func newPace() *pace {
	return &pace{turn: make(chan struct{}, 1), every: pollMin, jobEnded: make(chan struct{})}
}

// begin waits for the turn, and then for the time of the next request. The caller calls
// end with the slot, unless there is an error or a job, which another slot's request has brought.
func (p *pace) begin(ctx context.Context) (*slot, *leased, error) {
	me := &slot{job: make(chan *leased, 1)}
	p.mu.Lock()
	p.waiting = append(p.waiting, me)
	p.mu.Unlock()
	select {
	case p.turn <- struct{}{}:
	case job := <-me.job:
		return nil, job, nil
	case <-ctx.Done():
		if job := p.leave(me); job != nil {
			return nil, job, nil
		}
		return nil, nil, context.Cause(ctx)
	}
	select {
	case job := <-me.job: // it came before the turn
		<-p.turn
		return nil, job, nil
	default:
	}
	for {
		p.mu.Lock()
		now := time.Now()
		wait, jobEnded := p.next.Sub(now), p.jobEnded
		if d := p.notBefore.Sub(now); d > 0 {
			wait, jobEnded = d, nil
		}
		p.mu.Unlock()
		if wait <= 0 && ctx.Err() == nil {
			return me, nil, nil
		}
		select {
		case <-ctx.Done():
			p.end(me)
			return nil, nil, context.Cause(ctx)
		case <-time.After(wait):
		case <-jobEnded:
		}
	}
}

// end gives the turn to the next slot.
func (p *pace) end(me *slot) {
	p.leave(me)
	<-p.turn
}

// leave ends the wait of a slot. It returns a job that has come for it.
func (p *pace) leave(me *slot) *leased {
	p.mu.Lock()
	p.waiting = slices.DeleteFunc(p.waiting, func(s *slot) bool { return s == me })
	p.mu.Unlock()
	select {
	case job := <-me.job:
		return job
	default:
		return nil
	}
}

// handOut gives each waiting slot one of the jobs that a request has brought, and first me, the slot
// that made it. It returns the jobs that are left because their slots no longer wait.
func (p *pace) handOut(me *slot, all []leased) (mine *leased, rest []leased) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting = slices.DeleteFunc(p.waiting, func(s *slot) bool { return s == me })
	mine, all = &all[0], all[1:]
	n := min(len(all), len(p.waiting))
	for i, s := range p.waiting[:n] {
		s.job <- &all[i]
	}
	p.waiting = slices.Delete(p.waiting, 0, n)
	return mine, all[n:]
}

// noJob records that a request made at the given time has brought no job. A control plane
// that holds requests sets the pace itself.
func (p *pace) noJob(sent time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.brought = 0
	every := p.every + mathrand.N(p.every/2)
	if time.Since(sent) >= every {
		return
	}
	p.next = sent.Add(every)
	p.every = min(2*p.every, pollMax)
}

// jobChanged records that a job was leased or has ended: the next may be requested at
// once.
func (p *pace) jobChanged() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.every, p.next = pollMin, time.Time{}
	close(p.jobEnded)
	p.jobEnded = make(chan struct{})
}

// delay keeps all slots from requesting jobs for d.
func (p *pace) delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if d > 0 {
		p.notBefore = time.Now().Add(d)
	}
}

// request returns the id of the next request, and for how many jobs it is: as many as slots
// wait. The id stays the same until a job has come: a response that was lost may have been a lease,
// and the same id brings it again. several is whether the response may be a list.
func (p *pace) request() (id string, most int, several bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.requestID == "" {
		p.requestID = rand.Text()
	}
	most = min(max(len(p.waiting), 1), wire.MaxBatch)
	p.several = p.several || most > 1
	return p.requestID, most, p.several
}

// gotJobs records that the request has brought so many jobs.
func (p *pace) gotJobs(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requestID, p.several, p.brought = "", false, n
}

// gather waits a moment while fewer slots wait than the last request has brought jobs: the others may be about to.
func (p *pace) gather() {
	p.mu.Lock()
	more := len(p.waiting) < p.brought
	p.mu.Unlock()
	if more {
		time.Sleep(gatherFor)
	}
}
