package jobapitest

import (
	"encoding/json"
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
)

func testCancel(t *testing.T, r Rig) {
	cancel := func(id string) jobapi.Job {
		t.Helper()
		j, err := r.Jobs.Cancel(t.Context(), id)
		if err != nil || j.ID != id {
			t.Fatalf("cancel %s: %+v, %v", id, j, err)
		}
		Check(t, j)
		return j
	}
	queued := r.Submit("text")
	if j := cancel(queued); j.Status != jobs.Canceled || !j.StartedAt.IsZero() || j.Progress.Completed != 0 {
		t.Errorf("a queued job, canceled: %s, started %v", Summary(j), j.StartedAt)
	}
	running := r.Submit("text")
	r.Start(running)
	if j := cancel(running); j.Status != jobs.Running && j.Status != jobs.Canceled {
		t.Errorf("a running job, canceled: %s", Summary(j))
	}
	r.End(running, jobs.Canceled, "")
	ended := []string{queued, running}
	for _, status := range []jobs.State{jobs.Succeeded, jobs.Failed} {
		id := r.Submit("text")
		r.Start(id)
		r.End(id, status, "text")
		ended = append(ended, id)
	}
	for _, id := range ended {
		before := r.get(t, id)
		if _, err := r.Jobs.Cancel(t.Context(), id); !errors.Is(err, jobapi.ErrEnded) {
			t.Errorf("cancel a job that is %s: %v, want ErrEnded", before.Status, err)
		}
		if after := r.get(t, id); after.Version != before.Version || !after.Status.Terminal() {
			t.Errorf("a refused cancel changed %s to %s", Summary(before), Summary(after))
		}
	}
}

func testUnknown(t *testing.T, r Rig) {
	known := r.Submit("text")
	for _, id := range []string{"unknown", known + "x", "", "index", "a b", "a/../b", "x\x00", strings.Repeat("x", 500)} {
		if _, err := r.Jobs.Log(t.Context(), id, jobapi.LogQuery{Tail: 1}); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("log of %.40q: %v, want ErrNotExist", id, err)
		}
		if _, err := r.Jobs.Cancel(t.Context(), id); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("cancel %.40q: %v, want ErrNotExist", id, err)
		}
	}
}

func testVersions(t *testing.T, r Rig) {
	id := r.Submit("text")
	seen := map[string]string{} // version → what was shown
	version := ""
	check := func(what string, changed bool) {
		t.Helper()
		j := r.get(t, id)
		text, err := json.Marshal(j)
		if err != nil {
			t.Fatal(err)
		}
		if changed == (j.Version == version) {
			t.Errorf("%s: version %q, before %q", what, j.Version, version)
		}
		if old, ok := seen[j.Version]; ok && old != string(text) {
			t.Errorf("%s: version %q shows\n%s\nand showed\n%s", what, j.Version, text, old)
		}
		version, seen[j.Version] = j.Version, string(text)
	}
	check("submitted", true)
	check("read again", false)
	r.Start(id)
	check("started", true)
	r.Report(id, "one")
	check("first report", true)
	r.Report(id, "one")
	check("the same report", false)
	r.Report(id, "two")
	check("second report", true)
	r.End(id, jobs.Failed, "no luck")
	check("failed", true)
	check("read in the end", false)
}

func testSecrets(t *testing.T, r Rig) {
	const secret = "password=hunter2canary"
	const redacted = "[redacted]"
	shown := func(id string) string {
		t.Helper()
		j := r.get(t, id)
		page, err := r.Jobs.List(t.Context(), jobapi.Query{Limit: 200})
		text, err2 := json.Marshal([]any{j, page, r.log(t, id, jobapi.LogQuery{Tail: most})})
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "canary") {
			t.Errorf("job %s shows a secret: %s", Summary(j), text)
		}
		return string(text)
	}
	for _, status := range []jobs.State{jobs.Succeeded, jobs.Failed, jobs.Canceled} {
		id := r.Submit(secret)
		shown(id)
		r.Start(id)
		shown(id)
		r.Report(id, "starts "+secret)
		if text := shown(id); !strings.Contains(text, redacted) {
			t.Errorf("a report with a secret is not shown at all: %s", text)
		}
		if status == jobs.Canceled {
			j, err := r.Jobs.Cancel(t.Context(), id)
			text, err2 := json.Marshal(j)
			if err != nil || err2 != nil || strings.Contains(string(text), "canary") {
				t.Errorf("cancel shows %s, %v, %v", text, err, err2)
			}
		}
		r.End(id, status, "ends "+secret)
		if text := shown(id); status == jobs.Failed && !strings.Contains(text, redacted) {
			t.Errorf("a failure with a secret is not shown at all: %s", text)
		}
	}
}
