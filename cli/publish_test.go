package cli

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
)

// The commands of the documents that put jobs into the queue by hand, run by a shell
// as they are printed there. Programs from before this one do the same.
func TestContractCommandsThatPublishByHand(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		document, from, to string
		want               []string
	}{
		{"../docs/deploy.md", "for i in 1 2 3 4 5; do", "done\n", []string{"test-1", "test-2", "test-3", "test-4", "test-5"}},
	} {
		t.Run(tt.document, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(tt.document)
			if err != nil {
				t.Fatal(err)
			}
			found := regexp.MustCompile("(?s)" + regexp.QuoteMeta(tt.from) + ".*?" + regexp.QuoteMeta(tt.to)).FindString(string(text))
			f := newTestFleet(t)
			// The project's own topic has the name that the commands use.
			script := strings.ReplaceAll(found, "http://localhost:8085", "http://"+f.addr)
			if script == found {
				t.Fatalf("%s has no such commands: %q", tt.document, found)
			}
			shell := exec.CommandContext(t.Context(), "bash", "-eu", "-c", script)
			shell.Env = append(os.Environ(), "NO_PROXY=127.0.0.1")
			if out, err := shell.CombinedOutput(); err != nil || strings.Count(string(out), "messageIds") != len(tt.want) {
				t.Fatalf("%v\n%s\n%s", err, script, out)
			}
			w := f.start()
			for _, id := range tt.want {
				until(f.t, time.Minute, id, func() bool { return f.state(jobs.ID(id)) == "completed" })
			}
			if got := strings.Count(w.log.String(), `"Processing job"`); got != len(tt.want) {
				t.Errorf("the log says %d times that a job is processed, want %d:\n%s", got, len(tt.want), w.log)
			}
			if got := strings.Count(w.log.String(), ` pages (mock)"`); got != len(tt.want) {
				t.Errorf("the log tells the pages of %d jobs, want %d", got, len(tt.want))
			}
		})
	}
}
