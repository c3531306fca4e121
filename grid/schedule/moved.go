package schedule

import "github.com/batchfleet/batchfleet/jobs"

// set gives a job that has not ended its next state.
func (c *Core) set(j *job, s state) { c.become(j, s, j.outcome) }

// become gives a job its next state, and its outcome.
func (c *Core) become(j *job, s state, outcome jobs.State) {
	before := j.jobState()
	j.state, j.outcome = s, outcome
	c.moved(j, before)
}

// moved tells of a job whose state was another one before.
func (c *Core) moved(j *job, before jobs.State) {
	after := j.jobState()
	if after == before {
		return
	}
	if c.cfg.Moved != nil {
		c.cfg.Moved(j.line.exec.key.name, before, after)
	}
	if after != 0 {
		c.note(j)
	}
}

// note tells that a job has changed: see [Core.Changed].
func (c *Core) note(j *job) {
	if !c.replaying {
		c.changed = append(c.changed, j.id)
	}
}
