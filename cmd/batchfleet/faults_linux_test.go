package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/pdf/pdftest"
)

func TestPromiseDiskFull(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t)
	f.submit("a", 100)
	w := f.start("MOCK_PAGE_SECONDS=0.05")
	f.untilState(20*time.Second, "a", "processing")
	// No file may grow from now on: what a full disk looks like to one process.
	limit := func(bytes uint64) {
		t.Helper()
		if err := unix.Prlimit(w.Process.Pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: bytes, Max: unix.RLIM_INFINITY}, nil); err != nil {
			t.Fatal(err)
		}
	}
	limit(0)
	f.until(30*time.Second, "the job is handed back", func() bool { return strings.Contains(w.log.String(), "job handed back") })
	f.untilState(5*time.Second, "a", "queued")
	f.submit("b", 1) // is not even leased
	f.until(20*time.Second, "the worker says that it is not ready", func() bool { return strings.Contains(w.log.String(), "not ready") })
	if got := f.state("b"); got != "queued" {
		t.Errorf("job b is %s while nothing can be stored, want queued", got)
	}
	limit(unix.RLIM_INFINITY)
	f.untilState(2*time.Minute, "a", "completed") // it comes back after 30 to 60 s
	f.untilState(20*time.Second, "b", "completed")
	f.account("completed", "a", "b")
	if e, _ := f.status.Get(t.Context(), "a"); e.Detail.Crashes != 0 {
		t.Errorf("%d crashes counted, want none", e.Detail.Crashes)
	}
}

// A service manager signals every process of a service. The reader of a document
// must leave the decision to its worker, or a stop would fail the job.
func TestF17PromiseSignalsToTheReaderAreTheWorkers(t *testing.T) {
	t.Parallel()
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
	f.send(jobs.Job{ID: "long", Kind: "pdf", Input: "uploads/long.pdf"})
	var reader int
	f.until(20*time.Second, "a document is read", func() bool {
		children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", w.Process.Pid, w.Process.Pid))
		if all, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", w.Process.Pid)); err == nil {
			for _, name := range all {
				more, _ := os.ReadFile(name)
				children = append(children, more...)
			}
		}
		_, bad := fmt.Sscan(string(children), &reader)
		e, err := f.status.Get(t.Context(), "long")
		return bad == nil && err == nil && e.Message != "Processing started..."
	})
	for _, sig := range []unix.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGHUP} {
		if err := unix.Kill(reader, sig); err != nil {
			t.Fatalf("the document was read before it could be disturbed: %v", err)
		}
	}
	f.untilState(4*time.Minute, "long", "completed")
	f.account("completed", "long")
}
