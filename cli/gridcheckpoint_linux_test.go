package cli

import (
	"os"
	"strings"
	"testing"
	"time"
)

func TestG77CheckpointsGoToTheWorkerOfTheNextAttempt(t *testing.T) {
	t.Parallel()
	g := newTestGrid(t)
	// It goes on from what is there, or else leaves something and waits, or fails.
	g.script("goes", `cd "$GRID_CHECKPOINT_DIR"
if [ -e state ]; then echo "found $(cat state) in attempt $GRID_ATTEMPT"; exit 0; fi
echo "half of $2" >state
[ "$1" = fail ] && exit 3
echo left >"$3"
while :; do sleep 0.05; done`)
	l := g.leader("0")
	first := g.worker(l.host, l.port, "--jobs-dir", g.path("first"), "--drain-timeout", "3s")
	left := g.path("left")
	stopped := l.submit("--timeout", "5m", "goes", "wait", "one", left)
	until(t, time.Minute, "the program has left a checkpoint", func() bool { _, err := os.Stat(left); return err == nil })
	second := g.worker(l.host, l.port, "--jobs-dir", g.path("second"))
	first.stop()
	l.untilState(stopped, "succeeded")
	failed := l.submit("--retry-on", "exit", "goes", "fail", "two", left) // its first attempt is with the worker that is left
	third := g.worker(l.host, l.port, "--jobs-dir", g.path("third"))
	l.untilState(failed, "succeeded")
	for id, want := range map[string]string{stopped: "found half of one in attempt", failed: "found half of two in attempt 2"} {
		if out := l.about(0, "", "logs", id); !strings.Contains(out, want) {
			t.Errorf("the log of job %s is %q, want %q", id, out, want)
		}
	}
	second.stop()
	third.stop()
	// Nothing of it is left with those that have not ended the jobs but what they need not know.
	for _, dir := range []string{"second", "third"} {
		if left, err := os.ReadDir(g.path(dir, "batchfleet-scratch", "checkpoints")); err != nil || len(left) > 1 {
			t.Errorf("%s has %d checkpoints (%v)", dir, len(left), err)
		}
	}
}
