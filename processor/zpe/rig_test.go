package zpe_test

import (
	"encoding/json"
	"log/slog"
	"testing"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/processor/zpe"
	"github.com/batchfleet/batchfleet/storage"
)

func newHandler(t *testing.T, pwx string) *zpe.Handler {
	t.Helper()
	store, err := storage.NewLocal(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return &zpe.Handler{Store: store, PwX: pwx, WorkDir: t.TempDir(), Log: slog.New(slog.DiscardHandler)}
}

func document(t *testing.T, h *zpe.Handler, result jobs.Result) zpe.Document {
	t.Helper()
	f, err := h.Store.Open(t.Context(), result.Object)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var d zpe.Document
	if err := json.NewDecoder(f).Decode(&d); err != nil {
		t.Fatal(err)
	}
	return d
}
