package cli

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

func TestGatewayFsckSaysWhatItFoundAndDid(t *testing.T) {
	t.Parallel()
	g := newTestGateway(t)
	fsck := func(wantCode int, args ...string) (stdout, stderr string) {
		t.Helper()
		code, stdout, stderr := g.runCommand(g.atRedis(), append([]string{"gateway", "fsck"}, args...)...)
		if code != wantCode {
			t.Errorf("fsck %v: exit code %d, want %d\n%s%s", args, code, wantCode, stdout, stderr)
		}
		return stdout, stderr
	}
	out, _ := fsck(0, "--json")
	if !strings.Contains(out, `"findings":[]`) || !strings.Contains(out, `"queued":0`) {
		t.Errorf("nothing is found as %s", out)
	}
	if out, _ := fsck(0); !strings.HasSuffix(out, "\nno findings: 0 jobs looked at\n") {
		t.Errorf("nothing is found as %s", out)
	}
	if _, err := g.queue.Submit(t.Context(), "a", []byte("{}"), ""); err != nil {
		t.Fatal(err)
	}
	if out, _ := fsck(0); !strings.HasSuffix(out, "\nno findings: 1 job looked at\n") {
		t.Errorf("in one job nothing is found as %s", out)
	}
	if _, err := g.queue.Submit(t.Context(), "b<c", []byte("{}"), ""); err != nil {
		t.Fatal(err)
	}
	g.rdb.LRem(t.Context(), "zpe:queue", 0, "b<c")              // queued without entry
	if _, err := g.queue.Cancel(t.Context(), "a"); err != nil { // so that its entry is stale
		t.Fatal(err)
	}
	if out, _ := fsck(1); !regexp.MustCompile(`(?m)^canceled +1\nqueued +1\n(?s:.*)^a +stale entry +in zpe:queue; it is canceled `).MatchString(out) {
		t.Errorf("the canceled job is shown as %s", out)
	}
	if out, stderr := fsck(1); !strings.Contains(stderr, "1 thing is wrong or not looked at; --repair") || !strings.Contains(out, "harmless") || strings.Contains(out, "no findings") {
		t.Errorf("found %s%s", out, stderr)
	}
	out, _ = fsck(1, "--json")
	var report struct {
		Findings []struct {
			Kind  string `json:"kind"`
			JobID string `json:"jobId"`
		} `json:"findings"`
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil || len(report.Findings) != 2 || !strings.Contains(out, "b<c") {
		t.Errorf("as JSON %s: %v", out, err)
	}
	if out, _ := fsck(0, "--repair"); strings.Contains(out, "harmless") || !strings.Contains(out, "removed") || !strings.Contains(out, "put into the queue") {
		t.Errorf("repaired %s", out)
	}
}

func TestGatewayFsckFailsForWhatItDoesNotList(t *testing.T) {
	t.Parallel()
	g := newTestGateway(t)
	const listed = 10_000
	ghosts := make([]redis.Z, listed)
	for i := range ghosts {
		ghosts[i] = redis.Z{Score: 1, Member: fmt.Sprint("ghost-", i)}
	}
	g.rdb.ZAdd(t.Context(), "zpe:lease:index", ghosts...)             // repaired, and the first to be looked at
	g.rdb.HSet(t.Context(), "zpe:status:odd", "status", "by a ghost") // cannot be repaired
	code, stdout, stderr := g.runCommand(g.atRedis(), "gateway", "fsck", "--repair", "--json")
	var report struct {
		Counts   map[string]int    `json:"counts"`
		Findings []json.RawMessage `json:"findings"`
		Left     int               `json:"left"`
	}
	if err := json.Unmarshal([]byte(stdout), &report); err != nil {
		t.Fatal(err)
	}
	if len(report.Findings) != listed || report.Counts["index without lease"] != listed || strings.Contains(stdout, `"odd"`) {
		t.Errorf("%d listed of %v: the test does not test it", len(report.Findings), report.Counts)
	}
	if code != 1 || report.Left != 1 || !strings.Contains(stderr, "1 thing is wrong or not looked at; run it again") {
		t.Errorf("exit code %d, %d left: %s", code, report.Left, stderr)
	}
}
