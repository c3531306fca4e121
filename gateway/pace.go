package gateway

import (
	"context"
	"crypto/rand"
	mathrand "math/rand/v2"
	"sync"
	"time"
)

// Intervals between requests while there are no jobs: 5 s at first, doubled up to 20 s,
// each with up to a half more at random.
const (
	pollMin = 5 * time.Second
	pollMax = 20 * time.Second
)

// pace decides when to request a job. Only one slot of a worker does at a time: more
// would only make more requests.
type pace struct {
	turn chan struct{} // holds a token while a slot has the turn

	mu        sync.Mutex
	every     time.Duration
	next      time.Time     // of the next request; jobEnded cuts it short
	notBefore time.Time     // from the control plane's Retry-After
	jobEnded  chan struct{} // closed when a job was leased or has ended
	requestID string        // of requests that have not brought a job
}

func newPace() *pace {
	return &pace{turn: make(chan struct{}, 1), every: pollMin, jobEnded: make(chan struct{})}
}

// begin waits for the turn, and then for the time of the next request. The caller calls
// end, unless there is an error.
func (p *pace) begin(ctx context.Context) error {
	select {
	case p.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
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
			return nil
		}
		select {
		case <-ctx.Done():
			p.end()
			return context.Cause(ctx)
		case <-time.After(wait):
		case <-jobEnded:
		}
	}
}

func (p *pace) end() { <-p.turn }

// noJob records that a request made at the given time has brought no job. A control plane
// that holds requests sets the pace itself.
func (p *pace) noJob(sent time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
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

// request returns the id of the next request. It stays the same until a job has come: a
// response that was lost may have been a lease, and the same id brings it again.
func (p *pace) request() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.requestID == "" {
		p.requestID = rand.Text()
	}
	return p.requestID
}

// gotJob records that the request has brought a job.
func (p *pace) gotJob() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requestID = ""
}
