package cli

import (
	"fmt"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/internal/testrun"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/status"
)

// TestF22JobOfAKilledWorkerStartsAgainAtItsCheckpoint kills a worker whose lease would
// last for ten minutes, and wakes another one up whose claim was taken meanwhile.
func TestF22JobOfAKilledWorkerStartsAgainAtItsCheckpoint(t *testing.T) {
	t.Parallel()
	testrun.Once(t, kills)
	f := newTestFleet(t)
	start := func(name, page string) *process {
		return f.start("WORKER_NAME="+name, "LEASE_TTL=600s", "LEASE_EXTEND_EVERY=300s", "MOCK_PAGE_SECONDS="+page, "CHECKPOINT_INTERVAL=0.2")
	}
	begun := func(by string) func() bool {
		return func() bool {
			e, err := f.status.Get(t.Context(), "a")
			return err == nil && e.Detail.Worker == by && e.Progress > 0
		}
	}
	f.submit("a", 450) // 45 s
	killed := start("killed", "0.1")
	until(f.t, time.Minute, "some pages", begun("killed"))
	frozen := start("frozen", "0.1")
	killed.kill()
	until(f.t, time.Minute, "the next attempt", begun("frozen")) // the lease has 600 s
	last := start("last", "0.01")
	if err := frozen.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	until(f.t, time.Minute, "the attempt after that", begun("last"))
	if err := frozen.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	until(f.t, time.Minute, "the woken worker has given up", func() bool { return strings.Contains(frozen.log.String(), "job handed back") })
	f.untilState(2*time.Minute, "a", "completed")
	f.account("completed", "a")
	if e, _ := f.status.Get(t.Context(), "a"); e.Detail.Worker != "last" || e.Detail.Attempt != 3 {
		t.Errorf("completed by %q in attempt %d, want the last one in the third", e.Detail.Worker, e.Detail.Attempt)
	}
	for _, w := range []*process{frozen, last} {
		if !strings.Contains(w.log.String(), "resuming at checkpoint") {
			t.Errorf("a worker began from the first page:\n%s", w.log)
		}
	}
}

func TestF21SilentWorkersAreShown(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t)
	f.start("WORKER_NAME=alive")
	f.status.Worker = "dead"
	if err := f.status.Member(status.Worker{Host: "somewhere", Slots: 1, Kinds: []jobs.Kind{"mock"}}).Pulse(t.Context(), 1, false, ""); err != nil {
		t.Fatal(err)
	}
	at := time.Now().Add(-40 * time.Second).UnixMilli()
	text := f.rdb.HGet(t.Context(), "{fleet}:workers", f.status.ID).Val()
	_, said, _ := strings.Cut(text, " ")
	f.rdb.HSet(t.Context(), "{fleet}:workers", f.status.ID, fmt.Sprintf("%d %s", at, said))
	full := status.New(f.rdb)
	full.Worker = "full"
	pulse := func() { // it would be silent on a machine that stalls
		if err := full.Member(status.Worker{Slots: 1}).Pulse(t.Context(), 0, false, "storage: no space left on device"); err != nil {
			t.Fatal(err)
		}
	}
	quick := status.New(f.rdb)
	quick.Worker = "quick" // killed before it could report that it had a job
	if err := quick.Member(status.Worker{Slots: 1}).Pulse(t.Context(), 0, false, ""); err != nil {
		t.Fatal(err)
	}
	_, said, _ = strings.Cut(f.rdb.HGet(t.Context(), "{fleet}:workers", quick.ID).Val(), " ")
	f.rdb.HSet(t.Context(), "{fleet}:workers", quick.ID, fmt.Sprintf("%d %s", at, said))
	if _, err := f.status.Claim(t.Context(), jobs.Job{ID: "a", Kind: "mock"}, time.Hour, jobs.Claim{}); err != nil {
		t.Fatal(err)
	}
	f.rdb.HSet(t.Context(), "{job:a}:claim", "seen", at)
	says := func(pattern string, args ...string) {
		t.Helper()
		var out []byte
		until(f.t, time.Minute, fmt.Sprintf("%v says %q", args, pattern), func() bool {
			pulse()
			var err error
			out, err = f.command(args...).CombinedOutput()
			return err == nil && regexp.MustCompile(pattern).Match(out)
		})
	}
	says(`(?m)^alive +idle +0 +1 +mock,pdf +\d+s +\S+ `, "workers")
	says(`(?m)^dead +silent for \d+[sm] +had 1 +1 +mock +\d+[sm] +somewhere(?s:.*)batchfleet: a silent worker was killed or cannot reach Redis: other workers take over`, "workers")
	says(`(?m)^quick +silent for \d+[sm] +1 +`, "workers")
	says(`(?m)^full +not ready +0 +1 +(?s:.*)^batchfleet: full is not ready: storage: no space left on device$`, "workers")
	says(`"name":"dead".*"state":"silent"`, "workers", "--json")
	says(`"name":"full".*"state":"unready","reason":"storage: no space left on device"`, "workers", "--json")
	says(`(?m)^worker +silent for \d+0s: dead$`, "get", "a")
	says(`(?m)^a +mock +running +\d+[smd] +silent for \d+0s: dead$`, "list")
	says(`"workerSilentSeconds":\d+0\b`, "get", "a", "--json")
}
