package cli

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/internal/testrun"
	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/pubsub/provider"
)

func TestFleetDrainsWhenAskedAndGoesOn(t *testing.T) {
	t.Parallel()
	testrun.Once(t, kills)
	f := newTestFleet(t)
	f.submit("first", 0)
	doctor := func(want string) {
		t.Helper()
		cmd := f.command("doctor")
		cmd.Env = append(cmd.Env, "DEAD_LETTER_TOPIC=") // this fleet has none
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("doctor: %v, want %q:\n%s", err, want, out)
		}
	}
	doctor("ok    redis ")
	w := f.start("MOCK_PAGES=200", "MOCK_PAGE_SECONDS=0.1") // 20 s
	f.untilState(time.Minute, "first", "processing")
	if changed, err := f.status.SetDraining(t.Context(), true); err != nil || !changed {
		t.Fatalf("set draining: %v, %v", changed, err)
	}
	until(f.t, 30*time.Second, "the worker sees it", func() bool { return strings.Contains(w.log.String(), "draining: asked by an operator") })
	f.submit("second", 0)
	if state := f.state("first"); state != "processing" {
		t.Errorf("first is %s: a drain stops no job", state)
	}
	doctor("warn  redis ")
	doctor("draining: asked by an operator\n      what to do: nothing, if that is wanted; `batchfleet run start` takes it back")
	f.untilState(60*time.Second, "first", "completed")
	until(f.t, time.Minute, "no claim is held", func() bool {
		held, err := f.status.Held(t.Context())
		return err == nil && len(held) == 0
	})
	if state := f.state("second"); state != "queued" {
		t.Errorf("second is %s while the fleet drains, want queued", state)
	}
	if _, err := f.status.SetDraining(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	f.untilState(30*time.Second, "second", "processing")
	// And a job that runs hears of a cancel.
	jobsAPI := &provider.Fleet{Status: f.status}
	if err := w.Process.Signal(syscall.SIGSTOP); err != nil { // it does not hear of it yet
		t.Fatal(err)
	}
	j, err := jobsAPI.Cancel(t.Context(), "second")
	if err := w.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err != nil || j.Status != jobs.Running {
		t.Errorf("cancel: %+v, %v", j, err)
	}
	f.untilState(time.Minute, "second", "canceled") // within 2 s: proven in virtual time, in package worker
	found, err := jobsAPI.Get(t.Context(), []string{"second", "first"})
	if err != nil || len(found) != 2 {
		t.Fatalf("%v, %v", found, err)
	}
	if s := found[0].Steps; s[1].Status != jobapi.Canceled || s[2].Status != jobapi.Canceled {
		t.Errorf("steps of the canceled job: %+v", s)
	}
	if found[1].Progress.Completed != 3 {
		t.Errorf("steps of the other: %+v", found[1].Steps)
	}
	f.account("completed", "first")
}

func TestF27SecondSignalHandsTheJobBackAtOnceUncounted(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t)
	long := []string{"DRAIN_TIMEOUT=600s", "LEASE_TTL=600s", "LEASE_EXTEND_EVERY=300s"}
	first := f.start(append(long, "MOCK_PAGE_SECONDS=1")...)
	f.submit("a", 600)
	f.untilState(time.Minute, "a", "processing")
	if err := first.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	until(f.t, time.Minute, "the worker has received the first signal", func() bool {
		return strings.Contains(first.log.String(), "another signal hands them back at once")
	})
	if state := f.state("a"); state != "processing" {
		t.Errorf("after the first signal the job is %s, want it to go on", state)
	}
	if code, took := first.terminate(); code != 0 {
		t.Errorf("worker ended with %d after %s:\n%s", code, took, first.log)
	}
	if state := f.state("a"); state != "queued" {
		t.Errorf("after the second signal the job is %s, want queued", state)
	}
	f.start(append(long, "MOCK_PAGE_SECONDS=0")...)
	f.untilState(time.Minute, "a", "completed") // the lease would last 600 s
	f.account("completed", "a")
	if e, err := f.status.Get(t.Context(), "a"); err != nil || e.Detail.Crashes != 0 || e.Detail.Attempt != 2 {
		t.Errorf("attempt %d with %d crashes (%v), want attempt 2 with none", e.Detail.Attempt, e.Detail.Crashes, err)
	}
}
