package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/jobs"
)

// TestD31D30D05D06CommandsWithoutAServer act on the Redis of the environment, on jobs that no worker runs.
func TestD31D30D05D06CommandsWithoutAServer(t *testing.T) {
	t.Parallel()
	c := newCommands(t)
	for _, id := range []jobs.ID{"blue-1", "blue-2", "red-1"} {
		c.submit(id, 1)
	}
	list := func(want string, args ...string) {
		t.Helper()
		got := strings.Fields(c.run(0, "JOB", append([]string{"list", "--scope", "fleet"}, args...)...))
		var ids []string
		for _, word := range got {
			if strings.HasPrefix(word, "blue-") || strings.HasPrefix(word, "red-") {
				ids = append(ids, word)
			}
		}
		if have := strings.Join(ids, " "); have != want {
			t.Errorf("list %q: %s, want %s", args, have, want)
		}
	}
	list("blue-2 blue-1", "--id-prefix", "blue")
	list("red-1", "--text", "RED")
	list("", "--until", "1h")
	list("", "--worker", "none")
	c.run(0, "blue-1 queued: ", "why", "blue-1")
	c.run(0, "2 jobs: blue-2, blue-1", "run", "cancel", "--scope", "fleet", "--id-prefix", "blue", "--dry-run")
	c.run(2, "nothing says which jobs", "run", "cancel", "--scope", "fleet")
	c.run(0, `"done":2`, "run", "cancel", "--scope", "fleet", "--id-prefix", "blue")
	list("red-1", "--state", "queued")
	c.run(0, "no job matches", "run", "retry", "--scope", "fleet", "--since", "1h")

	c.run(0, "mock  fleet  ", "kinds", "status")
	c.run(0, "mock of fleet is paused since ", "kinds", "pause", "mock")
	c.run(0, `"code":"PAUSED"`, "why", "--json", "red-1")
	c.run(0, "mock of fleet is not paused", "kinds", "resume", "fleet.mock")
	c.run(1, `worker "none": no live worker has this name or id`, "workers", "drain", "none")
}

// TestD31RelayCancelsAllThatMatch by its own scope utils, with its own token.
func TestD31RelayCancelsAllThatMatch(t *testing.T) {
	t.Parallel()
	r := newLifeRelay(t)
	r.start()
	run := func(code int, want string, args ...string) {
		t.Helper()
		cmd := batchfleet(t, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + r.dir}, append(args, "--api", r.url, "--token-file", filepath.Join(r.dir, "relay.token"))...)
		if got, out, errs := output(t, cmd); got != code || !strings.Contains(out+errs, want) {
			t.Errorf("%q: exit code %d, want %d and %q\n%s%s", args, got, code, want, out, errs)
		}
	}
	held := []string{r.create("hold"), r.create("hold"), r.create("hold")}
	r.has("began")
	run(0, "3 jobs: "+held[2], "run", "cancel", "--scope", "relay", "--kind", "hold", "--dry-run")
	run(0, `"matched":3,"done":3,"skipped":0`, "run", "cancel", "--scope", "relay", "--kind", "hold", "--watch")
	for _, id := range held {
		r.untilStatus(id, "canceled")
	}
	run(2, "scope: want relay", "run", "cancel", "--scope", "fleet", "--all")
	run(0, "no job matches", "run", "retry", "--scope", "relay", "--all", "--watch")
	r.stop()
}

// TestD31LeaderCancelsAllThatMatch by its own scope utils.
func TestD31LeaderCancelsAllThatMatch(t *testing.T) {
	t.Parallel()
	g := newTestGrid(t)
	l := g.leader("0")
	one, two := l.submit("calcA", "1"), l.submit("calcA", "2")
	run := func(code int, want string, args ...string) {
		t.Helper()
		if got, out, errs := output(t, batchfleet(t, nil, append(args, "--api", l.url)...)); got != code || !strings.Contains(out+errs, want) {
			t.Errorf("%q: exit code %d, want %d and %q\n%s%s", args, got, code, want, out, errs)
		}
	}
	run(0, "1 job: "+one, "run", "cancel", "--scope", "grid", "--id-prefix", one, "--dry-run")
	run(0, `"done":2`, "run", "cancel", "--scope", "grid", "--kind", "calcA", "--watch")
	for _, id := range []string{one, two} {
		l.untilState(id, "canceled")
	}
	l.about(0, "WORKER", "workers")
	l.stop()
}
