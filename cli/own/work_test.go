package own_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/batchfleet/batchfleet/cli/own"
	"github.com/batchfleet/batchfleet/internal/testlog"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/processor/custom"
	"github.com/batchfleet/batchfleet/storage"
	"github.com/batchfleet/batchfleet/worker"
)

// setBuilt gives this program kinds, until the test ends.
func setBuilt(t *testing.T, all ...own.Kind) {
	t.Helper()
	own.Built = all
	t.Cleanup(func() { own.Built = nil })
}

func TestK12WorkerSweepsEveryHourWhatProgramsHaveLeft(t *testing.T) {
	setBuilt(t, kind("mine", 0, 0))
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		log := slog.New(slog.DiscardHandler)
		file, err := own.OpenFile(&own.Env{}, true, log)
		if err != nil {
			t.Fatal(err)
		}
		work := &own.Work{File: file, WorkDir: dir, Log: log}
		var has []jobs.Kind
		if err := work.Start(t.Context(), prometheus.NewRegistry(), func(handlers map[jobs.Kind]worker.Handler) {
			for name := range handlers {
				has = append(has, name)
			}
		}); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(has, []jobs.Kind{"mine"}) {
			t.Errorf("it runs %v", has)
		}
		// A worker that died after this one has started.
		left := filepath.Join(dir, "batchfleet-scratch", "workers", "dead")
		if err := os.MkdirAll(filepath.Join(left, "j-1", "work"), 0o700); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour + time.Second)
		synctest.Wait()
		if _, err := os.Stat(left); !os.IsNotExist(err) {
			t.Errorf("an hour later it is there still: %v", err)
		}
		if err := work.Close(); err != nil {
			t.Error(err)
		}
		if own, err := os.ReadDir(filepath.Join(dir, "batchfleet-scratch", "workers")); err != nil || len(own) > 0 {
			t.Errorf("the worker has left %v, %v", own, err)
		}
	})
}

func TestK12WorkerWithoutKindsOfItsOwnMakesNoDirectories(t *testing.T) {
	dir := t.TempDir()
	var text testlog.Buffer
	log := slog.New(slog.NewTextHandler(&text, nil))
	file, err := own.OpenFile(&own.Env{}, true, log)
	if err != nil {
		t.Fatal(err)
	}
	work := &own.Work{File: file, WorkDir: dir, Log: log}
	if err := work.Start(t.Context(), prometheus.NewRegistry(), func(map[jobs.Kind]worker.Handler) {}); err != nil {
		t.Fatal(err)
	}
	if err := work.Close(); err != nil {
		t.Error(err)
	}
	if made, err := os.ReadDir(dir); err != nil || len(made) > 0 || text.String() != "" {
		t.Errorf("it has made %v, %v, and said %s", made, err, text.String())
	}
}

func TestK12WorkerSaysOnceWhetherTheKernelKeepsItsLimits(t *testing.T) {
	setBuilt(t, kind("mine", 0, 0))
	var text testlog.Buffer
	log := slog.New(slog.NewTextHandler(&text, nil))
	file, err := own.OpenFile(&own.Env{}, true, log)
	if err != nil {
		t.Fatal(err)
	}
	work := &own.Work{File: file, WorkDir: t.TempDir(), Log: log}
	if err := work.Start(t.Context(), prometheus.NewRegistry(), func(map[jobs.Kind]worker.Handler) {}); err != nil {
		t.Fatal(err)
	}
	defer work.Close()
	if n := strings.Count(text.String(), "cgroups with limits"); n != 1 {
		t.Errorf("it is said %d times:\n%s", n, text.String())
	}
}

func TestK12WorkRunsAttemptsInThePlacesOfTheirJobs(t *testing.T) {
	dir := t.TempDir()
	place := func(id jobs.ID) string { return filepath.Join(dir, "tasks", string(id), "work") }
	if err := os.MkdirAll(place("j-1"), 0o700); err != nil {
		t.Fatal(err)
	}
	store, err := storage.NewLocal(filepath.Join(dir, "store"))
	if err != nil {
		t.Fatal(err)
	}
	ran := ""
	mine := kind("mine", 0, 0)
	mine.Do = func(_ context.Context, a *custom.Attempt) error {
		d, err := a.Dir()
		if err == nil {
			ran = d.Work
		}
		return err
	}
	setBuilt(t, mine)
	log := slog.New(slog.DiscardHandler)
	file, err := own.OpenFile(&own.Env{}, true, log)
	if err != nil {
		t.Fatal(err)
	}
	work := &own.Work{File: file, Store: store, WorkDir: filepath.Join(dir, "tmp"), Place: place, Rename: true, Log: log}
	var handlers map[jobs.Kind]worker.Handler
	if err := work.Start(t.Context(), prometheus.NewRegistry(), func(now map[jobs.Kind]worker.Handler) { handlers = now }); err != nil {
		t.Fatal(err)
	}
	defer work.Close()
	if _, err := handlers["mine"].Run(t.Context(), jobs.Job{ID: "j-1"}, func(jobs.Progress) {}); err != nil || ran != filepath.Join(place("j-1"), "1", "work") {
		t.Errorf("it ran in %q (%v), want it below %s", ran, err, place("j-1"))
	}
	if h, ok := handlers["mine"].(*custom.Handler); !ok || !h.Rename {
		t.Errorf("its outputs are not renamed: %+v", h)
	}
	if left, err := os.ReadDir(place("j-1")); err != nil || len(left) > 0 {
		t.Errorf("it has left %v, %v", left, err)
	}
}
