package schedule

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/grid/wire"
)

func TestD06PausedExecWaits(t *testing.T) {
	s := newPauseStory(t, Config{})
	s.client("a", 10)
	s.worker(1, "job.assign.>", 10)
	if !s.Pause(0, "calc") || s.Pause(time.Hour, "calc") || s.Resume(0, "other") {
		t.Error("what was changed is not told")
	}
	id := s.submit("calc")
	if s.state(id) != queued {
		t.Errorf("a job of a paused exec is %d", s.state(id))
	}
	other := s.submit("other")
	if s.state(other) != running {
		t.Errorf("a job of another exec is %d", s.state(other))
	}
	why := s.Why(0, id)
	if len(why) != 2 || why[0].Code != WhyPaused || why[0].Text != "calc is paused: resume it" || why[1].Code != WhyQueued || why[1].Ahead != 0 {
		t.Errorf("why: %+v", why)
	}
	again := s.replayed()
	if p := again.Paused(); len(p) != 1 || p[0].Exec != "calc" || !p[0].Since.Equal(s.Paused()[0].Since) {
		t.Errorf("after a replay paused: %v", p)
	}
	if !s.Resume(0, "calc") || len(s.Paused()) != 0 {
		t.Error("it was not resumed")
	}
	s.Take()
	if s.state(id) != running {
		t.Errorf("a job of an exec that was resumed is %d", s.state(id))
	}
}

func TestD05WithheldWorkerGetsNoJobs(t *testing.T) {
	s := newPauseStory(t, Config{})
	s.client("a", 10)
	first := s.worker(1, "job.assign.>", 10)
	if s.Withhold(0, wire.NewGUID(), true) {
		t.Error("a worker that is not there was drained")
	}
	running1 := s.submit("calc")
	if !s.Withhold(0, first, true) {
		t.Error("the worker is not known")
	}
	waits := s.submit("calc")
	if s.state(running1) != running || s.state(waits) != queued {
		t.Errorf("the jobs are %d and %d", s.state(running1), s.state(waits))
	}
	if why := s.Why(0, waits); why[0].Code != WhyDraining {
		t.Errorf("why: %+v", why)
	}
	s.Gone(time.Second, 1)
	lost := s.Lost()
	if len(lost) != 1 || lost[0].ID != first || lost[0].Seen != time.Second || len(lost[0].Running) != 0 {
		t.Errorf("lost: %+v", lost)
	}
	s.workerAs(2, first, "job.assign.>", 10)
	if w := s.Workers(); len(s.Lost()) != 0 || len(w) != 1 || !w[0].Draining {
		t.Errorf("after it has come back: %+v, lost %+v", w, s.Lost())
	}
	s.Take()
	if s.state(waits) != queued {
		t.Error("a worker that has come back was given a job")
	}
	s.Withhold(time.Second, first, false)
	s.Take()
	if s.state(waits) != running {
		t.Error("a worker that was resumed is given no job")
	}
	s.Withhold(time.Second, first, true)
	s.Gone(2*time.Second, 2)
	s.Tick(2*time.Hour + 3*time.Second)
	if len(s.Lost()) != 0 || len(s.withheld) != 0 || s.Withhold(2*time.Hour+3*time.Second, first, true) {
		t.Error("a worker that was lost long ago is still known")
	}
}

func TestD30ReasonsOfJobs(t *testing.T) {
	s := newPauseStory(t, Config{MaxAttempts: 2})
	s.client("a", 1)
	check := func(id wire.GUID, code WhyCode, text string) Why {
		t.Helper()
		why := s.Why(0, id)
		if len(why) == 0 || why[0].Code != code || !strings.Contains(why[0].Text, text) {
			t.Fatalf("why: %+v, want %d %q", why, code, text)
		}
		return why[0]
	}
	if s.Why(0, wire.NewGUID()) != nil {
		t.Error("an unknown job has reasons")
	}
	first := s.submit("calc")
	check(first, WhyNoWorker, "no worker is connected")
	s.worker(1, "job.assign.>", 0)
	check(first, WhyNoSlot, "none has a free slot")
	s.Credit(0, 1, 2)
	s.Take()
	if why := check(first, WhyLeased, "attempt 1 is on host"); why.Worker != "host" || why.Until == 0 {
		t.Errorf("while it runs: %+v", why)
	}
	second, third := s.submit("calc"), s.submit("calc")
	check(second, WhyQueued, "as many as it may")
	if why := check(third, WhyQueued, "1 job of a for calc is before it"); why.Ahead != 1 {
		t.Errorf("behind another one: %+v", why)
	}
	s.Gone(0, 1)
	s.Take()
	check(first, WhyNoWorker, "no worker is connected")
	again := s.replayed()
	s.Core = again
	check(second, WhyNoWorker, "")
	s.Cancel(0, "", third)
	check(third, WhyEnded, "it was canceled")
}

func TestD31JobsBeginBeforeATime(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	s := newPauseStory(t, Config{KeepAcked: 1 << 20})
	born := map[wire.GUID]int64{}
	var all []wire.GUID
	for i := range 5000 {
		now := time.Duration(i/3) * time.Millisecond
		j, err := s.newJob("a", Submission{ID: wire.NewGUID(), Exec: "calc", Body: Body{Bytes: []byte{}}}, false, now)
		if err != nil {
			t.Fatal(err)
		}
		if r.IntN(10) == 0 { // as an element of an older array
			j.born -= min(j.born, time.Duration(r.IntN(1000))*time.Millisecond)
			s.order.oldest[len(s.order.oldest)-1] = min(s.order.oldest[len(s.order.oldest)-1], s.bornMs(j))
		}
		born[j.id] = s.bornMs(j)
		all = append(all, j.id)
	}
	start := s.cfg.Epoch.UnixMilli()
	for _, until := range []int64{start - 1, start, start + 1, start + 700, start + 1666, start + 5000, 0} {
		var got []wire.GUID
		for position, more := uint64(0), true; more; more = position != 0 {
			n := 0
			position = s.Jobs(position, until, func(*Info) bool { return true }, func(i Info) bool {
				got = append(got, i.ID)
				n++
				return n < 97
			})
		}
		var want []wire.GUID
		for _, id := range all {
			if until == 0 || born[id] < until {
				want = append(want, id)
			}
		}
		if len(got) != len(want) || len(got) != len(slices.Compact(slices.SortedFunc(slices.Values(got), func(a, b wire.GUID) int { return strings.Compare(a.String(), b.String()) }))) {
			t.Errorf("until %d: %d jobs, want %d", until-start, len(got), len(want))
		}
		for _, id := range got {
			if until != 0 && born[id] >= until {
				t.Errorf("until %d: job of %d", until-start, born[id]-start)
			}
		}
	}
}

// pauseStory is a Core with what a test needs to tell a story.
type pauseStory struct {
	*Core
	t       *testing.T
	records [][]byte
}

func newPauseStory(t *testing.T, cfg Config) *pauseStory {
	t.Helper()
	cfg.Epoch = time.Unix(1_800_000_000, 0)
	s := &pauseStory{Core: New(cfg), t: t}
	s.Recovered(0)
	return s
}

func (s *pauseStory) Take() {
	_, records := s.Core.Take()
	for _, r := range records {
		s.records = append(s.records, slices.Clone(r))
	}
}

func (s *pauseStory) client(name string, limit int) {
	s.ClientHello(0, PeerID(1000+len(s.clients)), name, limit, []string{wire.FeatureResultAck})
}

func (s *pauseStory) worker(id PeerID, pattern string, credit int) wire.GUID {
	guid := wire.NewGUID()
	s.workerAs(id, guid, pattern, credit)
	return guid
}

func (s *pauseStory) workerAs(id PeerID, guid wire.GUID, pattern string, credit int) {
	s.WorkerHello(0, id, WorkerInfo{ID: guid, Pattern: pattern, Host: "host", Features: []string{wire.FeatureAccept, wire.FeatureCancel, wire.FeatureArray}, Limit: 10})
	if credit > 0 {
		s.Credit(0, id, credit)
	}
	s.Take()
}

func (s *pauseStory) submit(exec string) wire.GUID {
	s.t.Helper()
	id := wire.NewGUID()
	s.Submit(0, 1000, Submission{ID: id, Exec: exec, Body: Body{Bytes: []byte("{}"), Size: 2}})
	s.Take()
	if s.jobs[id] == nil || s.jobs[id].line.client.name != "a" {
		s.t.Fatal("the job was not taken")
	}
	return id
}

func (s *pauseStory) state(id wire.GUID) state { return s.jobs[id].state }

// replayed returns what the records so far make.
func (s *pauseStory) replayed() *Core {
	s.t.Helper()
	s.Take()
	c := New(s.cfg)
	for _, r := range s.records {
		if err := c.Replay(r); err != nil {
			s.t.Fatal(err)
		}
	}
	c.Recovered(0)
	c.Take()
	return c
}
