package storagetest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/storage"
)

// walked returns what a walk shows, in its order, and fails the test if that is
// not what Stat says, or twice.
func walked(t *testing.T, s storage.Store, prefix string) (names []string) {
	t.Helper()
	err := s.Walk(t.Context(), prefix, func(name string, info storage.Info, err error) error {
		if err != nil {
			return err
		}
		if want, err := s.Stat(t.Context(), name); err != nil || info.Size != want.Size || !info.Modified.Equal(want.Modified) {
			t.Errorf("shown %q with %+v; Stat says %+v, %v", name, info, want, err)
		}
		if slices.Contains(names, name) {
			t.Errorf("shown %q twice", name)
		}
		names = append(names, name)
		return nil
	})
	if err != nil {
		t.Errorf("Walk(%q) = %v", prefix, err)
	}
	return names
}

func walkShowsAll(t *testing.T, s storage.Store) {
	t.Helper()
	if got := walked(t, s, ""); len(got) != 0 {
		t.Errorf("an empty store shows %q", got)
	}
	want := unusual()
	for _, name := range want {
		put(t, s, name, strings.NewReader(name))
	}
	got := walked(t, s, "")
	together(t, got)
	slices.Sort(got)
	if slices.Sort(want); !slices.Equal(got, want) {
		t.Errorf("shown %d objects, want %d; too many: %.300q, not shown: %.300q", len(got), len(want), beside(got, want), beside(want, got))
	}
}

// beside returns what is in a and not in b.
func beside(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return slices.Contains(b, s) })
}

// together fails the test unless the objects of each directory come one after
// the other.
func together(t *testing.T, names []string) {
	t.Helper()
	left := map[string]bool{} // directories that the walk has come out of
	in := map[string]bool{}
	for _, name := range names {
		now := map[string]bool{}
		for i := range len(name) {
			if name[i] == '/' {
				now[name[:i+1]] = true
			}
		}
		for dir := range in {
			left[dir] = !now[dir]
		}
		for dir := range now {
			if left[dir] {
				t.Errorf("%.60q is shown after other objects than those of %.60q", name, dir)
			}
		}
		in = now
	}
}

func walkOfOneDirectory(t *testing.T, s storage.Store) {
	t.Helper()
	for _, name := range []string{"results/a/result.json", "results/a/parts/1", "results/b.json", "results.old/x", "resultsx", "result/x", "uploads/results/a"} {
		put(t, s, name, strings.NewReader("x"))
	}
	for prefix, want := range map[string][]string{
		"results/":               {"results/a/parts/1", "results/a/result.json", "results/b.json"},
		"results/a/":             {"results/a/parts/1", "results/a/result.json"},
		"results/a/parts/":       {"results/a/parts/1"},
		"results/a/result.json/": nil,
		"resultsx/":              nil,
		"absent/":                nil,
		"absent/too/":            nil,
	} {
		if got := slices.Sorted(slices.Values(walked(t, s, prefix))); !slices.Equal(got, want) {
			t.Errorf("below %q are %q, want %q", prefix, got, want)
		}
	}
	for _, prefix := range []string{"results", "/", "//", "results//", "../", "results/../", "./", "/etc/", `a\/`, "a\x00/", "\xff/", "gs://", "gs://nobodys-bucket/", ".batchfleet-put-X/", "results/a/r"} {
		err := s.Walk(t.Context(), prefix, func(name string, _ storage.Info, _ error) error {
			t.Errorf("a walk of %q shows %q", prefix, name)
			return nil
		})
		if !errors.Is(err, fs.ErrInvalid) || errors.Is(err, jobs.ErrUnavailable) {
			t.Errorf("Walk(%q) = %v, want fs.ErrInvalid", prefix, err)
		}
	}
}

func walkDeletes(t *testing.T, s storage.Store) {
	t.Helper()
	want := map[string]bool{}
	for i := range 300 { // more than a directory's entries are read at once
		for _, object := range []string{"result.json", "pages.jsonl"} {
			name := fmt.Sprintf("results/job-%03d/%s", i, object)
			put(t, s, name, strings.NewReader("x"))
			want[name] = true
		}
	}
	put(t, s, "uploads/x", strings.NewReader("x"))
	before := "results/none"
	err := s.Walk(t.Context(), "results/", func(name string, _ storage.Info, err error) error {
		if err != nil {
			return err
		}
		if !want[name] {
			t.Errorf("shown %q twice, or it never was", name)
		}
		delete(want, name)
		// Now this one, now the one before: its directory may go under the walk.
		if len(want)%3 == 0 {
			before = name
			return nil
		}
		return errors.Join(s.Delete(t.Context(), name), s.Delete(t.Context(), before))
	})
	if err != nil || len(want) > 0 {
		t.Errorf("Walk = %v, %d objects not shown, such as %.300q", err, len(want), slices.Collect(maps.Keys(want)))
	}
	for _, name := range walked(t, s, "results/") {
		if err := s.Delete(t.Context(), name); err != nil {
			t.Error(err)
		}
	}
	if got := walked(t, s, ""); !slices.Equal(got, []string{"uploads/x"}) {
		t.Errorf("left are %q", got)
	}
}

func walkAmongOthers(t *testing.T, s storage.Store) {
	t.Helper()
	var stay []string
	for i := range 20 {
		stay = append(stay, fmt.Sprintf("d/%02d/stays", i))
		put(t, s, stay[i], strings.NewReader("x"))
	}
	stop := make(chan struct{})
	var others sync.WaitGroup
	for i := range 2 {
		others.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				name := fmt.Sprintf("d/%02d/%d/comes and goes", n%25, i)
				if err := errors.Join(s.Put(t.Context(), name, strings.NewReader("x")), s.Delete(t.Context(), name)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 10 {
		var got []string
		err := s.Walk(t.Context(), "d/", func(name string, _ storage.Info, err error) error {
			if err != nil {
				return err
			}
			if strings.HasSuffix(name, "stays") {
				got = append(got, name)
			}
			return nil
		})
		slices.Sort(got)
		if err != nil || !slices.Equal(got, stay) {
			t.Errorf("Walk = %v, shown of those that stay: %q", err, got)
		}
	}
	close(stop)
	others.Wait()
}

func walkEnds(t *testing.T, s storage.Store) {
	t.Helper()
	for i := range 5 {
		put(t, s, fmt.Sprintf("d/%d/x", i), strings.NewReader("x"))
	}
	for _, own := range []error{errors.New("enough"), fs.ErrNotExist, fs.SkipAll, jobs.ErrUnavailable} {
		shown := 0
		err := s.Walk(t.Context(), "d/", func(string, storage.Info, error) error {
			if shown++; shown == 2 {
				return own
			}
			return nil
		})
		if err != own || shown != 2 { //nolint:errorlint // as it is
			t.Errorf("Walk = %v after %d objects, want the visitor's %v after 2", err, shown, own)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	shown := 0
	err := s.Walk(ctx, "", func(string, storage.Info, error) error {
		shown++
		cancel(jobs.ErrLeaseLost)
		return nil
	})
	wantLeaseLost(t, "Walk", err)
	if shown != 1 {
		t.Errorf("%d objects were shown, all but one after the end of the context", shown)
	}
	wantLeaseLost(t, "Walk", s.Walk(ctx, "d/", func(name string, _ storage.Info, _ error) error {
		t.Errorf("shown %q though the context had ended before", name)
		return nil
	}))
}
