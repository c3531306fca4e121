package leader_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/grid/leader"
	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
)

// again ends the leader and opens another one on its directory.
func (r *rig) again() *rig {
	r.t.Helper()
	if err := r.stop(); err != nil {
		r.t.Fatal(err)
	}
	return start(r.t, &leader.Leader{Dir: r.Dir})
}

// submitted submits a job, which the leader has when it returns.
func (r *rig) submitted(client *end, exec string) wire.GUID {
	r.t.Helper()
	id, submit := submission("clientA", exec)
	client.send(submit)
	for f := client.next(); f.Type != wire.SubmitAck; f = client.next() { // results of earlier jobs
	}
	return id
}

func TestD06PauseOfAnExecOutlivesALeader(t *testing.T) {
	r := start(t, &leader.Leader{Dir: t.TempDir()})
	shown := leader.Jobs{Leader: r.Leader}
	if err := shown.Pause(t.Context(), "calcA"); !errors.Is(err, jobapi.ErrNoKind) {
		t.Errorf("an exec of no job and no worker: %v", err)
	}
	client := r.client("clientA", 10, every...)
	id := r.submitted(client, "calcA")
	for range 2 {
		if err := shown.Pause(t.Context(), "calcA"); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"", "a b", "job.assign.*", strings.Repeat("x", 10_000)} {
		if err, err2 := shown.Pause(t.Context(), name), shown.Resume(t.Context(), name); !errors.Is(err, jobapi.ErrNoKind) || !errors.Is(err2, jobapi.ErrNoKind) {
			t.Errorf("exec %.20q: %v, %v", name, err, err2)
		}
	}
	before, err := shown.Paused(t.Context())
	if err != nil || len(before) != 1 || before[0].Kind != "calcA" || time.Since(before[0].Since.Time).Abs() > time.Hour {
		t.Fatalf("paused: %+v, %v", before, err)
	}
	r = r.again()
	shown = leader.Jobs{Leader: r.Leader}
	if after, err := shown.Paused(t.Context()); err != nil || len(after) != 1 || after[0] != before[0] {
		t.Errorf("after a restart paused: %+v, %v", after, err)
	}
	worker := r.worker(10, every...)
	r.until("the worker is there", func() bool { return len(r.workers()) == 1 })
	why, err := shown.Why(t.Context(), id.String())
	if err != nil || len(why) != 2 || why[0].Code != jobapi.WhyPaused || !why[0].Since.Equal(before[0].Since.Time) || why[1].Code != jobapi.WhyQueued || *why[1].Ahead != 0 {
		t.Errorf("why: %+v, %v", why, err)
	}
	client = r.client("clientA", 10, every...)
	other := r.submitted(client, "calcB")
	if f := worker.next(); f.MsgID != other {
		t.Errorf("%s was assigned", f.MsgID)
	}
	if err := shown.Resume(t.Context(), "calcA"); err != nil {
		t.Fatal(err)
	}
	if f := worker.next(); f.MsgID != id {
		t.Errorf("%s was assigned", f.MsgID)
	}
	if after, err := shown.Paused(t.Context()); err != nil || len(after) != 0 {
		t.Errorf("after Resume paused: %+v, %v", after, err)
	}
}

func TestD06OnlySoManyExecsArePaused(t *testing.T) {
	r := start(t, &leader.Leader{})
	shown := leader.Jobs{Leader: r.Leader}
	r.worker(0, every...) // which takes all of them
	r.until("the worker is there", func() bool { return len(r.workers()) == 1 })
	for i := range jobapi.MaxPaused {
		if err := shown.Pause(t.Context(), "exec"+strconv.Itoa(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := shown.Pause(t.Context(), "more"); !errors.Is(err, jobapi.ErrManyPaused) {
		t.Errorf("one more: %v", err)
	}
	if err := shown.Pause(t.Context(), "exec7"); err != nil {
		t.Errorf("one that is paused: %v", err)
	}
}

// workers returns the workers as the Job API shows them.
func (r *rig) workers() []jobapi.Worker {
	r.t.Helper()
	all, err := leader.Jobs{Leader: r.Leader}.Workers(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	return all
}

func TestD05WorkersOfALeader(t *testing.T) {
	r := start(t, &leader.Leader{})
	shown := leader.Jobs{Leader: r.Leader}
	client, worker := r.client("clientA", 10, every...), r.worker(2, every...)
	first := r.submitted(client, "calcA")
	if f := worker.next(); f.MsgID != first {
		t.Fatalf("%s was assigned", f.MsgID)
	}
	all := r.workers()
	if len(all) != 1 || all[0].State != "working" || all[0].Slots != 2 || all[0].Jobs != 1 || all[0].Kinds[0] != "*" || all[0].Seen.IsZero() || all[0].Started.IsZero() {
		t.Fatalf("workers: %+v", all)
	}
	id := all[0].ID
	for _, unknown := range []string{"", "x", wire.NewGUID().String(), wire.GUID{}.String()} {
		if err := shown.DrainWorker(t.Context(), unknown); !errors.Is(err, jobapi.ErrNoWorker) {
			t.Errorf("worker %q: %v", unknown, err)
		}
	}
	if err := shown.DrainWorker(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	second := r.submitted(client, "calcA")
	if why, err := shown.Why(t.Context(), second.String()); err != nil || why[0].Code != jobapi.WhyDraining || r.workers()[0].State != "draining" {
		t.Errorf("why: %+v, %v; workers %+v", why, err, r.workers())
	}
	if err := shown.ResumeWorker(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if f := worker.next(); f.MsgID != second {
		t.Errorf("%s was assigned", f.MsgID)
	}
	worker.Abort(errors.New("lost"))
	r.until("the worker is lost", func() bool { return r.workers()[0].State == "silent" })
	lost := r.workers()[0]
	if lost.ID != id || lost.Jobs != 0 || lost.Seen.IsZero() {
		t.Errorf("the lost worker: %+v", lost)
	}
	job := r.one(first)
	if len(job.Attempts) != 1 || job.Attempts[0].Outcome != "crashed" || job.Attempts[0].Worker != "host" || job.Attempts[0].Message != "its worker was lost" || job.Attempts[0].Finished.IsZero() {
		t.Errorf("attempts of its job: %+v", job.Attempts)
	}
}

func TestD06KindsOfALeader(t *testing.T) {
	r := start(t, &leader.Leader{})
	shown := leader.Jobs{Leader: r.Leader}
	client := r.client("clientA", 10, every...)
	r.submitted(client, "calcA")
	r.worker(3, every...)
	r.until("the job runs", func() bool { return len(r.workers()) == 1 && r.workers()[0].Jobs == 1 })
	if err := shown.Pause(t.Context(), "other"); err != nil {
		t.Fatal(err)
	}
	kinds, err := shown.Kinds(t.Context())
	if err != nil || len(kinds) != 2 || kinds[0].Name != "calcA" || kinds[0].Workers != 1 || kinds[0].Slots != 3 || kinds[1].Name != "other" || kinds[1].Params != nil {
		t.Errorf("kinds: %+v, %v", kinds, err)
	}
}

func TestD01CountsOfALeaderOutliveIt(t *testing.T) {
	r := start(t, &leader.Leader{Dir: t.TempDir()})
	client, worker := r.client("clientA", 1, every...), r.worker(1, every...)
	r.submitted(client, "calcA")
	worker.send(ok(worker.next()))
	for f := client.next(); f.Type != wire.Result; f = client.next() {
	}
	worker.send(credit(1))
	r.submitted(client, "calcA")
	worker.next()
	r.submitted(client, "calcB")
	count := func(r *rig) jobapi.Counts {
		t.Helper()
		c, err := leader.Jobs{Leader: r.Leader}.Count(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	c := count(r)
	if c.States[jobs.Queued] != 1 || c.States[jobs.Running] != 1 || c.States[jobs.Succeeded] != 1 || c.Total != (jobapi.Flow{In: 3, Succeeded: 1}) || c.DeadLetters != 0 {
		t.Errorf("counted %+v", c)
	}
	r = r.again()
	again := count(r)
	if again.States[jobs.Queued] != 1 || again.States[jobs.Running] != 1 || again.States[jobs.Succeeded] != 1 || again.Total != (jobapi.Flow{}) || len(again.Kinds) != 2 || !again.Kinds[1].Oldest.Truncate(time.Millisecond).Equal(c.Kinds[1].Oldest.Truncate(time.Millisecond)) {
		t.Errorf("after a restart counted %+v, before %+v", again, c)
	}
	why, err := leader.Jobs{Leader: r.Leader}.List(t.Context(), jobapi.Query{Limit: 10, Status: jobs.Running})
	if err != nil || len(why.Items) != 1 {
		t.Fatal(why, err)
	}
	if reasons, err := (leader.Jobs{Leader: r.Leader}).Why(t.Context(), why.Items[0].ID); err != nil || reasons[0].Code != jobapi.WhySilent || reasons[0].Worker != "host" {
		t.Errorf("of a job whose worker has not come back: %+v, %v", reasons, err)
	}
}

func TestD08LeaderReports(t *testing.T) {
	r := start(t, &leader.Leader{Dir: t.TempDir()})
	r.client("clientA", 7, every...)
	r.worker(3, every...)
	r.until("the worker is there", func() bool { return len(r.workers()) == 1 })
	sections, err := leader.Jobs{Leader: r.Leader}.Report(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	for _, s := range sections {
		for _, row := range s.Rows {
			if len(row) != len(s.Columns) {
				t.Errorf("%s: row %q of %q", s.Title, row, s.Columns)
			}
			rows[s.Title] += strings.Join(row, "|") + "\n"
		}
	}
	for title, want := range map[string]string{
		"Leader": r.ID.String() + "|", "Credit of workers": "host|*|0|3|3|\n", "Clients": "clientA|1|0|7|0|0\n", "Disk": "journal, requests and results||", "Dead letters": "",
	} {
		if !strings.HasPrefix(rows[title], want) {
			t.Errorf("%s: %q, want %q", title, rows[title], want)
		}
	}
}
