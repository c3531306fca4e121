package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/batchfleet/batchfleet/emulator"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/pdf/pdftest"
)

const deadName = "pdf-processing-topic-dead"

// Variables of processes that know of dead letters.
const keepsDead = "DEAD_LETTER_TOPIC=" + deadName

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

// dead waits until so many letters lie there, none of them held.
func (f *testFleet) dead(want int) {
	f.t.Helper()
	f.until(time.Minute, fmt.Sprintf("%d dead letters: %+v", want, f.deadStats()), func() bool {
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
	cmd := f.command(append([]string{"dlq"}, append(args, "--wait", "300ms")...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		f.t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
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

// failing queues jobs whose documents are not there yet, lets a worker fail
// them, and waits for their dead letters.
func (f *testFleet) failing(n int) (ids []jobs.ID) {
	f.t.Helper()
	f.withDead()
	for i := range n {
		id := jobs.ID(fmt.Sprintf("job-%03d", i))
		job := jobs.Job{ID: id, Kind: "pdf", Input: "uploads/" + string(id) + ".pdf", Submitted: time.Now()}
		if _, err := f.status.Submit(f.t.Context(), job); err != nil {
			f.t.Fatal(err)
		}
		f.send(job)
		ids = append(ids, id)
	}
	w := f.start(keepsDead, "WORKER_SLOTS=4")
	f.dead(n)
	w.terminate()
	for _, id := range ids {
		if got := f.state(id); got != "failed" {
			f.t.Fatalf("job %s is %s, want failed", id, got)
		}
	}
	return ids
}

// mend puts the documents of failed jobs where they should have been.
func (f *testFleet) mend(ids ...jobs.ID) {
	f.t.Helper()
	if err := os.MkdirAll(filepath.Join(f.dir, "uploads"), 0o700); err != nil {
		f.t.Fatal(err)
	}
	for _, id := range ids {
		if err := os.WriteFile(filepath.Join(f.dir, "uploads", string(id)+".pdf"), pdftest.Pages("one", "two").Table(""), 0o600); err != nil {
			f.t.Fatal(err)
		}
	}
}

// finish starts a worker, and checks that each of the jobs is done once and that
// no letter is left.
func (f *testFleet) finish(ids []jobs.ID) {
	f.t.Helper()
	f.start(keepsDead, "WORKER_SLOTS=4")
	for _, id := range ids {
		f.untilState(time.Minute, id, "completed")
	}
	f.account("completed", ids...)
	f.dead(0)
}

func TestF13DeadLettersAndTheirSecondLife(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t)
	f.withDead()
	f.start(keepsDead)
	id := f.sendRaw("\x1b[31mnoise")
	f.send(jobs.Job{ID: "lost", Kind: "pdf", Input: "uploads/lost.pdf"})
	f.send(jobs.Job{ID: "odd", Kind: "bogus"})
	f.dead(3)
	f.send(jobs.Job{ID: "odd", Kind: "bogus"}) // a redelivery, as it were
	f.dead(4)

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
	if out, _, code = f.dlq("show", "lost"); code != 0 || !strings.Contains(out, `{"job_id":"lost","pdf_path":"uploads/lost.pdf"`) || !strings.Contains(out, "reason        ") {
		t.Errorf("show: code %d\n%s", code, out)
	}
	if out, _, code = f.dlq("show", "message:"+id); code != 0 || !strings.Contains(out, "malformed message: not a JSON object") || strings.Contains(out, "\x1b") {
		t.Errorf("show: code %d\n%q", code, out)
	}
	f.wantDLQ(1, "batchfleet: no dead letter of nobody (or somebody else holds it just now)", "show", "nobody")

	f.mend("lost")
	f.wantDLQ(0, "lost  would be redriven\nodd  would be redriven", "redrive", "--dry-run")
	f.dead(4)
	if got := f.state("lost"); got != "failed" {
		t.Errorf("a dry run has made the job %s", got)
	}
	f.wantDLQ(0, "lost  redriven", "redrive", "--count", "1")
	f.untilState(20*time.Second, "lost", "completed")
	f.account("completed", "lost")
	f.dead(3)
	f.wantDLQ(0, "", "redrive", "--reason", "no such reason")
	f.wantDLQ(0, "odd  redriven", "redrive", "--reason", `kind "bogus"`) // both letters; one new
	f.dead(2)
	f.wantDLQ(0, "message:"+id+"  redriven, though it names no job", "redrive", "message:"+id)
	f.dead(2)
	if again := f.rows(); len(again) != 2 || again[0].Cause != "malformed" || again[0].Name == "message:"+id {
		t.Errorf("rows %+v, want the message dead again, under its new id", again)
	}

	f.wantDLQ(2, "batchfleet: name what to drop, or give --all", "purge")
	f.wantDLQ(2, "batchfleet: this drops dead letters for good: give --yes, or --dry-run to see which", "purge", "--all")
	f.wantDLQ(0, "odd  would be purged", "purge", "--dry-run", "odd")
	f.wantDLQ(1, "odd  purged\nbatchfleet: no dead letter of nobody (or somebody else holds it just now)", "purge", "--yes", "odd", "nobody")
	f.dead(1)
	if out, _, code = f.dlq("purge", "--all", "--yes"); code != 0 || !strings.Contains(out, "purged") {
		t.Errorf("purge: code %d\n%s", code, out)
	}
	f.dead(0)
	f.wantDLQ(0, "TIME  JOB  KIND  ATTEMPTS  REASON\nno dead letters, or somebody else holds them just now", "list")
}

func TestF13JobsThatWentOnSinceAreNotRedriven(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t)
	ids := f.failing(4)
	claim := func(id jobs.ID) jobs.Claim {
		t.Helper()
		if _, err := f.status.Requeue(t.Context(), jobs.Job{ID: id}); err != nil {
			t.Fatal(err)
		}
		c, err := f.status.Claim(t.Context(), jobs.Job{ID: id}, time.Minute, jobs.Claim{})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	claim(ids[0]) // runs
	if _, err := f.status.Finish(t.Context(), claim(ids[1]), jobs.Outcome{State: jobs.Succeeded}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.status.Finish(t.Context(), claim(ids[2]), jobs.Outcome{State: jobs.Canceled}); err != nil {
		t.Fatal(err)
	}
	f.rdb.Del(t.Context(), "job:"+string(ids[3])) // forgotten after a day
	out, errs, code := f.dlq("redrive", string(ids[0]), string(ids[1]), string(ids[2]), string(ids[3]))
	if code != exitFailed || errs != "batchfleet: 2 of 4 were not redriven\n" {
		t.Errorf("code %d: %s", code, errs)
	}
	lines := slices.Sorted(strings.Lines(out)) // in the order they failed in
	if want := []string{"job-000  left: it is running\n", "job-001  dropped: it has succeeded since\n", "job-002  left: it was canceled since\n", "job-003  redriven\n"}; !slices.Equal(lines, want) {
		t.Errorf("printed %q, want %q", lines, want)
	}
	f.dead(2)
	if got := f.state(ids[3]); got != "queued" {
		t.Errorf("the forgotten job is %q, want it queued", got)
	}
}

func TestF13MissingDeadLetterTopicIsVisibleAndCostsNoJob(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t)
	f.send(jobs.Job{ID: "a", Kind: "bogus"})
	w := f.start(keepsDead)
	f.until(20*time.Second, "the worker says what is missing", func() bool {
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
	w := f.start(keepsDead)
	f.until(20*time.Second, "the worker waits", func() bool { return f.emulator.Stats()[0].WaitingPulls == 1 })
	f.send(jobs.Job{ID: "a", Kind: "bogus"})
	f.emulator.Fail("Publish", 1000, codes.Unavailable)
	f.untilState(20*time.Second, "a", "failed")
	w.kill()
	if s := f.deadStats(); s.Published != 0 {
		t.Fatalf("%d letters, want none yet", s.Published)
	}
	// What is left of the faults is what the next worker has to get over.
	f.start(keepsDead)
	f.until(20*time.Second, "the message is delivered again", func() bool { return f.emulator.Stats()[0].Redelivered > 0 })
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
			"FAIL  pub/sub  projects/local-dev/topics/" + deadName, "create the topic, or set DEAD_LETTER_TOPIC",
			"FAIL  pub/sub  projects/local-dev/subscriptions/" + deadName, "create the subscription, or set DEAD_LETTER_SUBSCRIPTION",
		}},
		{"all there", f.withDead, nil, []string{
			"ok    pub/sub  projects/local-dev/topics/" + deadName + ": takes dead letters",
			"ok    pub/sub  projects/local-dev/subscriptions/" + deadName + ": gets the dead letters",
		}},
		{"a subscription of something else", func() {}, []string{"DEAD_LETTER_SUBSCRIPTION=letters"}, []string{
			"FAIL  pub/sub  " + other + ": subscription of another topic: it gets the messages of projects/local-dev/topics/elsewhere", "until then dead letters are lost",
		}},
		{"no urgent subscription", func() {}, []string{asksUrgent}, []string{
			"FAIL  pub/sub  projects/local-dev/subscriptions/urgent", "create the subscription, or set PUBSUB_PRIORITY_SUBSCRIPTION",
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

// begun starts a dlq command and returns once it has printed n lines.
func (f *testFleet) begun(n int, args ...string) *exec.Cmd {
	f.t.Helper()
	cmd := f.command(append([]string{"dlq"}, args...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		f.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for range n {
		if !lines.Scan() {
			f.t.Fatalf("dlq %s ended too soon: %v", strings.Join(args, " "), lines.Err())
		}
	}
	go func() { // ends with the process
		for lines.Scan() {
		}
	}()
	return cmd
}

func TestF13PromiseRedriveKilledInTheMiddle(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t)
	ids := f.failing(40)
	f.mend(ids...)
	for range 2 {
		cmd := f.begun(7, "redrive", "--wait", "300ms", "--rate", "50")
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		f.until(40*time.Second, "the letters are back, 30 s after the kill", func() bool { return f.deadStats().Leased == 0 })
	}
	left := f.deadStats().Undelivered
	if left == 0 || left > len(ids)-14+2 {
		t.Errorf("%d letters left, want what the two did not come to", left)
	}
	if _, errs, code := f.dlq("redrive", "--rate", "1000"); code != 0 {
		t.Errorf("the third redrive: code %d: %s", code, errs)
	}
	f.finish(ids)
}

func TestF13PromiseRedriveInterrupted(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t)
	ids := f.failing(10)
	f.mend(ids...)
	cmd := f.begun(2, "redrive", "--wait", "300ms", "--rate", "0.5")
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != exitInterrupted {
		t.Errorf("exit code %d, %v; want 130", cmd.ProcessState.ExitCode(), err)
	}
	if s := f.deadStats(); s.Undelivered != 8 || s.Leased != 0 {
		t.Errorf("%d letters, %d of them held; want 8 back at once", s.Undelivered, s.Leased)
	}
	if _, errs, code := f.dlq("redrive"); code != 0 {
		t.Errorf("code %d: %s", code, errs)
	}
	f.finish(ids)
}

func TestF13PromiseRedisGoneInTheMiddleOfARedrive(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t)
	ids := f.failing(20)
	f.mend(ids...)
	cmd := f.begun(5, "redrive", "--wait", "300ms", "--rate", "10")
	f.redis.Kill()
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != exitUnavailable {
		t.Errorf("exit code %d, %v; want 3", cmd.ProcessState.ExitCode(), err)
	}
	if s := f.deadStats(); s.Leased != 0 || s.Undelivered < 10 {
		t.Errorf("%d letters, %d of them held; want all that were left handed back", s.Undelivered, s.Leased)
	}
	f.redis.Start() // with what it had saved
	if _, errs, code := f.dlq("redrive", "--rate", "100"); code != 0 {
		t.Errorf("code %d: %s", code, errs)
	}
	f.finish(ids)
}

func TestF13PromisePublishFailsInTheMiddleOfARedrive(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t)
	ids := f.failing(5)
	f.mend(ids...)
	f.emulator.Fail("Publish", 1, codes.PermissionDenied)
	out, errs, code := f.dlq("redrive", "--rate", "100")
	if code != exitUnavailable || out != "" || !strings.Contains(errs, "5 of 5 left") || !strings.Contains(errs, "its dead letter is kept") {
		t.Errorf("code %d, printed %q and %q", code, out, errs)
	}
	f.dead(5)
	queued := 0
	for _, id := range ids {
		if f.state(id) == "queued" {
			queued++
		}
	}
	if queued != 1 {
		t.Errorf("%d jobs are queued, want the one whose message did not leave", queued)
	}
	f.emulator.DropReplies("Publish", 1) // published, but nobody knows
	f.emulator.DropReplies("Acknowledge", 1)
	_, errs, code = f.dlq("redrive", "--rate", "100")
	if code == 0 {
		t.Errorf("code 0 though a letter may not have been dropped: %s", errs)
	}
	if _, errs, code = f.dlq("redrive", "--rate", "100"); code != 0 {
		t.Errorf("code %d: %s", code, errs)
	}
	f.finish(ids)
}

func TestF13PromiseTwoPeopleAtOnce(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t)
	ids := f.failing(40)
	f.mend(ids...)
	f.start(keepsDead)
	var people sync.WaitGroup
	for range 3 {
		people.Go(func() {
			for range 3 {
				out, errs, code := f.dlq("redrive", "--rate", "100", "--count", "9")
				if code != 0 {
					t.Errorf("code %d: %s%s", code, out, errs)
				}
				f.dlq("list")
			}
		})
	}
	people.Wait()
	if _, errs, code := f.dlq("redrive", "--rate", "1000"); code != 0 {
		t.Errorf("code %d: %s", code, errs)
	}
	f.finish(ids)
}

func TestF13RedriveStopsWhenTheSameErrorRepeats(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t)
	ids := f.failing(20)
	f.mend(ids[0], ids[1])
	f.start(keepsDead)
	out, errs, code := f.dlq("redrive", "--rate", "3", "--stop-after", "3")
	n := strings.Count(out, "redriven")
	if code != exitFailed || n < 5 || n > 12 || !strings.Contains(errs, fmt.Sprintf("stopped with %d of 20 left: ", 20-n)) {
		t.Errorf("code %d after %d jobs: %s", code, n, errs)
	}
	f.dead(18) // those that failed again lie there anew
	for _, id := range ids[:2] {
		f.untilState(30*time.Second, id, "completed")
	}
	f.account("completed", ids[:2]...)
	f.account("failed", ids[2:]...)
}
