package cli

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/internal/testrun"
	"github.com/batchfleet/batchfleet/jobs"
)

// A worker is stopped in mid-work, its jobs are taken over or canceled, and then it goes
// on: nothing that it was about to store may become visible. Each job of a freeze is one
// round; FREEZES=21 makes 504.
func TestF24NothingIsWrittenByAnAttemptThatLostItsJob(t *testing.T) {
	t.Parallel()
	testrun.Once(t, kills)
	const slots = 24
	freezes := 1
	if n, err := strconv.Atoi(os.Getenv("FREEZES")); err == nil {
		freezes = n
	}
	random := rand.New(rand.NewPCG(24, uint64(freezes)))
	for n := range freezes {
		f := newTestFleet(t)
		f.dir = testrun.MemoryDir(t) // where a write takes the least time
		env := []string{fmt.Sprint("WORKER_SLOTS=", slots), "CHECKPOINT_INTERVAL=0.1", "MAX_CRASHES=10", "LEASE_TTL=600s", "LEASE_EXTEND_EVERY=300s", "DRAIN_TIMEOUT=600s"}
		frozen := f.start(append(env, "MOCK_PAGE_SECONDS=0.001-0.02")...)
		ids := make([]jobs.ID, slots)
		for i := range ids {
			ids[i] = jobs.ID(fmt.Sprintf("job-%d-%d", n, i))
			f.submit(ids[i], 50+random.IntN(600))
		}
		until(f.t, time.Minute, "a job runs", func() bool {
			parts, _ := filepath.Glob(filepath.Join(f.dir, "results", "*", "parts", "*.jsonl"))
			return len(parts) > 0
		})
		<-time.After(time.Duration(random.IntN(3000)) * time.Millisecond)
		if err := frozen.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		recorded := 0 // of one of them it may not have told the queue
		for _, id := range ids {
			if f.state(id) == "completed" {
				recorded++
			}
		}
		for i := range ids {
			if i%2 == 0 {
				if _, err := f.status.Cancel(t.Context(), ids[i]); err != nil && f.state(ids[i]) != "completed" {
					t.Fatal(err)
				}
			}
		}
		second := f.start(append(env, "MOCK_PAGE_SECONDS=0.001")...)
		f.untilEnded(4*time.Minute, ids)
		until(f.t, time.Minute, "the second worker has told the queue", func() bool { s := f.emulator.Stats()[0]; return s.Undelivered == 0 && s.Leased <= recorded })
		f.redis.Freeze() // the first worker does not learn at once that it was replaced
		if err := frozen.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Second)
		f.redis.Resume()
		// It has all the time it wants to finish what it believes to have in hand.
		if code, _ := frozen.terminate(); code != 0 {
			t.Errorf("the first worker ended with code %d:\n%s", code, frozen.log)
		}
		f.nothingLeft(ids)
		second.kill()
	}
}

// nothingLeft checks that there are results of the jobs that have succeeded, and no
// other file or directory.
func (f *testFleet) nothingLeft(ids []jobs.ID) {
	f.t.Helper()
	want := map[string]bool{"results": true}
	for _, id := range ids {
		if f.state(id) != "completed" {
			continue
		}
		f.checkResult(id, true)
		dir := "results/" + string(id)
		want[dir], want[dir+"/result.json"], want[dir+"/pages.jsonl"] = true, true, true
	}
	err := fs.WalkDir(os.DirFS(f.dir), "results", func(name string, _ fs.DirEntry, err error) error {
		if err == nil && !want[name] {
			f.t.Errorf("%s is left behind; its job is %s", name, f.state(jobs.ID(strings.Split(name, "/")[1])))
		}
		return err
	})
	if err != nil {
		f.t.Error(err)
	}
}
