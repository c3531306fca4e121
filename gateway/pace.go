package gateway

import (
	"context"
	"crypto/rand"
	mathrand "math/rand/v2"
	"sync"
	"time"
)

// How often to ask for a job while there is none: every 5 s at first, doubled up
// to 20 s, each with up to a half more at random.
const (
	pollMin = 5 * time.Second
	pollMax = 20 * time.Second
)

// pace says when to ask for a job again. Only one slot of a worker asks at a
// time: the others would only ask more.
type pace struct {
	turn chan struct{} // holds a token while a slot has the turn

	mu     sync.Mutex
	every  time.Duration
	next   time.Time     // not before, but for a job that ends
	barred time.Time     // not before, as the control plane has said
	hurry  chan struct{} // closed when a job ends
	asked  string        // the request id of an ask that has not brought a job
}

func newPace() *pace {
	return &pace{turn: make(chan struct{}, 1), every: pollMin, hurry: make(chan struct{})}
}

// begin waits for the turn, and then until it is time to ask. The caller ends
// its turn unless there is an error.
func (p *pace) begin(ctx context.Context) error {
	select {
	case p.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	for {
		p.mu.Lock()
		now := time.Now()
		wait, hurry := p.next.Sub(now), p.hurry
		if barred := p.barred.Sub(now); barred > 0 {
			wait, hurry = barred, nil
		}
		p.mu.Unlock()
		if wait <= 0 && ctx.Err() == nil {
			return nil
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			p.end()
			return context.Cause(ctx)
		case <-timer.C:
		case <-hurry:
			timer.Stop()
		}
	}
}

func (p *pace) end() { <-p.turn }

// empty takes note that there was no job when asked at the given time. A control
// plane that waits for jobs by itself sets the pace.
func (p *pace) empty(asked time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	every := p.every + mathrand.N(p.every/2)
	if time.Since(asked) >= every {
		return
	}
	p.next = asked.Add(every)
	p.every = min(2*p.every, pollMax)
}

// job takes note that a job was leased or has ended: the next may be asked for
// at once.
func (p *pace) job() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.every, p.next = pollMin, time.Time{}
	close(p.hurry)
	p.hurry = make(chan struct{})
}

// bar keeps all slots from asking for d.
func (p *pace) bar(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if d > 0 {
		p.barred = time.Now().Add(d)
	}
}

// request returns the request id to ask with. It stays the same until a job has
// come: an answer that was lost may have been a lease, and the same question
// brings it again.
func (p *pace) request() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asked == "" {
		p.asked = rand.Text()
	}
	return p.asked
}

// answered takes note that the request has brought a job.
func (p *pace) answered() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = ""
}
