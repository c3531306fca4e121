package processor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/batchfleet/batchfleet/jobs"
)

func TestF42ResultOfAnotherJobSaysSo(t *testing.T) {
	t.Parallel()
	d := newFixture(t, &book{})
	d.put(t, resultName("j"), `{"job_id":"k"}`)
	_, err := Stored(t.Context(), d.store, "j")
	if want := `result of job j: invalid argument: it names job "k"`; !errors.Is(err, fs.ErrInvalid) || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestF42ResultBeginsWithTheFieldsOfTheContract(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newFixture(t, &book{pages: 3, input: true, took: 1237800 * time.Microsecond})
		d.put(t, "uploads/a.pdf", "hello")
		d.mustRun(t, jobs.Job{ID: "j", Kind: "pdf", Input: "uploads/a.pdf"})
		text := d.get(t, resultName("j"))
		var names []string
		for _, m := range regexp.MustCompile(`(?m)^  "(\w+)":`).FindAllStringSubmatch(text, -1) {
			names = append(names, m[1])
		}
		want := []string{
			"job_id", "pages", "processed_at", "processing_time_seconds",
			"schema_version", "kind", "engine", "document", "text_object", "warnings", "failed_pages", "damaged", "damaged_pages",
		}
		if diff := cmp.Diff(want, names); diff != "" {
			t.Errorf("fields of result.json: -want +got:\n%s\n%s", diff, text)
		}
		if !strings.Contains(text, `"processing_time_seconds": 3.71,`) {
			t.Errorf("3.7134 s are not rounded to 1/100:\n%s", text)
		}
		if !strings.HasSuffix(text, "}\n") || !json.Valid([]byte(text)) {
			t.Error("result.json does not end with a line break, or is no JSON")
		}
		wantDoc := Document{
			Input: "uploads/a.pdf", Bytes: 5, SHA256: "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824",
			Words: 9, Characters: 24, PagesWithText: 3,
		}
		s := d.summary(t)
		s.Document.Info = nil
		if diff := cmp.Diff(wantDoc, s.Document); diff != "" {
			t.Errorf("document: -want +got:\n%s", diff)
		}
		if s.JobID != "j" || s.Pages != 3 || s.TextObject != "results/j/pages.jsonl" || s.SchemaVersion != 1 || s.Kind != "pdf" || s.Engine != "book" {
			t.Errorf("summary %+v", s)
		}
	})
}

func TestF42PagesAreOneLineEach(t *testing.T) {
	t.Parallel()
	d := newFixture(t, &book{pages: 3, page: func(n int) (Record, error) {
		return Record{Page: n, Text: "a\nb\u2028\"c\"", Words: 2, HasText: true}, nil
	}})
	d.mustRun(t, jobs.Job{ID: "j"})
	if lines := strings.Count(d.get(t, pagesName("j")), "\n"); lines != 3 {
		t.Errorf("%d lines for 3 pages", lines)
	}
	for i, r := range d.records(t) {
		if r.Page != i+1 || r.Text != "a\nb\u2028\"c\"" {
			t.Errorf("line %d is %+v", i+1, r)
		}
	}
}

func TestF43ResultIsWrittenLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newFixture(t, &book{pages: 5, took: 20 * time.Second})
		d.mustRun(t, jobs.Job{ID: "j"})
		want := "results/j/parts/00000001.jsonl, results/j/parts/00000003.jsonl, results/j/pages.jsonl, results/j/result.json"
		if got := d.store.told("put"); got != want {
			t.Errorf("put %s\nwant %s", got, want)
		}
		if last := d.store.did[len(d.store.did)-3]; last != "put results/j/result.json" {
			t.Errorf("before the parts were deleted came %q, want the result", last)
		}
	})
}

func TestF43SameJobTwiceGivesTheSameBytesButForTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newFixture(t, &book{pages: 4, took: 40 * time.Second})
		job := jobs.Job{ID: "j", Kind: "test"}
		d.mustRun(t, job)
		result, pages := d.get(t, resultName("j")), d.get(t, pagesName("j"))
		time.Sleep(time.Hour)
		d.mustRun(t, job)
		times := regexp.MustCompile(`"processed_at": "[^"]+"`)
		a, b := times.ReplaceAllString(result, ""), times.ReplaceAllString(d.get(t, resultName("j")), "")
		if diff := cmp.Diff(a, b); diff != "" {
			t.Errorf("result.json: -first +second:\n%s", diff)
		}
		if diff := cmp.Diff(pages, d.get(t, pagesName("j"))); diff != "" {
			t.Errorf("pages.jsonl: -first +second:\n%s", diff)
		}
	})
}

func TestF43EarlierResultIsFound(t *testing.T) {
	t.Parallel()
	d := newFixture(t, &book{pages: 3})
	job := jobs.Job{ID: "j"}
	if result, found, err := d.Earlier(t.Context(), job); found || err != nil {
		t.Errorf("before the first attempt: %+v, %t, %v", result, found, err)
	}
	want := d.mustRun(t, job)
	got, found, err := d.Earlier(t.Context(), job)
	if !found || err != nil || got != want {
		t.Errorf("Earlier = %+v, %t, %v; want %+v", got, found, err, want)
	}
}

// A worker can be killed at any moment after the result is stored.
func TestF43EarlierResultTakesItsCheckpointsAlong(t *testing.T) {
	for deleted := range 3 {
		t.Run(fmt.Sprintf("killed after %d of 3 were deleted", deleted), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newFixture(t, &book{pages: 4, input: true, took: 31 * time.Second})
				d.put(t, "uploads/a.pdf", "hello")
				job := jobs.Job{ID: "j", Input: "uploads/a.pdf"}
				left := deleted
				d.store.refuse = func(what string) error {
					if strings.HasPrefix(what, "delete ") {
						if left--; left < 0 {
							return jobs.ErrUnavailable // as if it were dead
						}
					}
					return nil
				}
				d.mustRun(t, job)
				d.store.refuse = nil
				const first = "results/j/parts/2cf24dba5fb0a30e-00000001.jsonl"
				if !d.has(t, first) {
					t.Fatal("without the first part the others cannot be found")
				}
				if _, found, err := d.Earlier(t.Context(), job); !found || err != nil {
					t.Fatal(found, err)
				}
				for n := 1; n <= 3; n++ {
					if name := strings.Replace(first, "1.jsonl", fmt.Sprint(n, ".jsonl"), 1); d.has(t, name) {
						t.Errorf("%s is left", name)
					}
				}
			})
		})
	}
}

func TestF43EarlierResultWithAStrangeHashIsFound(t *testing.T) {
	t.Parallel()
	d := newFixture(t, &book{pages: 3})
	d.put(t, resultName("j"), `{"job_id":"j","pages":3,"document":{"sha256":"../x"}}`)
	if got, found, err := d.Earlier(t.Context(), jobs.Job{ID: "j"}); !found || err != nil || got.Pages != 3 {
		t.Errorf("Earlier = %+v, %t, %v", got, found, err)
	}
}

func TestF43UnreadableEarlierResultIsReplaced(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"empty": "", "torn": `{"job_id":"j","pa`, "noise": "\x00\x00", "of another job": `{"job_id":"k","pages":3}`,
		"array": "[]", "null": "null", "wrong type": `{"job_id":"j","pages":"3"}`,
	} {
		t.Run(name, func(t *testing.T) {
			d := newFixture(t, &book{pages: 3})
			d.put(t, resultName("j"), text)
			if result, found, err := d.Earlier(t.Context(), jobs.Job{ID: "j"}); found || err != nil {
				t.Fatalf("Earlier = %+v, %t, %v; want nothing", result, found, err)
			}
			d.mustRun(t, jobs.Job{ID: "j"})
			if _, found, err := d.Earlier(t.Context(), jobs.Job{ID: "j"}); !found || err != nil {
				t.Errorf("after the second attempt: %t, %v", found, err)
			}
		})
	}
}

func TestF43EarlierResultThatCannotBeReadNowIsNoReasonToStartOver(t *testing.T) {
	t.Parallel()
	d := newFixture(t, &book{pages: 3})
	d.mustRun(t, jobs.Job{ID: "j"})
	d.store.refuseOn("open results/j/result.json")
	if _, found, err := d.Earlier(t.Context(), jobs.Job{ID: "j"}); found || !errors.Is(err, jobs.ErrUnavailable) {
		t.Errorf("store cannot open it: %t, %v; want ErrUnavailable", found, err)
	}
	d.store.refuse = nil
	d.Store = &tornStore{Store: d.store, after: 20}
	if _, found, err := d.Earlier(t.Context(), jobs.Job{ID: "j"}); found || !errors.Is(err, jobs.ErrUnavailable) {
		t.Errorf("store breaks off in the middle: %t, %v; want ErrUnavailable", found, err)
	}
}

func TestF44UnreadablePageIsAWarning(t *testing.T) {
	t.Parallel()
	d := newFixture(t, &book{pages: 4, page: func(n int) (Record, error) {
		switch n {
		case 2:
			return Record{Page: n, Warning: "page 2: bad stream", Failed: true}, nil
		case 3:
			return Record{Page: n, Images: 2}, nil
		case 4:
			return Record{Page: n}, nil
		}
		return textPage(n), nil
	}})
	if result := d.mustRun(t, jobs.Job{ID: "j"}); result.Pages != 4 {
		t.Errorf("result %+v", result)
	}
	s := d.summary(t)
	if s.FailedPages != 1 || cmp.Diff([]string{"page 2: bad stream"}, s.Warnings) != "" {
		t.Errorf("failed pages %d, warnings %q", s.FailedPages, s.Warnings)
	}
	if doc := s.Document; doc.PagesWithText != 1 || doc.ScannedPages != 1 || doc.BlankPages != 1 || doc.Images != 2 {
		t.Errorf("document %+v", doc)
	}
	if r := d.records(t); len(r) != 4 || r[1].Warning != "page 2: bad stream" {
		t.Errorf("pages %+v", r)
	}
}

func TestF44WarningsAreBounded(t *testing.T) {
	t.Parallel()
	d := newFixture(t, &book{pages: 500, page: func(n int) (Record, error) {
		rec := textPage(n)
		rec.Warning = fmt.Sprintf("page %d: odd", n)
		return rec, nil
	}})
	d.mustRun(t, jobs.Job{ID: "j"})
	if s := d.summary(t); len(s.Warnings) != 100 || s.Warnings[99] != "page 100: odd" || s.FailedPages != 0 {
		t.Errorf("%d warnings, the last %q, %d failed pages", len(s.Warnings), s.Warnings[len(s.Warnings)-1], s.FailedPages)
	}
}

func TestF44NoReadablePageFailsTheJob(t *testing.T) {
	t.Parallel()
	d := newFixture(t, &book{pages: 3, page: func(n int) (Record, error) {
		return Record{Page: n, Warning: fmt.Sprintf("page %d: bad stream", n), Failed: true}, nil
	}})
	d.mustFail(t, jobs.Job{ID: "j"}, "no page could be read: page 1: bad stream")
}

func TestF44InputLimits(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		length int
		want   string // empty for success
	}{
		{"below the limit", 999, ""},
		{"exactly at the limit", 1000, ""},
		{"one byte over", 1001, "input in.pdf is larger than 1000 bytes (MAX_INPUT_BYTES)"},
		{"far over", 1 << 20, "input in.pdf is larger than 1000 bytes (MAX_INPUT_BYTES)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := newFixture(t, &book{pages: 1, input: true})
			d.MaxInputBytes = 1000
			d.put(t, "in.pdf", strings.Repeat("x", tt.length))
			job := jobs.Job{ID: "j", Input: "in.pdf"}
			if tt.want != "" {
				d.mustFail(t, job, tt.want)
				return
			}
			d.mustRun(t, job)
			if s := d.summary(t); s.Document.Bytes != int64(tt.length) {
				t.Errorf("document has %d bytes, want %d", s.Document.Bytes, tt.length)
			}
		})
	}
}

func TestF44PageLimit(t *testing.T) {
	t.Parallel()
	d := newFixture(t, &book{pages: 10})
	d.MaxPages = 10
	d.mustRun(t, jobs.Job{ID: "a"})
	d.MaxPages = 9
	d.mustFail(t, jobs.Job{ID: "b"}, "document has 10 pages, at most 9 are allowed (MAX_PAGES)")
	d.MaxPages = 0
	d.mustRun(t, jobs.Job{ID: "c"})
}

func TestF44InputThatIsNotThere(t *testing.T) {
	t.Parallel()
	d := newFixture(t, &book{pages: 1, input: true})
	d.mustFail(t, jobs.Job{ID: "j"}, "pdf_path is empty")
	d.mustFail(t, jobs.Job{ID: "j", Input: "uploads/gone.pdf"}, "uploads/gone.pdf")
	d.mustFail(t, jobs.Job{ID: "j", Input: "../secret"}, "../secret")
}

func TestF44EngineThatBreaksItsWordFailsTheJob(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		read func(ctx context.Context, out Sink) error
		want string
	}{
		{"fewer pages than promised", func(_ context.Context, out Sink) error {
			return errors.Join(out.Open(3, nil), out.Page(textPage(1)), out.Page(textPage(2)))
		}, "engine book ended after page 2 of 3"},
		{"more pages than promised", func(_ context.Context, out Sink) error {
			return errors.Join(out.Open(1, nil), out.Page(textPage(1)), out.Page(textPage(2)))
		}, "engine book passed page 2 of 1"},
		{"a page twice", func(_ context.Context, out Sink) error {
			return errors.Join(out.Open(3, nil), out.Page(textPage(1)), out.Page(textPage(1)))
		}, "engine passed page 1 after page 1"},
		{"a page left out", func(_ context.Context, out Sink) error {
			return errors.Join(out.Open(3, nil), out.Page(textPage(1)), out.Page(textPage(3)))
		}, "engine passed page 3 after page 1"},
		{"fewer pages than none", func(_ context.Context, out Sink) error { return out.Open(-5, nil) }, "-5 pages"},
		{"a description without end", func(_ context.Context, out Sink) error {
			return out.Open(1, []byte(`"`+strings.Repeat("x", maxSummary)+`"`))
		}, "bytes"},
		{"an error", func(context.Context, Sink) error { return errors.New("ink is out") }, "ink is out"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := newFixture(t, &book{read: tt.read})
			d.mustFail(t, jobs.Job{ID: "j"}, tt.want)
		})
	}
}

func TestF16StorageTroubleIsNotTheJobsFault(t *testing.T) {
	tests := []struct{ name, refused string }{
		{"input cannot be opened", "open in.pdf"},
		{"checkpoint cannot be looked for", "open results/j/parts/"},
		{"checkpoint cannot be stored", "put results/j/parts/"},
		{"pages cannot be stored", "put results/j/pages.jsonl"},
		{"result cannot be stored", "put results/j/result.json"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newFixture(t, &book{pages: 5, input: true, took: 20 * time.Second})
				d.put(t, "in.pdf", "hello")
				job := jobs.Job{ID: "j", Input: "in.pdf"}
				d.store.refuseOn(tt.refused)
				if _, err := d.run(t.Context(), job); !errors.Is(err, jobs.ErrUnavailable) {
					t.Errorf("run: %v, want ErrUnavailable", err)
				}
				if d.has(t, resultName("j")) {
					t.Error("the job has a result all the same")
				}
				d.wantNothingLeft(t)
				d.store.refuse = nil
				d.mustRun(t, job)
				if r := d.records(t); len(r) != 5 {
					t.Errorf("%d pages after the trouble, want 5", len(r))
				}
			})
		})
	}
}

func TestF16InputThatBreaksOffIsNotTheJobsFault(t *testing.T) {
	t.Parallel()
	d := newFixture(t, &book{pages: 1, input: true})
	d.put(t, "in.pdf", strings.Repeat("x", 1000))
	d.Store = &tornStore{Store: d.store, after: 500}
	if _, err := d.run(t.Context(), jobs.Job{ID: "j", Input: "in.pdf"}); !errors.Is(err, jobs.ErrUnavailable) {
		t.Errorf("run: %v, want ErrUnavailable", err)
	}
}

func TestF16FullOrMissingDiskOfTheWorkerIsNotTheJobsFault(t *testing.T) {
	t.Parallel()
	for name, e := range map[string]*book{"for the input": {pages: 1, input: true}, "for the pages": {pages: 1}} {
		t.Run(name, func(t *testing.T) {
			d := newFixture(t, e)
			d.put(t, "in.pdf", "x")
			d.Dir += "/gone"
			if _, err := d.run(t.Context(), jobs.Job{ID: "j", Input: "in.pdf"}); !errors.Is(err, jobs.ErrUnavailable) {
				t.Errorf("run: %v, want ErrUnavailable", err)
			}
		})
	}
}

func TestF44CheckpointsOfAFailedJobAreDeleted(t *testing.T) {
	tests := []struct {
		name string
		end  error
		left bool
	}{
		{"its own failure", errors.New("ink is out"), false},
		{"trouble of the infrastructure", fmt.Errorf("%w: disk", jobs.ErrUnavailable), true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newFixture(t, &book{pages: 5, took: 31 * time.Second, page: func(n int) (Record, error) {
					if n == 4 {
						return Record{}, tt.end
					}
					return textPage(n), nil
				}})
				if _, err := d.run(t.Context(), jobs.Job{ID: "j"}); !errors.Is(err, tt.end) {
					t.Errorf("run: %v", err)
				}
				for n := 1; n <= 3; n++ {
					if name := fmt.Sprintf("results/j/parts/%08d.jsonl", n); d.has(t, name) != tt.left {
						t.Errorf("%s is left: %t, want %t", name, !tt.left, tt.left)
					}
				}
			})
		})
	}
}

func TestF17CheckpointsOutliveADrainedJobButNotOneThatWasStopped(t *testing.T) {
	for cause, left := range map[error]bool{
		jobs.ErrDrained: true, jobs.ErrLeaseLost: true,
		jobs.ErrCanceled: false, jobs.ErrTimeout: false, jobs.ErrStalled: false,
	} {
		t.Run(cause.Error(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newFixture(t, &book{pages: 5, took: 31 * time.Second})
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(70*time.Second, func() { cancel(cause) })
				if _, err := d.run(ctx, jobs.Job{ID: "j"}); !errors.Is(err, cause) {
					t.Errorf("run: %v, want the cause", err)
				}
				if got := d.has(t, "results/j/parts/00000001.jsonl"); got != left {
					t.Errorf("a checkpoint is left: %t, want %t", got, left)
				}
			})
		})
	}
}

func TestNothingIsLeftOnTheWorkersDisk(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		page func(cancel func()) (Record, error)
	}{
		{"success", func(func()) (Record, error) { return textPage(2), nil }},
		{"failure", func(func()) (Record, error) { return Record{}, errors.New("ink is out") }},
		{"panic", func(func()) (Record, error) { panic("boom") }},
		{"cancel", func(cancel func()) (Record, error) { cancel(); return textPage(2), nil }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			d := newFixture(t, &book{pages: 2, input: true, page: func(n int) (Record, error) {
				if n == 2 {
					return tt.page(cancel)
				}
				return textPage(n), nil
			}})
			d.put(t, "in.pdf", "hello")
			func() {
				defer func() { _ = recover() }() // the worker does as much
				_, _ = d.run(ctx, jobs.Job{ID: "j", Input: "in.pdf"})
			}()
			d.wantNothingLeft(t)
		})
	}
}

func TestF42LongDocumentTakesBoundedMemory(t *testing.T) {
	const pages, bound = 5000, 16 << 20
	text := strings.Repeat("lorem ipsum ", 1000) // 60 MB in all
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before, most := heap(), uint64(0)
	d := newFixture(t, &book{pages: pages, page: func(n int) (Record, error) {
		if n%1000 == 0 {
			most = max(most, heap())
		}
		return Record{Page: n, Text: text, HasText: true}, nil
	}})
	d.Checkpoint = 10 * time.Millisecond
	d.mustRun(t, jobs.Job{ID: "j"})
	if most > before+bound {
		t.Errorf("a document of %d pages takes %d MB, want at most %d", pages, (most-before)>>20, bound>>20)
	}
	if info, err := d.store.Stat(t.Context(), pagesName("j")); err != nil || info.Size < pages*int64(len(text)) {
		t.Errorf("pages.jsonl: %+v, %v", info, err)
	}
}
