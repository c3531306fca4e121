package pubsub

import (
	"context"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"

	"github.com/batchfleet/batchfleet/jobs"
)

// pulls are the pulls of one source, which its slots share: together they ask for no more
// messages than slots wait. A message that comes for a slot which has gone meanwhile is
// handed back at once.
type pulls struct {
	source *Source

	mu      sync.Mutex
	waiting []*slot // in the order in which they came
	leaving []*slot // whose contexts have ended; a message may be on its way to them
	calls   []*pull // under way
	asked   int     // messages that calls ask for, without those of calls that were called off
	young   *pull   // the newest, if slots that came after it still wait for its answer
}

// slot waits for one message.
type slot struct {
	ctx context.Context
	got chan pulled // takes one without blocking
}

// pulled is a message, or why there is none.
type pulled struct {
	message *pubsubpb.ReceivedMessage
	err     error
}

// pull is one call, which waits until there are messages.
type pull struct {
	n         int // messages it asks for
	ctx       context.Context
	cancel    context.CancelFunc
	calledOff bool
}

const (
	// maxPull is how many messages Pub/Sub gives in one answer.
	maxPull = 1000
	// pullPatience is how long a slot waits for the answer to a pull that began before it came.
	// One of a subscription with messages is answered by then, and one that is not must
	// not keep other slots waiting.
	pullPatience = 50 * time.Millisecond
	// replyGrace is how long a pull may still be answered after it was called off.
	// If it ended at once, a message whose reply is on its way would stay leased, and
	// unused, until its ack deadline.
	replyGrace = 200 * time.Millisecond
)

// next waits for a message. One may come back although ctx has ended, if it was on its way.
func (p *pulls) next(ctx context.Context) (*pubsubpb.ReceivedMessage, error) {
	s := &slot{ctx: ctx, got: make(chan pulled, 1)}
	p.mu.Lock()
	p.waiting = append(p.waiting, s)
	p.ask() //nolint:contextcheck // a pull is for several slots
	p.mu.Unlock()
	select {
	case got := <-s.got:
		return got.message, got.err
	case <-ctx.Done():
	}
	if p.leave(s) { //nolint:contextcheck // a pull is for several slots
		grace := time.NewTimer(p.source.grace)
		defer grace.Stop()
		select {
		case got := <-s.got:
			return got.orCause(ctx)
		case <-grace.C:
		}
		p.mu.Lock()
		p.leaving = without(p.leaving, s)
		p.mu.Unlock()
	}
	select { // it has come before the slot was taken off the list
	case got := <-s.got:
		return got.orCause(ctx)
	default:
		return nil, context.Cause(ctx)
	}
}

// orCause returns the message of a slot whose context has ended, or else the cause.
func (got pulled) orCause(ctx context.Context) (*pubsubpb.ReceivedMessage, error) {
	if got.message == nil {
		return nil, context.Cause(ctx)
	}
	return got.message, nil
}

// leave takes a slot off those that wait, and reports whether more messages may come than
// slots wait for: then one may be for this slot.
func (p *pulls) leave(s *slot) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting = without(p.waiting, s)
	coming := 0
	for _, c := range p.calls {
		coming += c.n
	}
	staying := 0
	for _, other := range p.waiting {
		if other.ctx.Err() == nil { // slots often leave together
			staying++
		}
	}
	// Not whenever a slot leaves: a pull that was called off may still be answered.
	if p.asked > 2*staying {
		p.callOff()
	}
	if staying > 0 {
		p.ask()
	}
	if coming <= len(p.waiting) || len(s.got) > 0 {
		return false
	}
	p.leaving = append(p.leaving, s)
	return true
}

// without returns slots but for one.
func without(slots []*slot, s *slot) []*slot {
	return slices.DeleteFunc(slots, func(other *slot) bool { return other == s })
}

// callOff calls off all calls. Each ends after the grace.
func (p *pulls) callOff() {
	for _, c := range p.calls {
		if !c.calledOff {
			c.calledOff = true
			time.AfterFunc(p.source.grace, c.cancel)
		}
	}
	p.asked, p.young = 0, nil
}

// ask begins a pull for the slots that no pull asks for yet, unless they are to wait for
// the answer of another one.
func (p *pulls) ask() {
	n := min(len(p.waiting)-p.asked, maxPull)
	if n <= 0 || p.young != nil {
		return
	}
	// Long polls: each deadline that strikes while a reply is on its way orphans
	// messages for a whole lease. At random, so that a fleet does not pull in step.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.waiting[0].ctx), 60*time.Second+rand.N(30*time.Second))
	c := &pull{n: n, ctx: ctx, cancel: cancel}
	p.calls, p.asked, p.young = append(p.calls, c), p.asked+n, c
	p.source.calls.Go(func() { p.run(c) })
}

// run makes one pull and hands its messages to slots.
func (p *pulls) run(c *pull) {
	defer c.cancel()
	patience := time.AfterFunc(pullPatience, func() { p.isOld(c) })
	defer patience.Stop()
	runtime.Gosched() // slots that are about to be free come along
	p.grow(c)
	began := time.Now()
	reply, err := p.source.client.Pull(c.ctx, &pubsubpb.PullRequest{
		Subscription: p.source.subscription, MaxMessages: int32(c.n), //nolint:gosec // at most maxPull
	})
	messages := reply.GetReceivedMessages()
	if isDeadline(err) {
		err = nil
	}
	if err == nil && len(messages) == 0 {
		// A server that answers empty at once must not make us spin.
		_ = jobs.Sleep(c.ctx, time.Second-time.Since(began))
	}
	if left := p.hand(c, messages, err); len(left) > 0 {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), callTimeout)
		defer cancel()
		_, _ = p.source.modify(ctx, left, 0) // if it fails, their jobs wait until the leases end
	}
}

// grow has a call that has not yet been sent ask for the slots that came after it as well.
func (p *pulls) grow(c *pull) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if more := min(len(p.waiting)-p.asked, maxPull-c.n); more > 0 && !c.calledOff {
		c.n += more
		p.asked += more
	}
}

// isOld lets slots that wait for the answer of a call begin another one.
func (p *pulls) isOld(c *pull) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.young == c {
		p.young = nil
		p.ask()
	}
}

// hand hands messages, or the error of a pull, to slots. It returns the ack ids of messages that no
// slot waits for.
func (p *pulls) hand(c *pull, messages []*pubsubpb.ReceivedMessage, err error) (left []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = slices.DeleteFunc(p.calls, func(other *pull) bool { return other == c })
	if !c.calledOff {
		p.asked -= c.n
	}
	if p.young == c {
		p.young = nil
	}
	for _, m := range messages {
		switch {
		case len(p.waiting) > 0:
			hand(&p.waiting, pulled{message: m})
		case len(p.leaving) > 0:
			hand(&p.leaving, pulled{message: m})
		default:
			left = append(left, m.GetAckId())
		}
	}
	if err != nil && !c.calledOff {
		err = translate("pull from "+p.source.subscription, err)
		for range min(c.n, len(p.waiting)) {
			hand(&p.waiting, pulled{err: err})
		}
	}
	p.ask()
	return left
}

// hand gives what was pulled to the first of some slots, and takes it off them.
func hand(slots *[]*slot, got pulled) {
	first := (*slots)[0]
	(*slots)[0] = nil
	*slots = (*slots)[1:]
	first.got <- got
}
