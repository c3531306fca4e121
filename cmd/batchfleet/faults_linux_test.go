package main

import (
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestPromiseDiskFull(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t)
	f.submit("a", 100)
	w := f.start("MOCK_PAGE_SECONDS=0.02")
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
	f.untilState(90*time.Second, "a", "completed") // it comes back after 30 to 60 s
	f.untilState(20*time.Second, "b", "completed")
	f.account("completed", "a", "b")
	if e, _ := f.status.Get(t.Context(), "a"); e.Detail.Crashes != 0 {
		t.Errorf("%d crashes counted, want none", e.Detail.Crashes)
	}
}
