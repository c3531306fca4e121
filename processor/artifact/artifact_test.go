package artifact_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/processor/artifact"
	"github.com/batchfleet/batchfleet/storage"
)

func open(t *testing.T) storage.Store {
	t.Helper()
	store, err := storage.NewLocal(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func put(t *testing.T, store storage.Store, id jobs.ID, name, text string) artifact.Artifact {
	t.Helper()
	a, err := artifact.Put(t.Context(), store, id, name, strings.NewReader(text), func() {})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// objects returns the names of all objects of a store.
func objects(t *testing.T, store storage.Store) (names []string) {
	t.Helper()
	err := store.Walk(t.Context(), "", func(name string, _ storage.Info, err error) error {
		names = append(names, name)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestK09ResultListsArtifactsWithTheirSums(t *testing.T) {
	store := open(t)
	if _, err := artifact.Stored(t.Context(), store, "j"); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("before the job: %v", err)
	}
	a := put(t, store, "j", "page.png", "a picture")
	sum := sha256.Sum256([]byte("a picture"))
	want := artifact.Artifact{Name: "page.png", Size: 9, SHA256: hex.EncodeToString(sum[:]), Type: "image/png"}
	if a != want {
		t.Errorf("stored %+v, want %+v", a, want)
	}
	if _, err := artifact.Stored(t.Context(), store, "j"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("there is a result before all of it is stored: %v", err)
	}
	r := artifact.Result{JobID: "j", Kind: "thumbnail", Attempt: 1, Inputs: []artifact.Input{{Name: "uploads/j/a.pdf", Size: 3, SHA256: "x"}}, Artifacts: []artifact.Artifact{a}}
	outcome, err := artifact.Finish(t.Context(), store, r, 0)
	if err != nil || outcome.Object != "results/j/result.json" {
		t.Fatalf("finish: %+v, %v", outcome, err)
	}
	got, err := artifact.Stored(t.Context(), store, "j")
	if err != nil {
		t.Fatal(err)
	}
	if got.ProcessedAt == "" || got.SchemaVersion != 1 {
		t.Errorf("%+v lacks what every result has", got)
	}
	r.ProcessedAt, r.SchemaVersion = got.ProcessedAt, got.SchemaVersion
	if diff := cmp.Diff(r, got); diff != "" {
		t.Error(diff)
	}
	if _, err := artifact.Stored(t.Context(), store, "other"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of another job: %v", err)
	}
}

func TestK09ArtifactsOfEarlierAttemptsAreGoneBeforeTheResultIsThere(t *testing.T) {
	store := open(t)
	put(t, store, "j", "old.txt", "of the first attempt")
	put(t, store, "j", "both.txt", "of the first attempt")
	put(t, store, "k", "old.txt", "of another job")
	a := put(t, store, "j", "both.txt", "of the second")
	if _, err := artifact.Finish(t.Context(), store, artifact.Result{JobID: "j", Attempt: 2, Artifacts: []artifact.Artifact{a}}, 0); err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{"results/j/artifacts/both.txt": true, "results/j/result.json": true, "results/k/artifacts/old.txt": true}
	for _, name := range objects(t, store) {
		if !want[name] {
			t.Errorf("%s is still there", name)
		}
		delete(want, name)
	}
	for name := range want {
		t.Errorf("%s is gone", name)
	}
}

func TestK09NamesThatCannotBeSavedAreRefused(t *testing.T) {
	for _, name := range []string{"", ".", "..", "../x", "a/b", ".hidden", "-rf", "a b", "a\nb", "größe", "a\x00b", "result.json", strings.Repeat("x", 129)} {
		if err := artifact.CheckName(name); err == nil {
			t.Errorf("%q is accepted", name)
		}
		if _, err := artifact.Put(t.Context(), open(t), "j", name, strings.NewReader("x"), func() {}); err == nil {
			t.Errorf("%q is stored", name)
		}
	}
	for _, name := range []string{"a", "page-1.png", "Results_2024.tar.gz", "0", "_x", "result.jsonl", strings.Repeat("x", 128)} {
		if err := artifact.CheckName(name); err != nil {
			t.Error(err)
		}
	}
}

func TestAStaleAttemptStoresNothing(t *testing.T) {
	store := open(t)
	ctx := jobs.WithHold(t.Context(), func(context.Context) error { return jobs.ErrLeaseLost })
	if _, err := artifact.Put(ctx, store, "j", "a.txt", strings.NewReader("x"), func() {}); !errors.Is(err, jobs.ErrLeaseLost) {
		t.Errorf("put: %v", err)
	}
	if _, err := artifact.Finish(ctx, store, artifact.Result{JobID: "j", Attempt: 1}, 0); !errors.Is(err, jobs.ErrLeaseLost) {
		t.Errorf("finish: %v", err)
	}
	if names := objects(t, store); names != nil {
		t.Errorf("there is %q", names)
	}
}

func TestDiscardLeavesNothingOfAJob(t *testing.T) {
	store := open(t)
	put(t, store, "j", "a.txt", "x")
	put(t, store, "jj", "a.txt", "x")
	if err := store.Put(t.Context(), "results/j/checkpoint.tar", strings.NewReader("x")); err != nil {
		t.Fatal(err)
	}
	if err := artifact.Discard(t.Context(), store, "j"); err != nil {
		t.Fatal(err)
	}
	if names := objects(t, store); len(names) != 1 || names[0] != "results/jj/artifacts/a.txt" {
		t.Errorf("there is %q", names)
	}
}

func TestAResultThatIsNoneIsNotTakenForOne(t *testing.T) {
	store := open(t)
	for name, text := range map[string]string{"no JSON": "{", "of another job": `{"job_id":"x"}`, "a list": "[]", "nothing": ""} {
		if err := store.Put(t.Context(), artifact.ResultName("j"), strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
		if _, err := artifact.Stored(t.Context(), store, "j"); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAReaderThatFailsStoresNothing(t *testing.T) {
	store, bad := open(t), errors.New("disk")
	_, err := artifact.Put(t.Context(), store, "j", "a.txt", io.MultiReader(strings.NewReader("half"), failing{bad}), func() {})
	if !errors.Is(err, bad) {
		t.Errorf("%v", err)
	}
	if names := objects(t, store); names != nil {
		t.Errorf("there is %q", names)
	}
}

type failing struct{ error }

func (f failing) Read([]byte) (int, error) { return 0, f.error }
