package relay

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
)

// A kind may make 10 000 files. A list of them that could be written and not read would cost the task at the next start.
func TestR27ATaskOfTheLargestIndexIsReadAgain(t *testing.T) {
	r := newRig(t)
	id := r.create("")
	var made []Artifact
	for i := range 10_000 {
		made = append(made, Artifact{fmt.Sprintf("%0128d", i), strings.Repeat("a", 100), 1 << 40, strings.Repeat("0", 64)})
	}
	r.set(id, Uploading, func(t *Task) { t.Artifacts = made })
	r = r.again(nil)
	if got := r.task(id).Artifacts; !slices.Equal(got, made) {
		t.Errorf("there are %d artifacts after a restart, want %d", len(got), len(made))
	}
}

// Who has an upload that fails at once tried again and again must not make task.json grow.
func TestR62AsManyEventsWaitAsAreAllowed(t *testing.T) {
	task := &Task{State: Failed, Callback: Callback{URL: "https://hooks.example", Events: allEvents}}
	for range 10 * maxEvents {
		task.note(Uploading.String(), time.Now())
		task.note(Failed.String(), time.Now())
	}
	if n := len(task.Events); n != maxEvents || task.Callback.Dead != task.Sequence-n {
		t.Errorf("%d events wait, and %d of %d were given up; want %d to wait", n, task.Callback.Dead, task.Sequence, maxEvents)
	}
	first, last := task.Events[0].Sequence, task.Events[maxEvents-1].Sequence
	if first != 1 || last != task.Sequence {
		t.Errorf("events %d to %d wait; want the first one, which may be on its way, and the newest", first, last)
	}
}

// A task that cannot be written would never end, and keep its slot.
func TestR22ATaskWhoseDirectoryIsDamagedGivesItsSlotBack(t *testing.T) {
	for name, damage := range map[string]func(dir, other string) error{
		"deleted":                func(dir, _ string) error { return os.RemoveAll(dir) },
		"a file":                 func(dir, _ string) error { return errors.Join(os.RemoveAll(dir), os.WriteFile(dir, nil, 0o600)) },
		"a link to another task": func(dir, other string) error { return errors.Join(os.RemoveAll(dir), os.Symlink(other, dir)) },
		"task.json is a directory": func(dir, _ string) error {
			return errors.Join(os.Remove(filepath.Join(dir, taskFile)), os.MkdirAll(filepath.Join(dir, taskFile, "a"), 0o700))
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			other := r.create("")
			if _, err := r.status.Cancel(other); err != nil {
				t.Fatal(err)
			}
			id := r.create(`{"job_id":"a","kind":"scene"}`)
			r.run(func(_ context.Context, job jobs.Job, _ func(jobs.Progress)) (map[string]string, error) {
				if job.ID != id {
					return map[string]string{"a.txt": "a"}, nil
				}
				return nil, errors.Join(damage(r.tasks.dir.of(id), r.tasks.dir.of(other)), errors.New("exit 3: no such model"))
			})
			r.untilState(id, Failed)
			next := r.create(`{"job_id":"a","kind":"scene"}`)
			r.untilState(next, Succeeded)
			for id, want := range map[jobs.ID]State{id: Failed, other: Canceled, next: Succeeded} {
				if got := r.onDisk(id).State; got != want {
					t.Errorf("task %s is %s on disk, want %s", id, got, want)
				}
			}
		})
	}
}

func TestR74ATaskThatWasDeletedDoesNotComeBack(t *testing.T) {
	r := newRig(t)
	id := r.create("")
	if _, err := r.status.Cancel(id); err != nil {
		t.Fatal(err)
	}
	e := r.tasks.find(id)
	if err := r.tasks.drop(e); err != nil {
		t.Fatal(err)
	}
	// A request that had found it before.
	if _, err := r.tasks.update(e, func(*Task) error { return nil }); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("change: %v", err)
	}
	if _, err := os.Lstat(r.tasks.dir.of(id)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its directory: %v", err)
	}
}

func TestR29ManyAtOnceDoNotOverfillTheQueue(t *testing.T) {
	r := newRig(t)
	r.MaxQueued = 3
	var asking sync.WaitGroup
	for range 50 {
		asking.Go(func() {
			if resp := r.call(http.MethodPost, "/v1/tasks", `{"job_id":"a","kind":"music"}`); resp.Status != http.StatusAccepted && resp.code() != "QUEUE_FULL" {
				t.Errorf("%d %s", resp.Status, resp.Body)
			}
		})
	}
	asking.Wait()
	if n := r.tasks.count(Queued); n < 1 || n > r.MaxQueued {
		t.Errorf("%d tasks are queued, want at most %d", n, r.MaxQueued)
	}
	for r.tasks.count(Queued) < r.MaxQueued {
		r.create("")
	}
}

func TestR29AssetsLeaveTheDiskWhatIsWanted(t *testing.T) {
	r, root := assetsRig(t)
	body := `{"job_id":"a","kind":"upscale","input":{"assets":["file://` + root + `/input.png"]}}`
	r.copying.Store(1 << 60) // others copy more than is free
	if resp := r.call(http.MethodPost, "/v1/tasks", body); resp.Status != http.StatusInsufficientStorage || resp.code() != "DISK_FULL" {
		t.Errorf("%d %s", resp.Status, resp.Body)
	}
	if left, err := os.ReadDir(filepath.Join(r.Dir, tmpDir)); err != nil || len(left) > 0 {
		t.Errorf("tmp/ has %v, %v", left, err)
	}
	r.copying.Add(-1 << 60)
	r.create(body)
	if n := r.copying.Load(); n != 0 {
		t.Errorf("%d bytes are still being copied", n)
	}
}

func TestR11NotTooManyWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := setup(t, t.TempDir())
		r.alone()
		made, _, err := r.Relay.create(&request{JobID: "a", Kind: "music"}, "")
		if err != nil {
			t.Fatal(err)
		}
		s := &server{relay: r.Relay}
		for others, want := range map[int64]time.Duration{0: maxWait, maxWaiting - 1: maxWait, maxWaiting: 0} {
			s.waiting.Store(others)
			req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/tasks/"+string(made.ID), nil)
			req.Header.Set("Prefer", "wait=30")
			began, w := time.Now(), httptest.NewRecorder()
			if err := s.get(w, req, made.ID); err != nil || w.Code != http.StatusOK || time.Since(began) != want {
				t.Errorf("beside %d others: %d, %v after %s, want it after %s", others, w.Code, err, time.Since(began), want)
			}
			if n := s.waiting.Load(); n != others {
				t.Errorf("%d wait, want %d", n, others)
			}
		}
	})
}

// set brings a task into a state in which change has been made to it.
func (r *rig) set(id jobs.ID, want State, change func(*Task)) {
	r.t.Helper()
	if _, err := r.tasks.update(r.tasks.find(id), func(t *Task) error {
		change(t)
		for s := t.State + 1; s <= want; s++ {
			if err := t.become(s, time.Now().UTC()); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		r.t.Fatal(err)
	}
}
