package program_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/kinds"
	"github.com/batchfleet/batchfleet/processor/artifact"
	"github.com/batchfleet/batchfleet/processor/custom"
	"github.com/batchfleet/batchfleet/processor/program"
	"github.com/batchfleet/batchfleet/scratch"
	"github.com/batchfleet/batchfleet/storage"
)

// rig runs jobs of one kind, whose command is a shell script: {script} stands for its path.
type rig struct {
	t       *testing.T
	handler *custom.Handler
	store   *storage.Local
	dir     string // of scratch
	gpus    []int  // of the slot

	mu      sync.Mutex
	lines   []string
	reports []jobs.Progress
}

// open makes a rig. toml is what the kinds file says of the kind [k] beside its command, which is args
// after the script.
func open(t *testing.T, script, toml string, args ...string) *rig {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "k.sh"), "#!/bin/sh\n"+script, 0o700)
	text := "[k]\ncommand = [\"./k.sh\""
	for _, a := range args {
		text += fmt.Sprintf(", %q", a)
	}
	set, err := kinds.Parse(filepath.Join(dir, "kinds.toml"), []byte(text+"]\n"+toml))
	if err != nil {
		t.Fatal(err)
	}
	if err := set.Executables(os.Getenv("PATH")); err != nil {
		t.Fatal(err)
	}
	store, err := storage.NewLocal(filepath.Join(dir, "store"))
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	root, err := scratch.Open(filepath.Join(dir, "scratch"), log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	return &rig{t: t, store: store, dir: filepath.Join(dir, "scratch"), handler: &custom.Handler{
		Kind: set.Get("k"), Store: store, Scratch: root, Log: log,
		Do: program.Runner{Environ: []string{"PATH=" + os.Getenv("PATH")}}.Do,
	}}
}

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

// run makes an attempt at a job.
func (r *rig) run(ctx context.Context, job jobs.Job, number, failures int) (jobs.Result, error) {
	return r.handler.RunAttempt(ctx, jobs.Attempt{
		Job: job, Number: number, Failures: failures, Slot: jobs.Slot{GPUs: r.gpus}, Deadline: time.Date(2031, 1, 2, 3, 4, 5, 0, time.UTC),
		Report: func(p jobs.Progress) { r.mu.Lock(); defer r.mu.Unlock(); r.reports = append(r.reports, p) },
		Log:    func(line string) { r.mu.Lock(); defer r.mu.Unlock(); r.lines = append(r.lines, line) },
	})
}

// must runs the first attempt at a job and returns what it has stored.
func (r *rig) must(job jobs.Job) artifact.Result {
	r.t.Helper()
	if _, err := r.run(r.t.Context(), job, 1, 0); err != nil {
		r.t.Fatal(err)
	}
	return r.result(job.ID)
}

func (r *rig) result(id jobs.ID) artifact.Result {
	r.t.Helper()
	result, err := artifact.Stored(r.t.Context(), r.store, id)
	if err != nil {
		r.t.Fatal(err)
	}
	return result
}

// fails runs an attempt and returns how it has failed.
func (r *rig) fails(job jobs.Job, number, failures int) *jobs.Failure {
	r.t.Helper()
	_, err := r.run(r.t.Context(), job, number, failures)
	f, ok := errors.AsType[*jobs.Failure](err)
	if !ok {
		r.t.Fatalf("attempt %d ended with %v, want a failure", number, err)
	}
	return f
}

// put stores an object.
func (r *rig) put(name, text string) {
	r.t.Helper()
	if err := r.store.Put(r.t.Context(), name, strings.NewReader(text)); err != nil {
		r.t.Fatal(err)
	}
}

// read returns an artifact.
func (r *rig) read(id jobs.ID, name string) string {
	r.t.Helper()
	f, err := r.store.Open(r.t.Context(), artifact.ObjectName(id, name))
	if err != nil {
		r.t.Fatal(err)
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	if err != nil {
		r.t.Fatal(err)
	}
	return string(text)
}

// objects returns the names of all objects.
func (r *rig) objects() (names []string) {
	r.t.Helper()
	err := r.store.Walk(r.t.Context(), "", func(name string, _ storage.Info, err error) error {
		names = append(names, name)
		return err
	})
	if err != nil {
		r.t.Fatal(err)
	}
	slices.Sort(names)
	return names
}

// left returns the files that attempts have left in the scratch directories, without checkpoints and locks.
func (r *rig) left() (files []string) {
	r.t.Helper()
	err := filepath.WalkDir(filepath.Join(r.dir, "batchfleet-scratch", "workers"), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == "lock" {
			return err
		}
		if info, err := d.Info(); err == nil && info.Size() == 1 && strings.HasSuffix(path, ".params") {
			return nil // for the next attempt, without the params
		}
		files = append(files, path)
		return nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return files
}
