package leader_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/grid/leader"
	"github.com/batchfleet/batchfleet/grid/schedule"
	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobapi/jobapitest"
	"github.com/batchfleet/batchfleet/jobs"
)

// every has all features of this leader.
var every = []string{
	wire.FeatureAccept, wire.FeatureCancel, wire.FeatureError, wire.FeatureSubmitAck, wire.FeatureResultAck, wire.FeatureQuery, wire.FeatureDrain, wire.FeatureArray,
}

func TestJobAPIContract(t *testing.T) { jobapitest.Jobs(t, openJobs) }

func TestD31ListOfTheGridBeginsBeforeATime(t *testing.T) { jobapitest.Until(t, openJobs(t)) }

func TestD09LeaderTellsItsChanges(t *testing.T) { jobapitest.Changes(t, openJobs(t)) }

func TestD01LeaderCountsItsJobs(t *testing.T) { jobapitest.Counter(t, openJobs(t)) }

func TestD30LeaderSaysWhyAJobWaits(t *testing.T) {
	jobapitest.Explainer(t, openJobs(t), jobapi.WhyNoSlot)
}

// openJobs returns the jobs of a new leader, with a client that submits them and a worker that runs them.
func openJobs(t *testing.T) jobapitest.Rig {
	t.Helper()
	r := start(t, &leader.Leader{})
	all := leader.Jobs{Leader: r.Leader}
	client, worker := r.client("clientA", 1000, every...), r.worker(0, every...)
	assigned := map[string]wire.Frame{}
	report := func(id, text string) {
		f := assigned[id]
		before := r.logged(f.MsgID)
		payload, err := json.Marshal(wire.ReportInfo{Message: text, Lines: strings.Split(text, "\n")})
		if err != nil {
			t.Fatal(err)
		}
		worker.send(wire.Frame{Type: wire.Report, MsgID: f.CorrID, CorrID: f.MsgID, Payload: payload})
		r.until("the report has arrived", func() bool {
			return r.logged(f.MsgID) > before
		})
	}
	return jobapitest.Rig{
		Jobs: all, Type: "grid.calcA",
		Submit: func(text string) string {
			id, submit := submission("clientA", "calcA", text)
			client.send(submit)
			for f := client.next(); f.Type != wire.SubmitAck; f = client.next() { // results of earlier jobs
			}
			return id.String()
		},
		Start: func(id string) {
			worker.send(credit(1))
			f := worker.next()
			for f.Type != wire.AssignJob {
				f = worker.next()
			}
			if f.MsgID.String() != id {
				t.Fatalf("%s has started instead of %s", f.MsgID, id)
			}
			worker.send(wire.Frame{Type: wire.Accept, MsgID: f.CorrID, CorrID: f.MsgID})
			assigned[id] = f
		},
		Report: report,
		End: func(id string, state jobs.State, text string) {
			f := assigned[id]
			result := wire.JobResult{JobID: f.MsgID, ClientID: "clientA", ExecName: "calcA", Status: wire.OK, Stdout: text, OutputArchive: []byte("PK" + text)}
			if state == jobs.Failed {
				report(id, text)
			}
			if state != jobs.Succeeded {
				result.Status, result.Reason, result.Stderr = wire.Failed, wire.ReasonExit, text
			}
			if state == jobs.Canceled {
				result.Reason = wire.ReasonCanceled
			}
			payload, err := wire.MarshalResult(&result)
			if err != nil {
				t.Fatal(err)
			}
			worker.send(wire.Frame{Type: wire.AckJob, MsgID: f.CorrID, CorrID: f.MsgID, Payload: payload})
			for f = worker.next(); f.Type != wire.ResultAck; f = worker.next() {
			}
		},
	}
}

func TestJobsAreUnavailableWhenTheLeaderHasStopped(t *testing.T) {
	r := start(t, &leader.Leader{})
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	jobapitest.Unavailable(t.Context(), t, "stopped", leader.Jobs{Leader: r.Leader})
}

// one returns a job as the Job API shows it.
func (r *rig) one(id wire.GUID) jobapi.Job {
	r.t.Helper()
	found, err := leader.Jobs{Leader: r.Leader}.Get(r.t.Context(), []string{id.String()})
	if err != nil || len(found) != 1 {
		r.t.Fatalf("job %s: %v, %v", id, found, err)
	}
	return found[0]
}

// until polls for what others bring about.
func (r *rig) until(what string, done func() bool) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	for !done() {
		select {
		case <-ctx.Done():
			r.t.Fatalf("after a minute still not: %s", what)
		case <-time.After(2 * time.Millisecond):
		}
	}
}

func TestG74JobSaysWhyItWaits(t *testing.T) {
	r := start(t, &leader.Leader{})
	client := r.client("clientA", 1, every...)
	first, submit := submission("clientA", "calcA")
	client.send(submit)
	client.next()
	message := func(id wire.GUID) string { return r.one(id).Steps[0].Message }
	if got := message(first); got != "no worker takes job.assign.calcA: no worker is connected" {
		t.Errorf("without a worker: %s", got)
	}
	worker := r.worker(2, every...)
	if f := worker.next(); f.MsgID != first {
		t.Fatalf("assigned %s", f.MsgID)
	}
	second, submit := submission("clientA", "calcA")
	client.send(submit)
	client.next()
	if got := message(first); !strings.HasPrefix(got, "attempt 1 is on host for ") {
		t.Errorf("while it runs: %s", got)
	}
	if got := message(second); got != "clientA runs 1 job, as many as it may (1)" {
		t.Errorf("while its client may run no more: %s", got)
	}
	client.send(wire.Frame{Type: wire.Query, CorrID: second})
	f := client.next()
	var info wire.StatusInfo
	if err := json.Unmarshal(f.Payload, &info); err != nil || f.Type != wire.Status || info.State != "queued" || info.Position != 1 || info.Why != message(second) {
		t.Errorf("the client is told %+v (%v)", info, err)
	}
}

// logged returns how many lines the log of a job has had.
func (r *rig) logged(id wire.GUID) (n int) {
	r.t.Helper()
	if err := r.Do(r.t.Context(), func(c *schedule.Core) {
		lines, dropped, _ := c.Log(id)
		n = len(lines) + dropped
	}); err != nil {
		r.t.Fatal(err)
	}
	return n
}

func TestG42DeadLetterTellsOfItsLastAttempt(t *testing.T) {
	r := start(t, &leader.Leader{})
	client, worker := r.client("clientA", 1, every...), r.worker(1, every...)
	q := wire.JobRequest{JobID: wire.NewGUID(), ClientID: "clientA", ExecName: "calcA", Options: wire.Options{RetryOn: []string{"exit"}, MaxAttempts: 1}}
	payload, err := wire.MarshalRequest(&q)
	if err != nil {
		t.Fatal(err)
	}
	client.send(wire.Frame{Type: wire.SubmitJob, MsgID: q.JobID, Subject: wire.SubmitSubject("calcA"), Payload: payload})
	f := worker.next()
	code, long := 3, strings.Repeat("é", 5000)
	payload, err = wire.MarshalResult(&wire.JobResult{
		JobID: q.JobID, ClientID: "clientA", ExecName: "calcA", Status: wire.Failed, Reason: wire.ReasonExit, Message: "exit status 3", ExitCode: &code,
		Stdout: "half\n", Stderr: long + "x is negative\n",
	})
	if err != nil {
		t.Fatal(err)
	}
	worker.send(wire.Frame{Type: wire.AckJob, MsgID: f.CorrID, CorrID: f.MsgID, Payload: payload})
	for f = client.next(); f.Type != wire.Result; f = client.next() { // SubmitAck is first
	}
	var result wire.JobResult
	if err := json.Unmarshal(f.Payload, &result); err != nil {
		t.Fatal(err)
	}
	if want := "its only attempt, on host, has failed: exit status 3"; result.Message != want || result.Reason != wire.ReasonDeadLetter || result.Attempt != 1 {
		t.Errorf("it has ended with %s %q, attempt %d, want %q", result.Reason, result.Message, result.Attempt, want)
	}
	if n := len(result.Stderr); result.Stdout != "half\n" || !strings.HasSuffix(result.Stderr, "éx is negative\n") || n < 1<<10 || n > 2<<10 || strings.Contains(result.Stderr, "\uFFFD") {
		t.Errorf("its output is %q and %q, want the end of the attempt's", result.Stdout, result.Stderr)
	}
	client.send(wire.Frame{Type: wire.Query, CorrID: q.JobID})
	var info wire.StatusInfo
	if err := json.Unmarshal(client.next().Payload, &info); err != nil || info.Attempt != 1 || r.one(q.JobID).Attempt != 1 {
		t.Errorf("its client is shown attempt %d (%v), and others %d, want 1", info.Attempt, err, r.one(q.JobID).Attempt)
	}
	log, err := leader.Jobs{Leader: r.Leader}.Log(t.Context(), q.JobID.String(), jobapi.LogQuery{Tail: 10})
	if n := len(log.Lines); err != nil || n != 2 || log.Lines[0].Text != "half" || !strings.HasSuffix(log.Lines[1].Text, "éx is negative") {
		t.Errorf("its log is %v (%v), want the output of the attempt", log.Lines, err)
	}
}

func TestG74CanceledJobShowsItsAttempt(t *testing.T) {
	r := start(t, &leader.Leader{})
	client, worker := r.client("clientA", 1, every...), r.worker(1, every...)
	id, submit := submission("clientA", "calcA")
	client.send(submit)
	f := worker.next()
	worker.send(wire.Frame{Type: wire.Accept, MsgID: f.CorrID, CorrID: f.MsgID})
	client.send(wire.Frame{Type: wire.Cancel, CorrID: id})
	if c := worker.next(); c.Type != wire.Cancel {
		t.Fatalf("the worker gets %s", c.Type)
	}
	payload, err := wire.MarshalResult(&wire.JobResult{
		JobID: id, ClientID: "clientA", ExecName: "calcA", Status: wire.Failed, Reason: wire.ReasonCanceled, Worker: "host", DurationMs: 1 << 40, // its clock goes fast
	})
	if err != nil {
		t.Fatal(err)
	}
	worker.send(wire.Frame{Type: wire.AckJob, MsgID: f.CorrID, CorrID: f.MsgID, Payload: payload})
	for f = client.next(); f.Type != wire.Result; f = client.next() { // SubmitAck is first
	}
	job := r.one(id)
	if job.Status != jobs.Canceled || job.Worker != "host" || job.Attempt != 1 || !job.StartedAt.Equal(job.CreatedAt.Time) {
		t.Errorf("it is %s, worker %q, attempt %d, started %v", job.Status, job.Worker, job.Attempt, job.StartedAt)
	}
	page, err := leader.Jobs{Leader: r.Leader}.List(t.Context(), jobapi.Query{Limit: 1})
	if err != nil || len(page.Items) != 1 || page.Items[0].Worker != "host" {
		t.Errorf("the list has %+v (%v)", page.Items, err)
	}
}
