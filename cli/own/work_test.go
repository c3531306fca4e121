package own_test

import (
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
