package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/redisdb"
	"github.com/batchfleet/batchfleet/status"
)

// TestF25WorkersRepairWhatRedisForgot cuts Redis back to an earlier state, as a power
// cut does. Jobs that have ended since, and whose messages are acked, end once more on
// record, and without a person: neither for a job whose message was never sent.
func TestF25WorkersRepairWhatRedisForgot(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t)
	f.submit("before", 1)
	w := f.start("REPAIR_INTERVAL=1s")
	f.untilState(time.Minute, "before", "completed")

	f.submit("running", 10)
	f.untilState(time.Minute, "running", "processing")
	f.submit("waiting", 1)
	missing := jobs.Job{ID: "failing", Kind: "pdf", Input: "uploads/failing/no.pdf", Submitted: time.Now()}
	if _, err := f.status.Submit(t.Context(), missing); err != nil {
		t.Fatal(err)
	}
	f.send(missing)
	snapshot := f.redis.Snapshot()
	for id, want := range map[jobs.ID]string{"running": "completed", "waiting": "completed", "failing": "failed"} {
		f.untilState(time.Minute, id, want)
	}
	f.submit("forgotten", 1)
	f.untilState(time.Minute, "forgotten", "completed")
	// The message of the last ack may be on its way.
	until(f.t, time.Minute, "the queue is empty", func() bool { s := f.emulator.Stats()[0]; return s.Undelivered+s.Leased == 0 })

	f.redis.Rewind(snapshot)
	until(f.t, time.Minute, "Redis is cut back", func() bool { return f.state("before") == "completed" })
	// Two whose message never left: one was recorded as workers do, one by the web page.
	if _, err := f.status.Submit(t.Context(), jobs.Job{ID: "unsent", Kind: "mock", Pages: 1, Submitted: time.Now()}); err != nil {
		t.Fatal(err)
	}
	f.upload("page", "x.pdf")
	f.rdb.Set(t.Context(), "job:page", `{"status":"queued","progress":0,"message":"Waiting for a worker...","result_url":"","error_msg":"","updated_at":"2026-01-01T00:00:00Z"}`, status.TTL)

	done := []jobs.ID{"before", "running", "waiting", "forgotten", "unsent", "page"}
	until(f.t, time.Minute, "every job has ended", func() bool {
		for _, id := range done {
			if f.state(id) != "completed" {
				return false
			}
		}
		return f.state("failing") == "failed"
	})
	f.account("completed", done...)
	f.account("failed", "failing")
	if log := w.log.String(); strings.Contains(log, "job=before done=") || strings.Contains(log, `"job":"before","found"`) {
		t.Errorf("a job that was on record was repaired:\n%s", log)
	}
}

// TestF46WorkerNeedsNoProjectToRepair: a bare PUBSUB_TOPIC without GCP_PROJECT_ID ends
// no worker whose own names are full. It says what repair cannot do.
func TestF46WorkerNeedsNoProjectToRepair(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t)
	w := f.start("GCP_PROJECT_ID=", "PUBSUB_SUBSCRIPTION="+testSubscription, "REPAIR_INTERVAL=1s")
	f.submit("a", 1)
	f.untilState(time.Minute, "a", "completed")
	if log := w.log.String(); !strings.Contains(log, "repair cannot publish") || !strings.Contains(log, "PUBSUB_TOPIC is the bare name") {
		t.Errorf("the worker says\n%s", log)
	}
}

// upload puts a document where the web page does.
func (f *testFleet) upload(id jobs.ID, file string) {
	f.t.Helper()
	path := filepath.Join(f.dir, "uploads", string(id), file)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

// TestF25FsckRepairsTheFleet is the same by hand.
func TestF25FsckRepairsTheFleet(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t)
	w := f.start("REPAIR_INTERVAL=0")
	f.submit("recorded", 1)
	f.submit("forgotten", 1)
	f.untilState(time.Minute, "recorded", "completed")
	f.untilState(time.Minute, "forgotten", "completed")
	f.rdb.Del(t.Context(), "job:forgotten", "{job:forgotten}:detail", "{job:forgotten}:log")
	old := `{"status":"queued","progress":0,"message":"","result_url":"","error_msg":"","updated_at":"2026-01-01T00:00:00Z"}`
	if _, err := f.status.Submit(t.Context(), jobs.Job{ID: "unsent", Kind: "mock", Pages: 1}); err != nil {
		t.Fatal(err)
	}
	f.rdb.Set(t.Context(), "job:unsent", old, status.TTL)
	f.rdb.Set(t.Context(), "job:nowhere", old, status.TTL) // nothing says what it is to work on
	if _, err := f.status.Submit(t.Context(), jobs.Job{ID: "fresh", Kind: "mock", Pages: 1}); err != nil {
		t.Fatal(err)
	}

	fsck := func(wantCode int, args ...string) string {
		t.Helper()
		cmd := batchfleet(t, f.environment(), append([]string{"fsck"}, args...)...)
		out, err := cmd.Output()
		if code := cmd.ProcessState.ExitCode(); code != wantCode {
			t.Errorf("fsck %v: exit code %d, want %d: %v\n%s", args, code, wantCode, err, out)
		}
		return string(out)
	}
	if out := fsck(1); !strings.Contains(out, "NOT REPAIRED") || !strings.Contains(out, "waits without a claim") {
		t.Errorf("fsck says\n%s", out)
	}
	if f.state("forgotten") != "" || f.rdb.HGet(t.Context(), "{job:unsent}:detail", "sent_times").Val() != "" {
		t.Error("fsck without --repair has changed something")
	}
	out := fsck(0, "--repair")
	for _, want := range []string{"recorded as completed", "published again"} {
		if strings.Count(out, want) != 1 {
			t.Errorf("fsck --repair does not say %q once:\n%s", want, out)
		}
	}
	f.untilState(time.Minute, "unsent", "completed")
	f.account("completed", "recorded", "forgotten", "unsent")
	if got := f.state("fresh"); got != "queued" {
		t.Errorf("a job whose message is yet to come is %s", got)
	}
	var report redisdb.Audit
	if err := json.Unmarshal([]byte(fsck(0, "--json")), &report); err != nil || report.Left != 0 || fmt.Sprint(report.Counts) != "map[]" {
		t.Errorf("after it: %+v, %v", report, err)
	}
	if out := fsck(0); !strings.HasSuffix(out, "\nno findings: 4 jobs looked at\n") {
		t.Errorf("after it fsck says\n%s", out)
	}
	w.terminate()
}

// TestF25QueuedJobsOutliveRedis: Redis without its data knows no job that waits in the queue,
// which get says, so that it is not submitted again; a worker runs it all the same.
func TestF25QueuedJobsOutliveRedis(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t)
	f.submit("waits", 1)
	f.rdb.FlushAll(t.Context())
	for _, scope := range []string{"", "--scope=fleet"} {
		code, out, said := output(t, f.command(append([]string{"get", "waits"}, strings.Fields(scope)...)...))
		if code != 1 || !strings.Contains(said, "a job that still waits in Pub/Sub is unknown until a worker gets it") {
			t.Errorf("get %s: exit code %d\n%s%s", scope, code, out, said)
		}
	}
	if code, out, said := output(t, f.command("get", "waits", "--scope=zpe")); code != 1 || strings.Contains(said, "Pub/Sub") {
		t.Errorf("get of a gateway's: exit code %d\n%s%s", code, out, said)
	}
	f.start()
	f.untilState(time.Minute, "waits", "completed")
	f.account("completed", "waits")
}

// TestF25FsckSaysWhatIsRefused: that a job cannot be published again is not harmless.
func TestF25FsckSaysWhatIsRefused(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t)
	if _, err := f.status.Submit(t.Context(), jobs.Job{ID: "unsent", Kind: "mock", Pages: 1}); err != nil {
		t.Fatal(err)
	}
	f.rdb.Set(t.Context(), "job:unsent", `{"status":"queued","updated_at":"2026-01-01T00:00:00Z"}`, status.TTL)
	cmd := batchfleet(t, f.environment("PUBSUB_TOPIC=nowhere"), "fsck", "--repair")
	out, err := cmd.CombinedOutput()
	for _, want := range []string{"cannot be repaired", "topics/nowhere", "NOT REPAIRED", "1 finding is not repaired"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("fsck --repair does not say %q:\n%s", want, out)
		}
	}
	if code := cmd.ProcessState.ExitCode(); code != 1 {
		t.Errorf("exit code %d, want 1: %v", code, err)
	}
}
