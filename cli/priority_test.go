package cli

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/internal/testrun"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/pubsub"
)

const asksUrgent = "PUBSUB_PRIORITY_SUBSCRIPTION=urgent"

// withUrgent creates the priority subscription and returns a publisher to it.
func (f *testFleet) withUrgent() *pubsub.Publisher {
	f.t.Helper()
	const topic = "projects/local-dev/topics/urgent"
	if err := f.emulator.EnsureSubscription("projects/local-dev/subscriptions/urgent", topic, testLease); err != nil {
		f.t.Fatal(err)
	}
	opts, err := pubsub.Options(f.addr)
	if err != nil {
		f.t.Fatal(err)
	}
	p, err := pubsub.OpenPublisher(f.t.Context(), topic, pubsub.Rules{}, opts...)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = p.Close() })
	return p
}

func TestF14PromiseUrgentAndNormalJobsUnderFaults(t *testing.T) {
	t.Parallel()
	testrun.Once(t, kills)
	f := newTestFleet(t)
	urgent := f.withUrgent()
	var all []jobs.ID
	for i := range 40 {
		for _, prefix := range []string{"u", "n"} {
			job := jobs.Job{ID: jobs.ID(fmt.Sprintf("%s-%02d", prefix, i)), Kind: "mock", Pages: 3}
			all = append(all, job.ID)
			if prefix == "n" {
				f.send(job)
			} else if _, err := urgent.Publish(t.Context(), job); err != nil {
				t.Fatal(err)
			}
		}
	}
	fleet := []*process{f.start(asksUrgent, "WORKER_SLOTS=3"), f.start(asksUrgent, "MAX_CRASHES=100")}
	until(f.t, time.Minute, "an urgent job is done", func() bool { return f.state("u-05") == "completed" })
	if code, _ := fleet[0].terminate(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	fleet[1].kill()
	f.start(asksUrgent, "WORKER_SLOTS=3", "MAX_CRASHES=100")
	for _, id := range all {
		f.untilState(time.Minute, id, "completed")
	}
	f.account("completed", all...)
	until(f.t, time.Minute, "every urgent message is acknowledged", func() bool {
		s := f.emulator.Stats()[1]
		return s.Undelivered == 0 && s.Leased == 0
	})
}

func TestF14MissingPrioritySubscriptionEndsTheWorker(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t)
	w := f.start(asksUrgent, "START_TIMEOUT=1s")
	if code := w.exitCode(30 * time.Second); code != program.Usage || !strings.Contains(w.log.String(), "projects/local-dev/subscriptions/urgent") {
		t.Errorf("exit code %d, want 2 and the name of what is missing:\n%s", code, w.log)
	}
}

func TestF20IdleWorkerProcessLeavesWithSuccess(t *testing.T) {
	t.Parallel()
	testrun.Once(t, kills)
	f := newTestFleet(t)
	f.submit("a", 20)
	began := time.Now()
	w := f.start("IDLE_EXIT=8s", "MOCK_PAGE_SECONDS=0.5") // the job takes longer than that
	if code, took := w.exitCode(2*time.Minute), time.Since(began); code != 0 || took < 18*time.Second {
		t.Errorf("exit code %d after %s, want 0 after the job of 10 s and 8 idle seconds", code, took)
	}
	if !strings.Contains(w.log.String(), "no job has come for 8s") {
		t.Errorf("the log does not say why:\n%s", w.log)
	}
	f.account("completed", "a")
}
