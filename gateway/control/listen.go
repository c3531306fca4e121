package control

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/jobs"
)

// listenersOfJob is how many heartbeats of one job may wait: its worker needs one,
// and another when the answer to that was lost.
const listenersOfJob = 4

// listeners are the heartbeats that wait for their job to be canceled.
type listeners struct {
	mu      sync.Mutex
	of      map[jobs.ID]map[*listener]struct{} // a repeated one is one more
	n, most int
	arrived chan struct{} // holds one when somebody has begun to listen
}

// listener is one of them.
type listener struct {
	job  jobs.ID
	word chan struct{} // holds one when its job may have been canceled
}

func (ls *listeners) init(most int) {
	ls.of, ls.most, ls.arrived = map[jobs.ID]map[*listener]struct{}{}, most, make(chan struct{}, 1)
}

// join begins to listen, or returns nil when too many do already, of all jobs or of
// this one. Whoever joins
// before asking whether the job is canceled misses nothing.
func (ls *listeners) join(job jobs.ID) *listener {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.n >= ls.most || len(ls.of[job]) >= listenersOfJob {
		return nil
	}
	me := &listener{job: job, word: make(chan struct{}, 1)}
	if ls.of[job] == nil {
		ls.of[job] = map[*listener]struct{}{}
	}
	ls.of[job][me] = struct{}{}
	ls.n++
	select {
	case ls.arrived <- struct{}{}:
	default:
	}
	return me
}

func (ls *listeners) leave(me *listener) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	delete(ls.of[me.job], me)
	if len(ls.of[me.job]) == 0 {
		delete(ls.of, me.job)
	}
	ls.n--
}

// wake tells those who listen for a job that it may have been canceled.
func (ls *listeners) wake(job jobs.ID) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for l := range ls.of[job] {
		select {
		case l.word <- struct{}{}:
		default:
		}
	}
}

func (ls *listeners) len() int {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return ls.n
}

// extend extends a lease, and then waits for its job to be canceled: until the time
// is over, the server stops or the caller goes away. It reports whether it has
// waited; it does not when too many do.
func (c *Control) extend(ctx context.Context, rep *report, tells queue.Beat, wait time.Duration) (e queue.Extended, waited bool, err error) {
	call := func(b queue.Beat) (queue.Extended, error) {
		ctx, cancel := c.deadline(ctx)
		defer cancel()
		return c.Queue.Extend(ctx, rep.Caller, rep.job, rep.lease, b)
	}
	if wait <= 0 {
		e, err = call(tells)
		return e, false, err
	}
	me := c.listening.join(rep.job)
	if me != nil {
		defer c.listening.leave(me)
	}
	if e, err = call(tells); err != nil || e.Cancel || me == nil {
		return e, e.Cancel, err
	}
	defer timeWait(ctx)()
	over := time.NewTimer(wait)
	defer over.Stop()
	for {
		select {
		case <-me.word:
			// What the lease says now counts; the word may be an old one.
			if e, err = call(queue.Beat{}); err != nil || e.Cancel {
				return e, true, err
			}
			continue
		case <-ctx.Done():
		case <-httpd.Stopping(ctx):
		case <-over.C:
		}
		e.TTL = left(c.Queue, e)
		return e, true, nil
	}
}

// left returns how long a lease lasts that was extended some time ago.
func left(q *queue.Queue, e queue.Extended) time.Duration {
	return max(0, e.Until.Sub(q.Now())).Round(time.Millisecond)
}

// Cancel asks for a job to be stopped, as [queue.Queue.Cancel] does, and tells its
// worker at once if that listens here.
func (c *Control) Cancel(ctx context.Context, id jobs.ID) (ended string, err error) {
	c.init()
	ended, err = c.Queue.Cancel(ctx, id)
	c.listening.wake(id) // after an error, too: it may have been done all the same
	return ended, err
}

// clockStep is by how much the clock of Redis may be set back without a request to
// cancel being missed.
const clockStep = time.Second

// listen tells the heartbeats that wait of jobs that were canceled by another
// gateway, as long as one waits. It returns when ctx ends.
func (c *Control) listen(ctx context.Context) {
	tick := time.NewTicker(cmp.Or(c.Listen, time.Second/2))
	defer tick.Stop()
	well := true
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.listening.arrived:
		}
		for since := int64(0); c.listening.len() > 0; {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			ids, at, err := c.canceled(ctx, since)
			if err != nil && well && ctx.Err() == nil {
				c.Log.WarnContext(ctx, "cannot look for canceled jobs", "err", err)
			}
			if well = err == nil; well {
				since = at - clockStep.Milliseconds()
			}
			for _, id := range ids {
				c.listening.wake(id)
			}
		}
	}
}

func (c *Control) canceled(ctx context.Context, since int64) ([]jobs.ID, int64, error) {
	ctx, cancel := c.deadline(ctx)
	defer cancel()
	return c.Queue.Cancels(ctx, since)
}
