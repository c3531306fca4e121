package schedule

import (
	"fmt"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/grid/subject"
	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/jobs"
)

// Info is what is known of a job.
type Info struct {
	ID        wire.GUID
	Client    string
	Exec      string
	State     jobs.State
	Attempts  int // attempts that have not ended it
	Crashes   int
	Born      Moment // when it was submitted
	Since     Moment // when it got this state
	Worker    string // host of the worker that runs it
	Dead      bool   // it is a dead letter
	Delivered bool   // its client has the result
	Message   string // the newest message of its worker, while it runs
	Reason    string // why it has failed
	History   []Attempt
	First     int64 // the indexes of an array
	Last      int64
	Done      int64     // how many of them have ended
	Failed    int64     // and how many of those have not succeeded
	Array     wire.GUID // the array of an element
	Index     int64
	Body      Body // the request, or the result of a job that has ended
	Request   Body // the request of a dead letter
}

// Get returns what is known of a job, and false if nothing is.
func (c *Core) Get(id wire.GUID) (Info, bool) {
	j := c.jobs[id]
	if j == nil {
		return Info{}, false
	}
	return c.info(j), true
}

func (c *Core) info(j *job) Info {
	i := Info{
		ID: j.id, Client: j.line.client.name, Exec: j.line.exec.key.name, State: j.jobState(), Attempts: int(j.attempts), Crashes: int(j.crashes), Born: j.born, Since: j.since,
		Dead: j.state == dead, Delivered: !j.isOpen() && !c.owed(j), Body: j.theBody(), Index: -1,
	}
	if j.run != nil {
		i.Worker = j.run.worker.host
	}
	r := j.rare
	if r == nil {
		return i
	}
	i.History = r.history
	if r.log != nil {
		i.Message = r.log.message
	}
	if !j.isOpen() && i.State == jobs.Failed {
		i.Reason = r.last
	}
	if r.dead != nil {
		i.Reason, i.Request, i.Body = r.dead.reason, j.theBody(), j.result()
	}
	if j.state == running && j.run == nil {
		i.Worker = r.last
	}
	if a := r.array; a != nil && r.index < 0 {
		i.First, i.Last, i.Done, i.Failed = a.first, a.last, a.ended, a.failed
	}
	i.Array, i.Index = r.arrayID, r.index
	return i
}

func (j *job) jobState() jobs.State {
	switch j.state {
	case queued, delayed:
		return jobs.Queued
	case running, parent:
		return jobs.Running
	case ended, dead:
		return j.outcome
	}
	return 0
}

// Query returns the Status of a job for its client; an empty name may see all jobs.
func (c *Core) Query(now Moment, clientName string, id wire.GUID) wire.StatusInfo {
	c.at(now)
	j := c.jobs[id]
	if j == nil || clientName != "" && j.line.client.name != clientName {
		return wire.StatusInfo{JobID: id, State: "unknown", Why: "this leader has no such job"}
	}
	i := c.info(j)
	attempt := i.Attempts
	if !i.Dead {
		attempt++
	}
	return wire.StatusInfo{JobID: id, State: i.State.String(), Attempt: attempt, Worker: i.Worker, Position: c.position(j), Why: c.Explain(now, id)}
}

// maxPosition is how many jobs are counted to find the position of one.
const maxPosition = 10_000

// position returns the position of a queued job among those of its client and exec, from 1; 0 if it is not queued, or beyond maxPosition.
func (c *Core) position(j *job) int {
	if j.state != queued {
		return 0
	}
	n := 1
	for _, lane := range j.line.lanes {
		if lane.priority > j.options().priority {
			n += lane.n
		}
	}
	for p := j.prev; p != nil; p = p.prev {
		if n++; n > maxPosition {
			return 0
		}
	}
	return n
}

// Explain returns why a job is in its state, as a sentence for people.
func (c *Core) Explain(now Moment, id wire.GUID) string {
	c.at(now)
	j := c.jobs[id]
	if j == nil {
		return "this leader has no such job"
	}
	since := jobs.Span((c.now - j.since).Round(time.Second))
	switch j.state {
	case delayed:
		return fmt.Sprintf("attempt %d begins in %s; the last one has failed: %s", j.attempts+1, jobs.Span((j.rare.timer.at - c.now).Round(time.Second)), j.rare.last)
	case running:
		if j.run == nil {
			return fmt.Sprintf("it was running on %s when the leader ended; it is queued again unless that worker comes back within %s", j.rare.last, jobs.Span((c.cfg.Recovery - j.rare.waited).Round(time.Second)))
		}
		said := "has said that it runs it"
		if !j.run.accepted {
			said = "has not said yet that it runs it"
		}
		return fmt.Sprintf("attempt %d is on %s for %s, which %s", j.run.number, j.run.worker.host, since, said)
	case parent:
		a := j.rare.array
		return fmt.Sprintf("%d of %d jobs of the array have ended, %d of them have not succeeded", a.ended, a.size(), a.failed)
	case dead:
		return "it is a dead letter: " + j.rare.dead.reason
	case ended:
		return c.explainEnded(j, since)
	case queued:
		_, text := c.explainQueued(j)
		return text
	}
	return ""
}

func (c *Core) explainEnded(j *job, since string) string {
	what := "it has " + j.outcome.String()
	if j.outcome == jobs.Canceled {
		what = "it was canceled"
	}
	if j.outcome == jobs.Failed && j.rare != nil && j.rare.last != "" {
		what += " (" + j.rare.last + ")"
	}
	if !c.owed(j) {
		return what + " " + since + " ago, and its client has the result"
	}
	return what + " " + since + " ago, and its client has not fetched the result"
}

// before says how many jobs of its client and exec are before a queued job; empty for none, or if that is not known.
func (c *Core) before(j *job) string {
	n := c.position(j)
	if n <= 1 {
		return ""
	}
	return fmt.Sprintf("%s of %s for %s %s before it", jobs.Count(n-1, "job"), j.line.client.name, j.line.exec.key.name, jobs.Are(n-1))
}

// explainQueued returns why a queued job is not started, in a word and in a sentence.
func (c *Core) explainQueued(j *job) (WhyCode, string) {
	code, text := c.blocked(j)
	if before := c.before(j); before != "" {
		text += "; " + before
	}
	return code, text
}

func (c *Core) blocked(j *job) (WhyCode, string) {
	e, cl := j.line.exec, j.line.client
	switch {
	case c.paused[e.key.name] != 0:
		return WhyPaused, e.key.name + " is paused: resume it"
	case cl.results >= c.cfg.MaxResults:
		return WhyQueued, fmt.Sprintf("%s has %d MiB of results to fetch, at most %d: connect it", cl.name, cl.results>>20, c.cfg.MaxResults>>20)
	case cl.running >= cl.cap:
		return WhyQueued, fmt.Sprintf("%s runs %s, as many as it may (%d)", cl.name, jobs.Count(cl.running, "job"), cl.cap)
	}
	var matching, running, draining int
	for _, p := range c.peers {
		if p.group != nil && p.group.takes(e.key) {
			matching++
			running += len(p.running)
			if p.draining || p.withheld {
				draining++
			}
		}
	}
	switch {
	case matching == 0:
		return WhyNoWorker, fmt.Sprintf("no worker takes %s%s: %s", wire.AssignPrefix, e.key.name, c.patterns(e))
	case draining == matching:
		return WhyDraining, fmt.Sprintf("%s would take it, and all of them are stopping, or are given no jobs", jobs.Count(matching, "worker"))
	}
	return WhyNoSlot, fmt.Sprintf("%s would take it, with %s running, and none has a free slot", jobs.Count(matching, "worker"), jobs.Count(running, "job"))
}

// patterns returns which patterns the connected workers have, as text.
func (c *Core) patterns(e *exec) string {
	if len(c.groups) == 0 {
		return "no worker is connected"
	}
	const most = 5
	var all []string
	for key := range c.groups {
		if subject.Match(key.pattern, wire.AssignPrefix+e.key.name) {
			return "the workers that match cannot run jobs of arrays"
		}
		if len(all) < most {
			all = append(all, key.pattern)
		}
	}
	return "the connected workers take " + strings.Join(all, ", ")
}
