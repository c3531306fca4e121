package schedule

import (
	"slices"

	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/jobs"
)

// deadLetter is what a dead letter has beside its request, which is kept so that the job can be queued again.
type deadLetter struct {
	reason string
	result []byte
}

// giveUp makes a job a dead letter, and sends its client a failed result, with the output of the last attempt if its worker has sent that. No
// worker has the job.
func (c *Core) giveUp(j *job, reason string, last *Ended) {
	c.deadLetter(j, reason, c.ownResult(j, wire.ReasonDeadLetter, reason, last))
}

func (c *Core) deadLetter(j *job, reason string, result Body) {
	c.outOfLine(j)
	c.trimLog(j, maxEndedLog)
	c.untie(j)
	r := j.more()
	r.dead = &deadLetter{reason: reason, result: result.Bytes}
	r.last = wire.ReasonDeadLetter
	c.bytes += result.memory()
	c.become(j, dead, jobs.Failed)
	j.since = c.now
	c.open--
	c.write(j, deadRecord)
	c.Counts.Dead++
	c.dead = append(c.dead, j)
	if of, index, ok := j.element(); ok { // it may be kept longer than its array, which has the request
		c.setBody(j, elementBody(of, j.id, index))
	}
	c.closed(j)
	if len(c.dead) > c.cfg.MaxDead {
		c.drop(c.dead[0])
	}
}

// Requeue queues the job of a dead letter again, as if it had never run. It reports whether there is such a dead letter.
func (c *Core) Requeue(now Moment, id wire.GUID) bool {
	c.at(now)
	j := c.jobs[id]
	if j == nil || j.state != dead {
		return false
	}
	c.write(j, requeueRecord)
	c.requeue(j)
	return true
}

// requeue queues the job of a dead letter. An element no longer belongs to its array, which has counted it as failed.
func (c *Core) requeue(j *job) {
	if c.owed(j) {
		c.settle(j)
	}
	c.removeDead(j)
	j.attempts, j.crashes = 0, 0
	r := j.rare
	r.history, r.avoid, r.cutOff, r.last, r.cancel, r.opts.tie = nil, wire.GUID{}, wire.GUID{}, "", false, false
	c.open++
	c.enqueue(j, false)
	j.outcome = 0
}

// Drop forgets a dead letter. It reports whether there is such a dead letter.
func (c *Core) Drop(now Moment, id wire.GUID) bool {
	c.at(now)
	j := c.jobs[id]
	if j == nil || j.state != dead {
		return false
	}
	c.write(j, dropRecord)
	c.drop(j)
	return true
}

// drop forgets the request of a dead letter, and the rest of it when its client has the result.
func (c *Core) drop(j *job) {
	result := j.result()
	c.removeDead(j)
	j.state = ended
	if j.list == nil {
		c.forget(j)
		return
	}
	c.unstore(j.theBody())
	c.setBody(j, result)
}

// removeDead takes a job out of the dead letters.
func (c *Core) removeDead(j *job) {
	if i := slices.Index(c.dead, j); i >= 0 {
		c.dead = slices.Delete(c.dead, i, i+1)
	}
	c.bytes -= int64(len(j.rare.dead.result))
	j.rare.dead = nil
}
