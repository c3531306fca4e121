package cli

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func mkfifo(path string) error { return unix.Mkfifo(path, 0o600) }

// damages are what may have become of a file.
var damages = []string{"missing", "empty", "truncated", "garbage", "link", "link to itself", "dangling link", "directory", "pipe"}

// Of each task of a relay that is stopped one thing is damaged. The others are as they were at the next start.
func TestR27DamageToATaskIsItsOwn(t *testing.T) {
	t.Parallel()
	r := newTestRelay(t, `
[hold]
command = ["sh", "-c", "echo made >{output}/out; echo says; while [ ! -e \"$HOLD\" ]; do sleep 0.05; done"]
env = ["HOLD"]
[make]
command = ["sh", "-c", "echo made >{output}/out; echo says"]
`, "--gpus", "none")
	r.env = []string{"HOLD=" + filepath.Join(r.dir, "go")}
	r.start()
	holder := r.create("hold")
	r.untilStatus(holder, "running")
	ended := r.create("make") // waits behind it
	quarantined, requests := map[string]string{}, map[string]string{}
	for _, by := range damages {
		quarantined[r.create("make")] = by
		requests[r.create("make")] = by
	}
	dirs := map[string]string{}
	for _, by := range []string{"file", "link", "dangling link", "pipe"} {
		dirs[r.create("make")] = by
	}
	works, stores := map[string]string{}, map[string]string{}
	for _, by := range []string{"missing", "garbage", "link to itself", "dangling link", "pipe"} {
		works[r.create("make")] = by
		stores[r.create("make")] = by
	}
	logs := map[string]string{}
	for _, by := range []string{"empty", "garbage", "link", "link to itself", "dangling link", "directory", "pipe"} {
		logs[r.create("make")] = by
	}
	r.kill()

	fail := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for id, by := range quarantined {
		fail(damaged(r.runtime("tasks", id, "task.json"), by))
	}
	for id, by := range requests {
		fail(damaged(r.runtime("tasks", id, "input", "request.json"), by))
	}
	for id, by := range works {
		fail(damaged(r.runtime("tasks", id, "work"), by))
	}
	for id, by := range stores {
		fail(damaged(r.runtime("tasks", id, "artifacts"), by))
	}
	for id, by := range logs {
		fail(damaged(r.runtime("logs", id+".log"), by))
	}
	for id, by := range dirs {
		path := r.runtime("tasks", id)
		if by == "link" {
			elsewhere := filepath.Join(r.dir, id)
			fail(os.Rename(path, elsewhere))
			fail(os.Symlink(elsewhere, path))
			continue
		}
		if by == "file" {
			by = "garbage"
		}
		fail(damaged(path, by))
	}
	fail(os.WriteFile(r.runtime("tasks", "stray"), nil, 0o600))
	r.write("go", "")

	r.start()
	for id, by := range quarantined {
		r.must(http.StatusNotFound, http.MethodGet, "/v1/tasks/"+id, "")
		if found, _ := filepath.Glob(r.runtime("tasks", "_quarantine", id+"-*")); len(found) != 1 {
			t.Errorf("quarantine has %v of the task whose task.json is %s", found, by)
		}
	}
	for id, by := range dirs {
		r.must(http.StatusNotFound, http.MethodGet, "/v1/tasks/"+id, "")
		if found, _ := filepath.Glob(r.runtime("tasks", "_quarantine", id+"-*")); len(found) != 1 {
			t.Errorf("quarantine has %v of the task whose directory is a %s", found, by)
		}
	}
	for _, id := range []string{holder, ended} {
		if r.untilStatus(id, "succeeded"); r.artifact(id, "out") != "made\n" {
			t.Errorf("an artifact of task %s is wrong", id)
		}
	}
	for id, by := range requests {
		if task := r.untilStatus(id, "failed", "succeeded"); task.Status != "failed" || task.code() != "INPUT_DAMAGED" || strings.Contains(task.Error.Message, r.dir) || !strings.Contains(task.Error.Message, "request.json") {
			t.Errorf("with a request.json that is %s the task is %+v %+v", by, task, task.Error)
		}
	}
	for id, by := range works {
		if task := r.untilStatus(id, "failed", "succeeded"); task.Status != "succeeded" {
			t.Errorf("with a work directory that is %s the task is %+v %+v", by, task, task.Error)
		}
	}
	for id, by := range stores {
		if r.untilStatus(id, "succeeded"); r.artifact(id, "out") != "made\n" {
			t.Errorf("with a directory of artifacts that is %s an artifact is wrong", by)
		}
	}
	for id, by := range logs {
		if task := r.untilStatus(id, "failed", "succeeded"); task.Status != "succeeded" {
			t.Errorf("with a log that is %s the task is %+v %+v", by, task, task.Error)
		}
	}
	if n := r.metric("batchfleet_relay_quarantined_total"); n != float64(len(quarantined)+len(dirs)+1) {
		t.Errorf("the metric counts %v, want %d", n, len(quarantined)+len(dirs)+1)
	}
	r.stop()
}
