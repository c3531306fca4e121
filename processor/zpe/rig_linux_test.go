package zpe_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/processor/zpe"
	"github.com/batchfleet/batchfleet/storage"
	"github.com/batchfleet/batchfleet/storage/storagetest"
)

// The pseudopotential of the fake pw.x.
const (
	fakePseudo    = "<UPF>nothing</UPF>\n"
	fakePseudoMD5 = "de2edd57cd1ba63fbcec896ced3cd00b"
)

// newHandler returns a handler with directories of its own.
func newHandler(t *testing.T, pwx string) *zpe.Handler {
	t.Helper()
	store, err := storage.NewLocal(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return &zpe.Handler{Store: store, PwX: pwx, WorkDir: t.TempDir(), Log: slog.New(slog.DiscardHandler)}
}

// fakeHandler returns a handler with the fake pw.x, that follows the orders.
func fakeHandler(t *testing.T, o orders) *zpe.Handler {
	t.Helper()
	home := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	data, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		os.Symlink(self, filepath.Join(home, "pw.x")),
		os.Symlink(data, filepath.Join(home, "testdata")),
		os.WriteFile(filepath.Join(home, "H.pbe-kjpaw.UPF"), []byte(fakePseudo), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	h := newHandler(t, filepath.Join(home, "pw.x"))
	h.PseudoDir = home
	order(t, h, o)
	return h
}

// order tells the fake pw.x what to do from now on.
func order(t *testing.T, h *zpe.Handler, o orders) {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(h.PseudoDir, "orders.json"), text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// calls returns how many runs the fake pw.x has made, without those for its
// version.
func calls(t *testing.T, h *zpe.Handler) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(h.PseudoDir, "calls"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.Count(string(text), "\n")
}

func run(ctx context.Context, h *zpe.Handler, payload string) (jobs.Result, error) {
	return h.Run(ctx, jobs.Job{ID: "job", Kind: "zpe", Payload: payload}, func(jobs.Progress) {})
}

func mustRun(t *testing.T, h *zpe.Handler, payload string) zpe.Document {
	t.Helper()
	result, err := run(t.Context(), h, payload)
	if err != nil {
		t.Fatal(err)
	}
	wantEmpty(t, h.WorkDir)
	return document(t, h, result)
}

// mustFail runs a job that has to fail as wantFailure has it.
func mustFail(t *testing.T, h *zpe.Handler, payload, code string, isFinal bool, text string) (message, detail string) {
	t.Helper()
	_, err := run(t.Context(), h, payload)
	return wantFailure(t, err, code, isFinal, text)
}

func document(t *testing.T, h *zpe.Handler, result jobs.Result) (d zpe.Document) {
	t.Helper()
	readObject(t, h, result.Object, &d)
	return d
}

func readObject(t *testing.T, h *zpe.Handler, name string, v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(storagetest.GetString(t, h.Store, name)), v); err != nil {
		t.Fatal(err)
	}
}

func wantEmpty(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("the work directory holds %v, %v; want nothing", left, err)
	}
}

// wantFailure checks the code of a failure, whether it is final, and its text. It
// returns the failure's text and detail.
func wantFailure(t *testing.T, err error, code string, isFinal bool, text string) (message, detail string) {
	t.Helper()
	f := (*jobs.Failure)(nil)
	if !errors.As(err, &f) {
		t.Fatalf("got %v, want a failure %s", err, code)
	}
	if f.Code != code || f.Final != isFinal || !strings.Contains(f.Error(), text) {
		t.Errorf("got %s final=%v %q, want %s final=%v with %q", f.Code, f.Final, f.Error(), code, isFinal, text)
	}
	return f.Error(), f.Detail
}
