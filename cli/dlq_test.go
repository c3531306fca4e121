package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/batchfleet/batchfleet/emulator"
	"github.com/batchfleet/batchfleet/jobs"
)

const deadName = "pdf-processing-topic-dead"

// Variable of processes that keep dead letters.
const keepsDead = "DEAD_LETTER_TOPIC=" + deadName

// failsOtherKinds makes jobs of a kind that no worker runs fail at once.
const failsOtherKinds = "KIND_TIMEOUT=0"

// dlqWait is how long tests wait for one more dead letter. It is longer than the
// default, because other tests may keep the machine busy.
const dlqWait = "--wait=5s"

// dlqBrief is for the last look of a test, and for one that may miss dead letters: where the machine
// stands still, one of them may stay leased for a while.
const dlqBrief = "--wait=1s"

// withDead creates the topic for dead letters and its subscription.
func (f *testFleet) withDead() {
	f.t.Helper()
	if err := f.emulator.EnsureSubscription("projects/local-dev/subscriptions/"+deadName, "projects/local-dev/topics/"+deadName, testLease); err != nil {
		f.t.Fatal(err)
	}
}

func (f *testFleet) deadStats() emulator.SubscriptionStats {
	f.t.Helper()
	for _, s := range f.emulator.Stats() {
		if strings.HasSuffix(s.Subscription, deadName) {
			return s
		}
	}
	f.t.Fatal("there is no subscription for dead letters")
	return emulator.SubscriptionStats{}
}

// dead waits until there are want dead letters, none of them held.
func (f *testFleet) dead(want int) {
	f.t.Helper()
	until(f.t, time.Minute, fmt.Sprintf("%d dead letters: %+v", want, f.deadStats()), func() bool {
		s := f.deadStats()
		return s.Undelivered == want && s.Leased == 0
	})
}

// command prepares a command of the fleet's operator.
func (f *testFleet) command(args ...string) *exec.Cmd {
	f.t.Helper()
	return batchfleet(f.t, f.environment(keepsDead), args...)
}

// dlq runs a dlq command to its end.
func (f *testFleet) dlq(args ...string) (stdout, stderr string, code int) {
	f.t.Helper()
	cmd := f.command(append([]string{"dlq", args[0], dlqWait}, args[1:]...)...)
	code, stdout, stderr = output(f.t, cmd)
	return stdout, stderr, code
}

// wantDLQ runs a dlq command and compares its exit code and all that it prints.
func (f *testFleet) wantDLQ(code int, want string, args ...string) {
	f.t.Helper()
	out, errs, got := f.dlq(args...)
	if got != code || strings.TrimSpace(out+errs) != want {
		f.t.Errorf("dlq %s: exit code %d, want %d; printed\n%s%s\nwant\n%s", strings.Join(args, " "), got, code, out, errs, want)
	}
}

// rows runs dlq list --json.
func (f *testFleet) rows() (rows []deadRow) {
	f.t.Helper()
	out, errs, code := f.dlq("list", "--json")
	if code != 0 {
		f.t.Fatalf("dlq list: exit code %d: %s", code, errs)
	}
	for line := range strings.Lines(out) {
		var r deadRow
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			f.t.Fatalf("dlq list printed %q: %v", line, err)
		}
		rows = append(rows, r)
	}
	return rows
}

// sendRaw publishes data that need not be a message of ours.
func (f *testFleet) sendRaw(data string) (id string) {
	f.t.Helper()
	conn, err := grpc.NewClient(f.addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		f.t.Fatal(err)
	}
	defer conn.Close()
	reply, err := pubsubpb.NewPublisherClient(conn).Publish(f.t.Context(), &pubsubpb.PublishRequest{
		Topic: testTopic, Messages: []*pubsubpb.PubsubMessage{{Data: []byte(data)}},
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return reply.GetMessageIds()[0]
}

// TestF13DeadLettersAndTheirSecondLife has a fleet for each part, because each command waits
// for one more dead letter.
func TestF13DeadLettersAndTheirSecondLife(t *testing.T) {
	t.Parallel()
	tests := map[string]func(f *testFleet, malformed string){
		"list": testDLQList, "show": testDLQShow, "redrive": testDLQRedrive, "purge": testDLQPurge,
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newTestFleet(t)
			f.withDead()
			f.start(keepsDead, failsOtherKinds)
			id := f.sendRaw("\x1b[31mnoise")
			f.send(jobs.Job{ID: "lost", Kind: "pdf", Input: "uploads/lost.pdf"})
			f.send(jobs.Job{ID: "odd", Kind: "bogus"})
			f.dead(3)
			f.send(jobs.Job{ID: "odd", Kind: "bogus"}) // a redelivery, as it were
			f.dead(4)
			test(f, id)
		})
	}
}

func testDLQList(f *testFleet, id string) {
	t := f.t
	rows := f.rows()
	if len(rows) != 3 {
		t.Fatalf("%d rows, want one for each job: %+v", len(rows), rows)
	}
	for _, r := range rows {
		want := map[string]deadRow{
			"message:" + id: {Cause: "malformed", Letters: 1, Bytes: 10, MessageID: id},
			"lost":          {JobID: "lost", Kind: "pdf", Cause: "failed", Attempts: 1, Letters: 1},
			"odd":           {JobID: "odd", Kind: "bogus", Cause: "failed", Attempts: 1, Letters: 2},
		}[r.Name]
		if r.JobID != want.JobID || r.Kind != want.Kind || r.Cause != want.Cause || r.Attempts != want.Attempts || r.Letters != want.Letters ||
			r.Subscription != testSubscription || want.Bytes != 0 && r.Bytes != want.Bytes || r.MessageID == "" || time.Since(r.FailedAt) > time.Minute {
			t.Errorf("row %+v, want %+v", r, want)
		}
	}
	f.dead(4) // a look takes nothing

	out, _, code := f.dlq("list", "--count", "1")
	if code != 0 || strings.Count(out, "\n") != 2 || !strings.Contains(out, "odd") {
		t.Errorf("list of the newest: code %d\n%s", code, out)
	}
	if out, _, _ = f.dlq("list", "--count", "1", "--oldest"); !strings.Contains(out, "message:"+id) {
		t.Errorf("list of the oldest:\n%s", out)
	}
}

func testDLQShow(f *testFleet, id string) {
	t := f.t
	out, _, code := f.dlq("show", "lost")
	if code != 0 || !strings.Contains(out, `{"job_id":"lost","pdf_path":"uploads/lost.pdf"`) || !strings.Contains(out, "reason        ") || !strings.HasPrefix(out, "job  ") {
		t.Errorf("show: code %d\n%s", code, out)
	}
	if out, _, code = f.dlq("show", "message:"+id); code != 0 || !strings.Contains(out, "malformed message: not a JSON object") || strings.Contains(out, "\x1b") || !strings.HasPrefix(out, "name  ") {
		t.Errorf("show: code %d\n%q", code, out)
	}
	f.wantDLQ(1, "batchfleet: no dead letter of nobody (or somebody else holds it just now)", "show", "nobody", dlqBrief)
}

func testDLQRedrive(f *testFleet, id string) {
	t := f.t
	f.putInputs("lost")
	f.wantDLQ(0, "lost  would be redriven\nodd  would be redriven", "redrive", "--dry-run")
	f.dead(4)
	if got := f.state("lost"); got != "failed" {
		t.Errorf("a dry run has made the job %s", got)
	}
	f.wantDLQ(0, "lost  redriven", "redrive", "--count", "1")
	f.untilState(time.Minute, "lost", "completed")
	f.account("completed", "lost")
	f.dead(3)
	f.wantDLQ(0, "odd  redriven", "redrive", "--reason", `kind "bogus"`) // both letters; one new
	f.dead(2)
	f.wantDLQ(0, "message:"+id+"  redriven, though it names no job", "redrive", "message:"+id)
	f.dead(2)
	if again := f.rows(); len(again) != 2 || again[0].Cause != "malformed" || again[0].Name == "message:"+id {
		t.Errorf("rows %+v, want the message dead again, under its new id", again)
	}
	f.wantDLQ(0, "no dead letters to redrive, or somebody else holds them just now", "redrive", "--reason", "no such reason", dlqBrief)
}

func testDLQPurge(f *testFleet, _ string) {
	f.wantDLQ(2, "batchfleet: name what to drop, or give --all", "purge")
	f.wantDLQ(2, "batchfleet: this drops dead letters for good: give --yes, or --dry-run to see which", "purge", "--all")
	f.wantDLQ(0, "odd  would be purged", "purge", "--dry-run", "odd")
	f.dead(4)
	f.wantDLQ(1, "odd  purged\nbatchfleet: no dead letter of nobody (or somebody else holds it just now)", "purge", "--yes", "odd", "nobody")
	f.dead(2)
	if out, _, code := f.dlq("purge", "--all", "--yes"); code != 0 || !strings.Contains(out, "purged") {
		f.t.Errorf("purge: code %d\n%s", code, out)
	}
	f.dead(0)
	f.wantDLQ(0, "JOB  KIND  AGE  ATTEMPTS  REASON\nno dead letters, or somebody else holds them just now", "list", dlqBrief)
}

func TestF13MissingDeadLetterTopicIsVisibleAndCostsNoJob(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t)
	f.send(jobs.Job{ID: "a", Kind: "bogus"})
	w := f.start(keepsDead, failsOtherKinds)
	until(f.t, time.Minute, "the worker says what is missing", func() bool {
		return strings.Contains(w.log.String(), "not ready") && strings.Contains(w.log.String(), "projects/local-dev/topics/"+deadName)
	})
	if got := f.state("a"); got != "" {
		t.Errorf("the job is %s, want it left in the queue", got)
	}
	f.withDead()
	f.untilState(30*time.Second, "a", "failed")
	f.dead(1)
	f.account("failed", "a")
}

func TestF13PromiseWorkerKilledBetweenOutcomeAndLetter(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t)
	f.withDead()
	w := f.start(keepsDead, failsOtherKinds)
	until(f.t, time.Minute, "the worker waits", func() bool { return f.emulator.Stats()[0].WaitingPulls == 1 })
	if err := w.Process.Signal(syscall.SIGSTOP); err != nil { // until dead letters are refused
		t.Fatal(err)
	}
	f.send(jobs.Job{ID: "a", Kind: "bogus"})
	f.emulator.Fail("Publish", 1000, codes.Unavailable)
	if err := w.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	f.untilState(time.Minute, "a", "failed")
	w.kill()
	if s := f.deadStats(); s.Published != 0 {
		t.Fatalf("%d dead letters, want none yet", s.Published)
	}
	// What is left of the faults is what the next worker has to get over.
	f.start(keepsDead, failsOtherKinds)
	until(f.t, time.Minute, "the message is delivered again", func() bool { return f.emulator.Stats()[0].Redelivered > 0 })
	drainFaults(t, f)
	f.dead(1)
	f.account("failed", "a")
}

// drainFaults uses up the refusals of Publish that are left.
func drainFaults(t *testing.T, f *testFleet) {
	t.Helper()
	conn, err := grpc.NewClient(f.addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for {
		// An empty request changes nothing once it is not refused as a fault.
		_, err := pubsubpb.NewPublisherClient(conn).Publish(t.Context(), &pubsubpb.PublishRequest{Topic: testTopic})
		if err == nil || !strings.Contains(err.Error(), "on request of a test") {
			return
		}
	}
}

func TestF13DoctorSeesWhereDeadLettersGo(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t)
	const other = "projects/local-dev/subscriptions/letters"
	if err := f.emulator.EnsureSubscription(other, "projects/local-dev/topics/elsewhere", testLease); err != nil {
		t.Fatal(err)
	}
	doctor := func(extra ...string) string {
		t.Helper()
		cmd := f.command("doctor")
		cmd.Env = append(cmd.Env, extra...)
		out, err := cmd.CombinedOutput()
		if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		return string(out)
	}
	tests := []struct {
		name  string
		setup func()
		extra []string
		want  []string
	}{
		{"nothing there", func() {}, nil, []string{
			"FAIL  pub/sub  projects/local-dev/topics/" + deadName, "create the topic (`batchfleet run start` does), or set DEAD_LETTER_TOPIC",
			"FAIL  pub/sub  projects/local-dev/subscriptions/" + deadName, "create the subscription (`batchfleet run start` does), or set DEAD_LETTER_SUBSCRIPTION",
		}},
		{"all there", f.withDead, nil, []string{
			"ok    pub/sub  projects/local-dev/topics/" + deadName + ": takes dead letters",
			"ok    pub/sub  projects/local-dev/subscriptions/" + deadName + ": gets the dead letters",
		}},
		{"a subscription of something else", func() {}, []string{"DEAD_LETTER_SUBSCRIPTION=letters"}, []string{
			"FAIL  pub/sub  " + other + ": subscription of another topic: it gets the messages of projects/local-dev/topics/elsewhere", "until then dead letters are lost",
		}},
		{"no urgent subscription", func() {}, []string{asksUrgent}, []string{
			"FAIL  pub/sub  projects/local-dev/subscriptions/urgent", "create the subscription (`batchfleet run start` does), or set PUBSUB_PRIORITY_SUBSCRIPTION",
		}},
	}
	for _, tt := range tests {
		tt.setup()
		out := doctor(tt.extra...)
		for _, want := range tt.want {
			if !strings.Contains(out, want) {
				t.Errorf("%s: the doctor does not say %q:\n%s", tt.name, want, out)
			}
		}
	}
}
