package relay

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"
)

func TestR05AFullDiskAcceptsNoTask(t *testing.T) {
	if !inProcess(t) {
		return
	}
	r := newRig(t)
	earlier := r.create("")
	fileLimit(t, 100)
	resp := r.call(http.MethodPost, "/v1/tasks", `{"job_id":"job_123","kind":"music"}`)
	if resp.Status != http.StatusServiceUnavailable || resp.code() != "UNAVAILABLE" {
		t.Errorf("create: %d %s", resp.Status, resp.Body)
	}
	resp = r.call(http.MethodPost, "/v1/tasks/"+string(earlier)+"/cancel", "")
	if resp.Status != http.StatusServiceUnavailable || r.task(earlier).State != Queued {
		t.Errorf("cancel: %d %s, and the task is %s", resp.Status, resp.Body, r.task(earlier).State)
	}
	fileLimit(t, 1<<30)
	if r.onDisk(earlier).State != Queued || r.tasks.count(Queued) != 1 {
		t.Error("what was refused is on disk")
	}
	for _, dir := range []string{tmpDir, tasksDir} {
		entries, err := os.ReadDir(filepath.Join(r.Dir, dir))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if e.Name() != quarantineDir && e.Name() != string(earlier) {
				t.Errorf("%s/ has %s", dir, e.Name())
			}
		}
	}
	r.create("")
}
