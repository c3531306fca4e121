package relay

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/processor/artifact"
)

// A relay that is killed just after its handler has discarded what a failed attempt has stored still has the task.
func TestR24DiscardedResultsAreNotTheTask(t *testing.T) {
	r := newRig(t)
	id := r.create(`{"job_id":"j","kind":"motion","input":{"prompt":"a prompt"}}`)
	store, err := r.OpenStore()
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for _, name := range []string{artifact.ObjectName(id, "a"), artifact.ObjectName(id, "task.json"), artifact.ResultName(id), "results/" + string(id) + "/checkpoint.tar"} {
		if err := store.Put(t.Context(), name, strings.NewReader("x")); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(r.Place(id), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(r.Place(id), "of-the-program"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := artifact.Discard(t.Context(), store, id); err != nil {
		t.Fatal(err)
	}
	var left []string
	err = filepath.WalkDir(r.tasks.dir.of(id), func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			left = append(left, strings.TrimPrefix(path, r.tasks.dir.of(id)+"/"))
		}
		return err
	})
	if want := []string{"input/request.json", "task.json", "work/of-the-program"}; err != nil || !slices.Equal(left, want) {
		t.Errorf("left: %v, %v, want %v", left, err, want)
	}
	if r = r.again(nil); r.task(id).State != Queued {
		t.Errorf("after a restart: %+v", r.task(id))
	}
}
