package cli

import (
	"bufio"
	"bytes"
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

	"google.golang.org/grpc/codes"

	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/internal/testrun"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/pdf/pdftest"
)

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

// putInputs stores the documents that the failed jobs did not find.
func (f *testFleet) putInputs(ids ...jobs.ID) {
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

// redriveRest redrives until no dead letter is left. One redrive does not see those
// that another holds, nor those of a pull that was canceled before its reply came:
// they come back at the end of their lease.
func (f *testFleet) redriveRest() {
	f.t.Helper()
	until(f.t, 3*time.Minute, "no dead letter is left", func() bool {
		if _, errs, code := f.dlq("redrive", "--rate", "1000"); code != 0 {
			f.t.Errorf("code %d: %s", code, errs)
		}
		s := f.deadStats()
		return s.Undelivered == 0 && s.Leased == 0
	})
}

// finish starts a worker, and checks that each of the jobs is done once and that
// no dead letter is left.
func (f *testFleet) finish(ids []jobs.ID) {
	f.t.Helper()
	f.start(keepsDead, "WORKER_SLOTS=4")
	for _, id := range ids {
		f.untilState(time.Minute, id, "completed")
	}
	f.account("completed", ids...)
	f.dead(0)
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
	if code != program.Failed || errs != "batchfleet: 2 of 4 were not redriven\n" {
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

// begun starts a dlq command and returns once it has printed n lines.
func (f *testFleet) begun(n int, args ...string) *exec.Cmd {
	f.t.Helper()
	cmd := f.command(append([]string{"dlq"}, append(args, dlqWait)...)...)
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
	testrun.Once(t, kills)
	f := newTestFleet(t)
	ids := f.failing(40)
	f.putInputs(ids...)
	for range 2 {
		cmd := f.begun(7, "redrive", "--rate", "5")
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		until(f.t, 40*time.Second, "the dead letters are back, 30 s after the kill", func() bool { return f.deadStats().Leased == 0 })
	}
	left := f.deadStats().Undelivered
	if left == 0 || left > len(ids)-14+2 {
		t.Errorf("%d dead letters left, want those that neither run redrove", left)
	}
	f.redriveRest()
	f.finish(ids)
}

func TestF13PromiseRedriveInterrupted(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t)
	ids := f.failing(10)
	f.putInputs(ids...)
	cmd := f.begun(1, "redrive", "--rate", "0.01")
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != program.Interrupted {
		t.Errorf("exit code %d, %v; want 130", cmd.ProcessState.ExitCode(), err)
	}
	if s := f.deadStats(); s.Undelivered != 9 || s.Leased != 0 {
		t.Errorf("%d dead letters, %d of them held; want 9 back at once", s.Undelivered, s.Leased)
	}
	f.redriveRest()
	f.finish(ids)
}

func TestF13PromiseRedisGoneInTheMiddleOfARedrive(t *testing.T) {
	t.Parallel()
	testrun.Once(t, kills)
	f := newTestFleet(t)
	ids := f.failing(20)
	f.putInputs(ids...)
	cmd := f.begun(5, "redrive", "--rate", "0.5")
	f.redis.Kill()
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != program.Unavailable {
		t.Errorf("exit code %d, %v; want 3", cmd.ProcessState.ExitCode(), err)
	}
	if s := f.deadStats(); s.Leased != 0 || s.Undelivered < 10 {
		t.Errorf("%d dead letters, %d of them held; want all that were left handed back", s.Undelivered, s.Leased)
	}
	f.redis.Start() // with what it had saved
	f.redriveRest()
	f.finish(ids)
}

func TestF13PromisePublishFailsInTheMiddleOfARedrive(t *testing.T) {
	t.Parallel()
	testrun.Once(t, kills)
	f := newTestFleet(t)
	ids := f.failing(5)
	f.putInputs(ids...)
	f.emulator.Fail("Publish", 1, codes.PermissionDenied)
	out, errs, code := f.dlq("redrive", "--rate", "100")
	if code != program.Usage || out != "" || !strings.Contains(errs, "5 of 5 left") || !strings.Contains(errs, "its dead letter is kept") {
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
	f.emulator.DropReplies("Publish", 1) // published, but the reply is lost
	f.emulator.DropReplies("Acknowledge", 1)
	_, errs, code = f.dlq("redrive", "--rate", "100")
	if code == 0 {
		t.Errorf("code 0 though a dead letter may not have been dropped: %s", errs)
	}
	f.redriveRest()
	f.finish(ids)
}

func TestF13PromiseTwoPeopleAtOnce(t *testing.T) {
	t.Parallel()
	testrun.Once(t, kills)
	f := newTestFleet(t)
	ids := f.failing(40)
	f.putInputs(ids...)
	f.start(keepsDead)
	var people sync.WaitGroup
	for range 3 {
		people.Go(func() {
			for range 3 {
				out, errs, code := f.dlq("redrive", "--rate", "100", "--count", "9")
				if code != 0 {
					t.Errorf("code %d: %s%s", code, out, errs)
				}
				f.dlq("list", dlqBrief)
			}
		})
	}
	people.Wait()
	f.redriveRest()
	f.finish(ids)
}

func TestF13RedriveStopsWhenTheSameErrorRepeats(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t)
	f.failing(20)
	var ids []jobs.ID // in the order in which they are redriven, which need not be that in which they were queued
	for _, row := range slices.Backward(f.rows()) {
		ids = append(ids, row.JobID)
	}
	f.putInputs(ids[0], ids[1])
	f.start(keepsDead, "WORKER_SLOTS=4")
	until(f.t, time.Minute, "the worker waits", func() bool { return f.emulator.Stats()[0].WaitingPulls > 0 })
	said, err := os.Create(filepath.Join(t.TempDir(), "said")) // what it has printed can be read at once, unlike from a pipe
	if err != nil {
		t.Fatal(err)
	}
	defer said.Close()
	redriven := func() int {
		text, err := os.ReadFile(said.Name())
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(text), "redriven")
	}
	cmd := f.command("dlq", "redrive", dlqWait, "--rate", "0.5", "--stop-after", "3")
	var errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = said, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	until(f.t, time.Minute, "three have failed again", func() bool {
		failed := 0
		for _, id := range ids[2:max(2, redriven())] {
			if f.state(id) == "failed" {
				failed++
			}
		}
		return failed >= 3
	})
	before := redriven()
	_ = cmd.Wait() // the exit code is in ProcessState
	code, n := cmd.ProcessState.ExitCode(), redriven()
	if code != program.Failed || n < 5 || n == 20 || !strings.Contains(errs.String(), fmt.Sprintf("stopped with %d of 20 left: ", 20-n)) {
		t.Errorf("code %d after %d jobs: %s", code, n, &errs)
	}
	// One job may have been under way, and another follow so soon that it did not look again.
	if n > before+2 {
		t.Errorf("%d jobs redriven, %d of them after three had failed again", n, n-before)
	}
	f.dead(18) // those that failed again are dead letters once more
	for _, id := range ids[:2] {
		f.untilState(30*time.Second, id, "completed")
	}
	f.account("completed", ids[:2]...)
	f.account("failed", ids[2:]...)
}
