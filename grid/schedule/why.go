package schedule

import "github.com/batchfleet/batchfleet/grid/wire"

// WhyCode says in one word why a job is as it is.
type WhyCode uint8

// The codes.
const (
	WhyQueued   WhyCode = iota + 1 // behind others, or its client may not run more
	WhyNoWorker                    // no connected worker takes it
	WhyNoSlot                      // none of those that would take it has credit
	WhyDraining                    // all of them are stopping, or are given no jobs
	WhyPaused                      // its exec is paused
	WhyDelayed                     // until its next attempt
	WhyLeased                      // a worker has it, or workers have the jobs of an array
	WhySilent                      // its worker has not come back since the leader was started
	WhyEnded
)

// Why is why a job is as it is.
type Why struct {
	Code   WhyCode
	Text   string // a sentence
	Ahead  int    // of WhyQueued: how many jobs of its client and exec are before it; -1 if that is not known
	Worker string // that has it
	Since  Moment
	Until  Moment // 0 if that is not known
}

// Why returns the reasons, the one to act on first; none if there is no such job.
func (c *Core) Why(now Moment, id wire.GUID) []Why {
	c.at(now)
	j := c.jobs[id]
	if j == nil {
		return nil
	}
	w := Why{Text: c.Explain(now, id), Since: j.since, Ahead: -1}
	switch j.state {
	case queued:
		return c.whyQueued(j)
	case delayed:
		w.Code, w.Until = WhyDelayed, j.rare.timer.at
	case running:
		if j.run == nil {
			w.Code, w.Worker, w.Until = WhySilent, j.rare.last, c.recoverUntil
			break
		}
		w.Code, w.Worker, w.Until = WhyLeased, j.run.worker.host, j.run.timer.at
	case parent:
		w.Code = WhyLeased
	case ended, dead:
		w.Code = WhyEnded
	}
	return []Why{w}
}

func (c *Core) whyQueued(j *job) []Why {
	code, text := c.explainQueued(j)
	ahead := c.position(j) - 1
	first := Why{Code: code, Text: text, Ahead: ahead, Since: j.since}
	if code == WhyQueued {
		return []Why{first}
	}
	if code == WhyPaused {
		first.Since = Moment(c.paused[j.line.exec.key.name]-c.cfg.Epoch.UnixMilli()) * 1e6
	}
	first.Ahead = -1
	place := "it is the next one of " + j.line.client.name + " for " + j.line.exec.key.name
	if before := c.before(j); before != "" {
		place = before
	}
	return []Why{first, {Code: WhyQueued, Text: place, Ahead: ahead, Since: j.since}}
}
