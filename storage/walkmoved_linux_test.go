package storage_test

import (
	"errors"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/storage"
	"github.com/batchfleet/batchfleet/storage/storagetest"
)

// another returns the other one of two objects, or of the directories that they
// are in, below results/.
func another(name string) (this, other string) {
	this, _, _ = strings.Cut(strings.TrimPrefix(name, "results/"), "/")
	return this, map[string]string{"a": "b", "b": "a"}[this]
}

// What was a file or directory when its name was read may be a link when it is
// looked at.
func TestJWalkFollowsNoLinkThatHasComeMeanwhile(t *testing.T) {
	for _, below := range []string{"", "x"} {
		s, dir := newLocal(t)
		for _, name := range []string{"a", "b"} {
			storagetest.PutString(t, s, path.Join("results", name, below), "x")
		}
		var shown []string
		err := s.Walk(t.Context(), "results/", func(name string, _ storage.Info, err error) error {
			this, other := another(name)
			if shown = append(shown, name); len(shown) > 1 || err != nil {
				return err
			}
			place := filepath.Join(dir, "results", other)
			return errors.Join(os.RemoveAll(place), os.Symlink(this, place))
		})
		if err != nil || len(shown) != 1 {
			t.Errorf("shown %q, %v", shown, err)
		}
	}
}

// If a store was moved away and part of it was removed, a walk cannot know what it has
// missed.
func TestJWalkOfAStoreThatIsMovedAwayIsUnavailable(t *testing.T) {
	for _, goes := range []string{"what is shown", "what comes next"} {
		s, dir := newLocal(t)
		storagetest.PutString(t, s, "results/a/x", "x")
		storagetest.PutString(t, s, "results/b/x", "x")
		var shown []string
		err := s.Walk(t.Context(), "results/", func(name string, _ storage.Info, err error) error {
			if shown = append(shown, name); len(shown) > 1 || err != nil {
				return err
			}
			this, other := another(name)
			moved := filepath.Join(t.TempDir(), "moved")
			return errors.Join(os.Rename(dir, moved), os.RemoveAll(filepath.Join(moved, "results", map[bool]string{true: this, false: other}[goes == "what is shown"])))
		})
		if slices.Sort(shown); !errors.Is(err, jobs.ErrUnavailable) {
			t.Errorf("%s goes: Walk = %v after %q, want jobs.ErrUnavailable", goes, err, shown)
		}
	}
}
