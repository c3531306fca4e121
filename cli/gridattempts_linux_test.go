package cli

import (
	"os"
	"strings"
	"testing"
)

// The leader keeps small requests in memory and large ones in files.
func TestG67ProgramsKnowTheNumberOfTheirAttempt(t *testing.T) {
	t.Parallel()
	g := newTestGrid(t)
	g.script("third", `echo "attempt $GRID_ATTEMPT"; exit $((3 - GRID_ATTEMPT))`)
	g.write("large", strings.Repeat("x", 1<<20))
	l := g.leader("0", "--dir", g.path("leader"))
	g.worker(l.host, l.port)
	for _, args := range [][]string{{"third"}, {"--file", "large", "third"}, {"--array", "0-0", "third"}} {
		out := g.run(0, "", append([]string{"submit", "--leader", l.addr, "--client", "clientA", "--wait", "--retry-on", "exit", "--json"}, args...)...)
		if !strings.Contains(out, `"Stdout":"attempt 3\n"`) {
			t.Errorf("submit %v prints\n%s\nwant the result of attempt 3", args, out)
		}
	}
}

// A worker keeps the results of programs that have failed, and must not answer with one when another attempt is asked for.
func TestG41RetryOnIgnoresCachedResult(t *testing.T) {
	t.Parallel()
	g := newTestGrid(t)
	g.script("second", `echo x >>"`+g.path("attempts")+`"; [ "$(wc -l <"`+g.path("attempts")+`")" -ge 2 ] || exit 1; echo "attempt $GRID_ATTEMPT"`)
	l := g.leader("0")
	g.worker(l.host, l.port)
	submit := []string{"submit", "--leader", l.addr, "--client", "clientA", "--wait", "second"}
	g.run(1, "exit status 1", submit...)
	if err := os.Remove(g.path("attempts")); err != nil {
		t.Fatal(err)
	}
	g.run(0, "^attempt 2\n$", append(submit, "--retry-on", "exit")...)
	if text, err := os.ReadFile(g.path("attempts")); err != nil || string(text) != "x\nx\n" {
		t.Errorf("the program ran %q times, %v; want twice", text, err)
	}
}
