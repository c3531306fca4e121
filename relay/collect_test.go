package relay

import (
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchfleet/batchfleet/httpd/egress"
	"github.com/batchfleet/batchfleet/internal/testrun"
	"github.com/batchfleet/batchfleet/jobs"
)

// kept returns which of the tasks are there, in memory and on disk.
func (r *rig) kept(ids map[string]jobs.ID) (names []string) {
	r.t.Helper()
	for name, id := range ids {
		_, err := os.Stat(r.tasks.dir.of(id))
		known := r.tasks.find(id) != nil
		if known != (err == nil) {
			r.t.Errorf("%s: known %t, on disk %v", name, known, err)
		}
		if known {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// ages makes tasks in all states: those that end do so at once.
func (r *rig) ages() map[string]jobs.ID {
	r.t.Helper()
	ids := map[string]jobs.ID{"failed": r.queued("")}
	r.start().end(jobs.Outcome{State: jobs.Failed, Reason: "x"})
	ids["canceled"] = r.queued("")
	if _, err := r.status.Cancel(ids["canceled"]); err != nil {
		r.t.Fatal(err)
	}
	for _, name := range []string{"succeeded", "upload failed", "uploading"} {
		ids[name] = r.queued("")
		h := r.start()
		h.make("a.txt", strings.Repeat("x", 10_000))
		h.succeed()
	}
	r.uploaded(ids["succeeded"])
	if _, err := r.tasks.update(r.tasks.find(ids["upload failed"]), func(t *Task) error {
		t.Error = &Error{Code: codeUploadFailed, Message: "answered 403"}
		return t.become(Failed, time.Now().UTC())
	}); err != nil {
		r.t.Fatal(err)
	}
	ids["running"] = r.queued("")
	r.start()
	ids["queued"] = r.queued("")
	return ids
}

func TestR74OldTasksAreDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := setup(t, testrun.MemoryDir(t))
		r.Orchestrator = &url.URL{Scheme: "https", Host: "orchestrator.example.com"} // nothing is sent: no delivery runs
		r.alone()
		ids := r.ages()
		ended := []string{"canceled", "failed", "succeeded", "upload failed"}
		active := []string{"queued", "running", "uploading"}
		all := slices.Sorted(slices.Values(slices.Concat(ended, active)))
		log := r.tasks.dir.logFile(ids["failed"])
		if err := os.WriteFile(log, []byte("2025-12-21T09:00:00Z  x\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		time.Sleep(r.Keep)
		if done := r.collect(t.Context()); done.Tasks != 0 || !slices.Equal(r.kept(ids), all) {
			t.Errorf("in time %+v were deleted, and %v kept", done, r.kept(ids))
		}
		time.Sleep(time.Second)
		resp := r.serve("127.0.0.1:1", http.MethodPost, "/v1/gc", nil, http.Header{TokenHeader: {testToken}})
		var done Collected
		if err := json.Unmarshal([]byte(resp.Body), &done); err != nil || done.Tasks != 4 || done.Bytes < 20_000 || !slices.Equal(r.kept(ids), active) {
			t.Errorf("%s, and %v kept", resp.Body, r.kept(ids))
		}
		if _, err := os.Stat(log); err == nil {
			t.Error("the log of a deleted task is there")
		}
		if done := r.collect(t.Context()); done != (Collected{}) {
			t.Errorf("again: %+v", done)
		}
		if left, err := os.ReadDir(filepath.Join(r.Dir, tmpDir)); err != nil || len(left) != 0 {
			t.Errorf("tmp/ has %v, %v", left, err)
		}
	})
}

func TestR74TheOldestGoWhenThereAreTooManyBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := setup(t, testrun.MemoryDir(t))
		r.Orchestrator = &url.URL{Scheme: "https", Host: "orchestrator.example.com"} // nothing is sent: no delivery runs
		r.alone()
		ids := r.ages()
		size := sizeOf(filepath.Join(r.Dir, tasksDir))
		r.MaxBytes = size
		if done := r.collect(t.Context()); done.Tasks != 0 {
			t.Errorf("there is room, and %+v were deleted", done)
		}
		r.MaxBytes = size - 1
		if done := r.collect(t.Context()); done.Tasks != 1 || slices.Contains(r.kept(ids), "failed") {
			t.Errorf("one byte too many: %+v, and %v kept", done, r.kept(ids))
		}
		r.MaxBytes = 1 // an upload that can be made again is not thrown away for room
		if done := r.collect(t.Context()); done.Tasks != 2 || !slices.Equal(r.kept(ids), []string{"queued", "running", "upload failed", "uploading"}) {
			t.Errorf("all too many: %+v, and %v kept", done, r.kept(ids))
		}
	})
}

// Events that are still to be told keep a task as well.
func TestR74WhatIsNotToldIsNotDeletedForRoom(t *testing.T) {
	r := setup(t, testrun.MemoryDir(t))
	r.Callbacks = egress.Policy{Hosts: []string{"example.com"}}
	r.open()
	id := r.create(`{"job_id":"a","kind":"music","callback_url":"https://example.com/"}`)
	if _, err := r.status.Cancel(id); err != nil {
		t.Fatal(err)
	}
	r.MaxBytes = 1
	if done := r.collect(t.Context()); done.Tasks != 0 {
		t.Errorf("%+v", done)
	}
}

// The upload of a task that was about to be deleted is made again.
func TestR74ATaskThatIsActiveAgainIsNotDeleted(t *testing.T) {
	r := setup(t, testrun.MemoryDir(t))
	r.Orchestrator = &url.URL{Scheme: "https", Host: "orchestrator.example.com"} // nothing is sent: no delivery runs
	r.open()
	id := r.succeeded("a.txt", "x")
	if err := r.tasks.drop(r.tasks.find(id)); err == nil || r.task(id).State != Uploading || r.onDisk(id).State != Uploading {
		t.Errorf("a task that is uploading was deleted: %v", err)
	}
}

// A timer and POST /v1/gc may delete at the same time.
func TestR74ATaskIsDeletedOnce(t *testing.T) {
	r := newRig(t)
	id := r.create("")
	if _, err := r.status.Cancel(id); err != nil {
		t.Fatal(err)
	}
	e := r.tasks.find(id)
	if err := r.tasks.drop(e); err != nil {
		t.Fatal(err)
	}
	if err := r.tasks.drop(e); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("deleted again: %v", err)
	}
	if n := r.overview().Tasks["canceled"]; n != 0 {
		t.Errorf("%d canceled tasks are left", n)
	}
}

func TestR74WhatWasNeverFinishedIsDeletedAtTheStart(t *testing.T) {
	r := newRig(t)
	id := r.create("")
	unfinished := filepath.Join(r.Dir, tmpDir, newPrefix+"x", inputDir)
	if err := os.MkdirAll(unfinished, 0o700); err != nil {
		t.Fatal(err)
	}
	next := r.again(nil)
	if _, err := os.Stat(filepath.Dir(unfinished)); !os.IsNotExist(err) {
		t.Errorf("it is there: %v", err)
	}
	if next.task(id).State != Queued {
		t.Error("the task that was finished is gone")
	}
}
