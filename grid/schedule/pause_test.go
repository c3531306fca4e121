package schedule

import (
	"maps"

	"pgregory.net/rapid"

	"github.com/batchfleet/batchfleet/jobs"
)

// tally counts jobs by exec and state as [Config.Moved] tells of them.
type tally map[tallied]int

type tallied struct {
	exec  string
	state jobs.State
}

func (t tally) moved(exec string, from, to jobs.State) {
	for state, n := range map[jobs.State]int{from: -1, to: 1} {
		if state == 0 {
			continue
		}
		if t[tallied{exec, state}] += n; t[tallied{exec, state}] == 0 {
			delete(t, tallied{exec, state})
		}
	}
}

// auditTally compares what was told of changes with all jobs there are.
func (w *world) auditTally(c *Core) {
	want := tally{}
	for _, j := range c.jobs {
		want[tallied{j.line.exec.key.name, j.jobState()}]++
	}
	if got := w.tallies[c]; !maps.Equal(got, want) {
		w.Fatalf("D-01: jobs are counted as %v, and are %v", got, want)
	}
}

func (w *world) pause(t *rapid.T) {
	if rapid.IntRange(0, 2).Draw(t, "seldom") > 0 {
		t.Skip("not now")
	}
	w.c.Pause(w.now, rapid.SampledFrom(simExecs).Draw(t, "exec"))
}

func (w *world) resume(t *rapid.T) { w.c.Resume(w.now, rapid.SampledFrom(simExecs).Draw(t, "exec")) }

func (w *world) withhold(t *rapid.T) {
	_, s := pick(t, w.workers, live)
	if !w.c.Withhold(w.now, s.guid, rapid.Bool().Draw(t, "withheld")) {
		w.Fatalf("D-05: a worker that is here is not known")
	}
}

// paused replays records, and compares which execs are paused then.
func (w *world) paused(all [][]byte) {
	if got := w.replay(all).paused; !maps.Equal(got, w.c.paused) {
		w.Fatalf("D-06: after a replay %v are paused, before %v", got, w.c.paused)
	}
}
