package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batchfleet/batchfleet/internal/testrun"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/pdf/pdftest"
)

func TestPromiseDiskFull(t *testing.T) {
	t.Parallel()
	testrun.Once(t, kills)
	f := newTestFleet(t)
	f.submit("a", 400) // 20 s
	w := f.start("MOCK_PAGE_SECONDS=0.05")
	f.untilState(time.Minute, "a", "processing")
	// No file may grow from now on: what a full disk looks like to one process.
	limit := func(bytes uint64) {
		t.Helper()
		if err := unix.Prlimit(w.Process.Pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: bytes, Max: unix.RLIM_INFINITY}, nil); err != nil {
			t.Fatal(err)
		}
	}
	limit(0)
	until(f.t, time.Minute, "the job is handed back", func() bool { return strings.Contains(w.log.String(), "job handed back") })
	f.untilState(25*time.Second, "a", "queued") // before it comes back
	f.submit("b", 1)                            // is not even leased
	until(f.t, time.Minute, "the worker says that it is not ready", func() bool { return strings.Contains(w.log.String(), "not ready") })
	if got := f.state("b"); got != "queued" {
		t.Errorf("job b is %s while nothing can be stored, want queued", got)
	}
	limit(unix.RLIM_INFINITY)
	f.untilState(4*time.Minute, "a", "completed") // it comes back after 30 to 60 s
	f.untilState(time.Minute, "b", "completed")
	f.account("completed", "a", "b")
	if e, _ := f.status.Get(t.Context(), "a"); e.Detail.Crashes != 0 {
		t.Errorf("%d crashes counted, want none", e.Detail.Crashes)
	}
}

// A service manager signals every process of a service. The reader of a document
// must leave the decision to its worker, or a stop would fail the job.
func TestF17PromiseSignalsToTheReaderAreTheWorkers(t *testing.T) {
	t.Parallel()
	testrun.Once(t, kills)
	f := newTestFleet(t)
	texts := make([]string, 15_000)
	for i := range texts {
		texts[i] = "a page of a long document"
	}
	if err := os.MkdirAll(filepath.Join(f.dir, "uploads"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(f.dir, "uploads", "long.pdf"), pdftest.Pages(texts...).Table(""), 0o600); err != nil {
		t.Fatal(err)
	}
	w := f.start()
	var ids []jobs.ID
	for disturbed := false; !disturbed; { // again if the reader was quicker than this test
		if len(ids) == 20 {
			t.Fatal("every document was read before it could be disturbed")
		}
		id := jobs.ID(fmt.Sprint("long-", len(ids)))
		ids = append(ids, id)
		f.send(jobs.Job{ID: id, Kind: "pdf", Input: "uploads/long.pdf"})
		reader := 0
		until(f.t, time.Minute, "a document is read", func() bool {
			reader = childOf(w)
			e, err := f.status.Get(t.Context(), id)
			return err == nil && (e.State().Terminal() || reader != 0 && e.Status == "processing" && e.Message != "Processing started...")
		})
		disturbed = reader != 0
		for _, sig := range []unix.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGHUP} {
			disturbed = disturbed && unix.Kill(reader, sig) == nil
		}
		f.untilState(4*time.Minute, id, "completed")
	}
	f.account("completed", ids...)
}

// childOf returns a child of the process, or 0 if it has none.
func childOf(p *process) (pid int) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", p.Process.Pid))
	for _, list := range lists {
		children, _ := os.ReadFile(list) // the thread may have ended
		if _, err := fmt.Sscan(string(children), &pid); err == nil {
			return pid
		}
	}
	return 0
}
