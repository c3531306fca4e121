package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestGatewayFsckSaysWhatItFoundAndDid(t *testing.T) {
	g := newTestGateway(t)
	env := []string{"REDIS_HOST=" + g.redis.Host, fmt.Sprintf("REDIS_PORT=%d", g.redis.Port)}
	fsck := func(wantCode int, args ...string) (stdout, stderr string) {
		t.Helper()
		code, stdout, stderr := g.runCommand(env, append([]string{"gateway", "fsck"}, args...)...)
		if code != wantCode {
			t.Errorf("fsck %v: exit code %d, want %d\n%s%s", args, code, wantCode, stdout, stderr)
		}
		return stdout, stderr
	}
	out, _ := fsck(0, "--json")
	if !strings.Contains(out, `"findings":[]`) || !strings.Contains(out, `"queued":0`) {
		t.Errorf("nothing is found as %s", out)
	}
	if _, err := g.queue.Submit(t.Context(), "a", []byte("{}"), ""); err != nil {
		t.Fatal(err)
	}
	if _, err := g.queue.Submit(t.Context(), "b<c", []byte("{}"), ""); err != nil {
		t.Fatal(err)
	}
	g.rdb.LRem(t.Context(), "zpe:queue", 0, "b<c")              // queued without entry
	g.rdb.HSet(t.Context(), "zpe:status:a", "status", "failed") // so that its entry is stale
	if out, stderr := fsck(1); !strings.Contains(stderr, "1 thing is wrong or was not looked at; --repair") || !strings.Contains(out, "harmless") {
		t.Errorf("found %s%s", out, stderr)
	}
	out, _ = fsck(1, "--json")
	var report struct {
		Findings []struct {
			Kind  string `json:"kind"`
			JobID string `json:"job_id"`
		} `json:"findings"`
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil || len(report.Findings) != 2 || !strings.Contains(out, "b<c") {
		t.Errorf("as JSON %s: %v", out, err)
	}
	if out, _ := fsck(0, "--repair"); strings.Contains(out, "harmless") || !strings.Contains(out, "removed") || !strings.Contains(out, "put into the queue") {
		t.Errorf("repaired %s", out)
	}
}
