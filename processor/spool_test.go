package processor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/storage"
)

// tornStore is a store whose objects break off after some bytes.
type tornStore struct {
	storage.Store
	after int64
}

func (s *tornStore) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	f, err := s.Store.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	return tornBody{io.LimitReader(f, s.after), f}, nil
}

type tornBody struct {
	io.Reader
	io.Closer
}

func (b tornBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err == io.EOF { //nolint:errorlint // as readers return it
		err = fmt.Errorf("%w: cable cut", jobs.ErrUnavailable)
	}
	return n, err
}

func TestF45CheckpointEvery30SecondsOfWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newFixture(t, &book{pages: 30, took: 4 * time.Second})
		began := time.Now()
		var at []time.Duration
		d.store.refuse = func(what string) error {
			if strings.HasPrefix(what, "put results/j/parts/") {
				at = append(at, time.Since(began))
			}
			return nil
		}
		d.mustRun(t, jobs.Job{ID: "j"})
		// The first page that ends 30 s or more after the last checkpoint.
		want := []time.Duration{32 * time.Second, 64 * time.Second, 96 * time.Second}
		if !slices.Equal(at, want) {
			t.Errorf("checkpoints at %v, want %v", at, want)
		}
		wantParts := "results/j/parts/00000017.jsonl, results/j/parts/00000009.jsonl, results/j/parts/00000001.jsonl"
		if got := d.store.told("delete"); got != wantParts {
			t.Errorf("deleted at the end: %s\nwant %s", got, wantParts)
		}
		if d.has(t, "results/j/parts/00000001.jsonl") {
			t.Error("a part is left")
		}
	})
}

func TestF45NextAttemptResumesAtTheFirstMissingPage(t *testing.T) {
	for _, dies := range []time.Duration{10 * time.Second, 33 * time.Second, 70 * time.Second, 119 * time.Second} {
		t.Run(dies.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				whole := newFixture(t, &book{pages: 30, took: 4 * time.Second})
				whole.mustRun(t, jobs.Job{ID: "j"})

				e := &book{pages: 30, took: 4 * time.Second}
				d := newFixture(t, e)
				ctx, kill := context.WithCancelCause(t.Context())
				time.AfterFunc(dies, func() { kill(jobs.ErrLeaseLost) })
				if _, err := d.run(ctx, jobs.Job{ID: "j"}); !errors.Is(err, jobs.ErrLeaseLost) {
					t.Fatalf("first attempt: %v", err)
				}
				d.mustRun(t, jobs.Job{ID: "j"})
				from := 1 + 8*int(dies/(32*time.Second)) // 8 pages a checkpoint
				if want := []int{1, from}; !slices.Equal(e.from, want) {
					t.Errorf("attempts began at pages %v, want %v", e.from, want)
				}
				if d.reports[0].Done != from {
					t.Errorf("the first report is of page %d, want %d", d.reports[0].Done, from)
				}
				if d.get(t, pagesName("j")) != whole.get(t, pagesName("j")) {
					t.Error("pages.jsonl differs from that of an attempt without a break")
				}
				a, b := d.summary(t), whole.summary(t)
				if a.Document.Words != b.Document.Words || a.Pages != b.Pages || a.Document.PagesWithText != b.Document.PagesWithText {
					t.Errorf("summary %+v, want %+v", a, b)
				}
				if d.has(t, "results/j/parts/00000001.jsonl") {
					t.Error("a part is left")
				}
			})
		})
	}
}

func TestF45SeveralDeathsInARow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &book{pages: 30, took: 4 * time.Second}
		d := newFixture(t, e)
		for range 3 {
			ctx, kill := context.WithCancelCause(t.Context())
			time.AfterFunc(40*time.Second, func() { kill(jobs.ErrLeaseLost) })
			if _, err := d.run(ctx, jobs.Job{ID: "j"}); !errors.Is(err, jobs.ErrLeaseLost) {
				t.Fatal(err)
			}
		}
		d.mustRun(t, jobs.Job{ID: "j"})
		if want := []int{1, 9, 17, 25}; !slices.Equal(e.from, want) {
			t.Errorf("attempts began at pages %v, want %v", e.from, want)
		}
		if r := d.records(t); len(r) != 30 || r[29].Page != 30 {
			t.Errorf("%d pages", len(r))
		}
	})
}

// Stopping a fleet must not cost the work since the last checkpoint.
func TestF17DrainedJobGoesOnAtTheNextPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &book{pages: 30, took: 4 * time.Second}
		d := newFixture(t, e)
		for range 2 {
			ctx, drain := context.WithCancelCause(t.Context())
			time.AfterFunc(42*time.Second, func() { drain(jobs.ErrDrained) })
			if _, err := d.run(ctx, jobs.Job{ID: "j"}); !errors.Is(err, jobs.ErrDrained) {
				t.Fatal(err)
			}
		}
		d.mustRun(t, jobs.Job{ID: "j"})
		if want := []int{1, 11, 21}; !slices.Equal(e.from, want) {
			t.Errorf("attempts began at pages %v, want %v", e.from, want)
		}
		if r := d.records(t); len(r) != 30 || r[29].Page != 30 {
			t.Errorf("%d pages", len(r))
		}
	})
}

const first3 = `{"page":1,"words":0}` + "\n" + `{"page":2,"words":0}` + "\n" + `{"page":3,"words":0}` + "\n"

func TestF45DamagedPartsAreReadAsFarAsTheyGo(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		parts map[int]string // first page to content
		from  int
	}{
		{"whole", map[int]string{1: first3, 4: `{"page":4}`}, 5},
		{"torn in the middle of a page", map[int]string{1: first3[:len(first3)-4]}, 3},
		{"torn, and what follows fits", map[int]string{1: first3[:len(first3)-4], 3: `{"page":3}`}, 4},
		{"torn, and what follows does not fit", map[int]string{1: first3[:len(first3)-4], 4: `{"page":4}`}, 3},
		{"empty", map[int]string{1: ""}, 1},
		{"empty after a whole one", map[int]string{1: first3, 4: ""}, 4},
		{"noise", map[int]string{1: "\x00\x01"}, 1},
		{"noise after pages", map[int]string{1: first3 + "\x00"}, 4},
		{"pages from elsewhere", map[int]string{1: `{"page":7}`}, 1},
		{"a page twice", map[int]string{1: `{"page":1}{"page":1}`}, 2},
		{"nulls", map[int]string{1: `null null`}, 1},
		{"wrong type", map[int]string{1: `{"page":"1"}`}, 1},
		{"first part lost", map[int]string{4: `{"page":4}`}, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := &book{pages: 5}
			d := newFixture(t, e)
			var names []string
			for n, text := range tt.parts {
				name := fmt.Sprintf("results/j/parts/%08d.jsonl", n)
				names = append(names, name)
				d.put(t, name, text)
			}
			d.mustRun(t, jobs.Job{ID: "j"})
			if want := []int{tt.from}; !slices.Equal(e.from, want) {
				t.Errorf("the attempt began at page %v, want %v", e.from, want)
			}
			for i, r := range d.records(t) {
				if r.Page != i+1 || i+1 >= tt.from && r.Text != textPage(i+1).Text {
					t.Errorf("page %d is %+v", i+1, r)
				}
			}
			if s := d.summary(t); s.Pages != 5 {
				t.Errorf("%d pages, want 5", s.Pages)
			}
			for _, name := range names {
				// What nothing leads to cannot be found without a listing.
				if reachable := tt.name != "first part lost" && tt.name != "torn, and what follows does not fit"; reachable && d.has(t, name) {
					t.Errorf("%s is left", name)
				}
			}
		})
	}
}

func TestF45CheckpointOfALongerDocumentIsDropped(t *testing.T) {
	t.Parallel()
	e := &book{pages: 2}
	d := newFixture(t, e)
	d.put(t, "results/j/parts/00000001.jsonl", first3)
	d.mustRun(t, jobs.Job{ID: "j"})
	if want := []int{4, 1}; !slices.Equal(e.from, want) {
		t.Errorf("the engine was asked from pages %v on, want %v", e.from, want)
	}
	if r := d.records(t); len(r) != 2 || r[0].Text != textPage(1).Text {
		t.Errorf("pages %+v, want the two of the document", r)
	}
	if s := d.summary(t); s.Document.Words != 6 || d.has(t, "results/j/parts/00000001.jsonl") {
		t.Errorf("document %+v; nothing of the checkpoint may be left", s.Document)
	}
}

func TestF45CompleteCheckpointNeedsNoPageMore(t *testing.T) {
	t.Parallel()
	e := &book{pages: 3}
	d := newFixture(t, e)
	d.put(t, "results/j/parts/00000001.jsonl", first3)
	d.mustRun(t, jobs.Job{ID: "j"})
	if want := []int{4}; !slices.Equal(e.from, want) || len(d.records(t)) != 3 {
		t.Errorf("the engine was asked from pages %v on, want %v", e.from, want)
	}
}

func TestF45CheckpointThatCannotBeReadNowIsKept(t *testing.T) {
	t.Parallel()
	d := newFixture(t, &book{pages: 3})
	d.put(t, "results/j/parts/00000001.jsonl", first3)
	d.Store = &tornStore{Store: d.store, after: 30}
	if _, err := d.run(t.Context(), jobs.Job{ID: "j"}); !errors.Is(err, jobs.ErrUnavailable) {
		t.Errorf("run: %v, want ErrUnavailable", err)
	}
	if got := d.get(t, "results/j/parts/00000001.jsonl"); got != first3 {
		t.Errorf("the part is now %q", got)
	}
}

// Two attempts that overlap write parts of different lengths under names of
// either; whatever is left must be read as the pages in order.
func TestF45OverlappingAttemptsLeaveNoGap(t *testing.T) {
	t.Parallel()
	const pages = 40
	whole := newFixture(t, &book{pages: pages})
	whole.mustRun(t, jobs.Job{ID: "j"})
	want := whole.get(t, pagesName("j"))
	rapid.Check(t, func(rt *rapid.T) {
		d := newFixture(t, &book{pages: pages})
		for range rapid.IntRange(0, 6).Draw(rt, "parts") {
			begin := rapid.IntRange(1, pages).Draw(rt, "begin")
			end := rapid.IntRange(begin-1, pages).Draw(rt, "end")
			s := &spool{dir: d.Dir, store: d.store, job: "j", last: begin - 1, saved: begin - 1}
			for n := begin; n <= end; n++ {
				if err := s.add(textPage(n)); err != nil {
					rt.Fatal(err)
				}
			}
			if err := s.checkpoint(t.Context()); err != nil {
				rt.Fatal(err)
			}
			s.remove()
		}
		d.mustRun(t, jobs.Job{ID: "j"})
		if got := d.get(t, pagesName("j")); got != want {
			rt.Errorf("pages.jsonl differs:\n%s", got)
		}
	})
}

func FuzzResume(f *testing.F) {
	f.Add([]byte(first3))
	f.Add([]byte(`{"page":1,"text":"\u0000\ud800"}{"page":2`))
	f.Add([]byte(`{"page":1e0}`))
	f.Add([]byte(`{"page":1,"seconds":1e308,"words":-1}`))
	f.Fuzz(func(t *testing.T, part []byte) {
		s := &spool{dir: t.TempDir(), store: fixedStore{part: part}, job: "j"}
		defer s.remove()
		n := 0
		if err := s.resume(t.Context(), func(r Record) {
			n++
			if r.Page != n {
				t.Errorf("page %d after page %d", r.Page, n-1)
			}
		}); err != nil {
			t.Fatal(err)
		}
		if n != s.last || s.saved != s.last {
			t.Errorf("%d pages, last %d, saved %d", n, s.last, s.saved)
		}
	})
}

// fixedStore has one object, the first part of a job.
type fixedStore struct {
	storage.Store
	part []byte
}

func (s fixedStore) Open(_ context.Context, name string) (io.ReadCloser, error) {
	if name != "results/j/parts/00000001.jsonl" {
		return nil, fmt.Errorf("open %s: %w", name, fs.ErrNotExist)
	}
	return io.NopCloser(strings.NewReader(string(s.part))), nil
}
