package cli

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/status"
)

func TestK10WhoWaitsIsToldThatAJobRunsAgain(t *testing.T) {
	out, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	show := newBars(out, map[jobs.ID]string{"a": "dir/a.txt", "b": ""})
	entry := func(word, message string, next time.Time) status.Entry {
		return status.Entry{ID: "a", Document: status.Document{Status: word, Message: message}, Detail: status.Detail{Next: next}}
	}
	soon := time.Now().Add(10 * time.Second)
	show.update(entry("queued", status.MessageQueued, time.Time{}))
	show.update(entry("processing", "Running k", time.Time{}))
	for range 2 { // it is written again when it is delivered too early
		show.update(entry("queued", "attempt 1 failed: exit 3: \x1b[31mred; next in 10 s", soon))
	}
	show.update(entry("processing", "Running k", time.Time{}))
	show.update(entry("queued", "attempt 2 failed: exit 3; next in 20 s", soon))
	show.update(entry("completed", "Processing completed!", time.Time{}))
	if a, b := show.name("a"), show.name("b"); a != "a.txt" || b != "b" { // it has no input
		t.Errorf("the jobs are called %s and %s", a, b)
	}
	show.done()
	want := "batchfleet: a.txt: attempt 1 failed: exit 3: \\x1b[31mred; next in 10 s\nbatchfleet: a.txt: attempt 2 failed: exit 3; next in 20 s\n"
	if text, err := os.ReadFile(out.Name()); err != nil || string(text) != want {
		t.Errorf("it says (%v)\n%swant\n%s", err, text, want)
	}
}
