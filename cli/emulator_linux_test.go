package cli

import (
	"context"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batchfleet/batchfleet/internal/testrun"
)

// While nothing can be written nothing is promised; what was promised before is
// there, and all goes on when there is room again.
func TestE06FullDiskIsRefusedAndRecoveredFrom(t *testing.T) {
	t.Parallel()
	testrun.Once(t, kills)
	dir := t.TempDir()
	p := startEmulator(t, dir)
	limit := func(bytes uint64) {
		t.Helper()
		// No file may grow: what a full disk looks like to one process.
		if err := unix.Prlimit(p.Process.Pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: bytes, Max: unix.RLIM_INFINITY}, nil); err != nil {
			t.Fatal(err)
		}
	}
	try := func(text string) error {
		// Shorter than the client's own patience with UNAVAILABLE.
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		return p.publish(ctx, text)
	}
	if err := p.publish(t.Context(), "before"); err != nil {
		t.Fatal(err)
	}
	limit(0)
	if err := try("full"); err == nil {
		t.Error("a publish was accepted that could not be written")
	}
	if _, err := p.subs.GetSubscription(t.Context(), getSubscription(testSubscription)); err != nil {
		t.Errorf("a look at the subscription: %v", err)
	}
	limit(unix.RLIM_INFINITY)
	after := ""
	until(t, time.Minute, "a publish is taken after there is room again", func() bool {
		after += "after" // another text each time: a refused one may be there too
		return try(after) == nil
	})
	p.kill()

	p = startEmulator(t, dir)
	got := p.pull(100)
	if got["before"] == "" || got[after] == "" {
		t.Errorf("got %v, want what was accepted before and after", got)
	}
}
