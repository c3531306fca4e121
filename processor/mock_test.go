package processor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
)

// contractMock is the simulation as the contract has it.
func contractMock(log io.Writer) Mock {
	return Mock{MinPages: 5, MaxPages: 20, MinSeconds: 3 * time.Second, MaxSeconds: 5 * time.Second, Log: slog.New(slog.NewTextHandler(log, nil))}
}

func TestF40MockHas5To20PagesOf3To5Seconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := map[int]bool{}
		for i := range 200 {
			pages, last, next := 0, time.Now(), 1
			err := contractMock(io.Discard).Read(t.Context(), jobs.Job{ID: jobs.ID(fmt.Sprintf("job%d", i))}, "", 1, Sink{
				Open: func(n int, _ json.RawMessage) error { pages = n; return nil },
				Page: func(r Record) error {
					took := time.Since(last)
					if took < 3*time.Second || took > 5*time.Second || r.Page != next || took.Round(time.Millisecond).Seconds() != r.Seconds {
						t.Errorf("page %d came after %s, says %v s; want page %d after 3 to 5 s", r.Page, took, r.Seconds, next)
					}
					last = time.Now()
					next++
					return nil
				},
			})
			if err != nil || next != pages+1 {
				t.Fatalf("read: %v after %d of %d pages", err, next-1, pages)
			}
			seen[pages] = true
		}
		for n := range seen {
			if n < 5 || n > 20 {
				t.Errorf("a document has %d pages, want 5 to 20", n)
			}
		}
		if len(seen) != 16 {
			t.Errorf("200 documents have only %d different numbers of pages, want all 16", len(seen))
		}
	})
}

func TestF40SameJobIsTheSameDocument(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		read := func(id jobs.ID, from int) (recs []Record) {
			err := contractMock(io.Discard).Read(t.Context(), jobs.Job{ID: id}, "", from, Sink{
				Open: func(int, json.RawMessage) error { return nil },
				Page: func(r Record) error { recs = append(recs, r); return nil },
			})
			if err != nil {
				t.Fatal(err)
			}
			return recs
		}
		a := read("a", 1)
		if b := read("a", 1); !slices.Equal(a, b) {
			t.Errorf("the same job is %v, then %v", a, b)
		}
		if b := read("a", 4); !slices.Equal(a[3:], b) {
			t.Errorf("from page 4 on it is %v, want %v", b, a[3:])
		}
		if b := read("a", len(a)+1); len(b) != 0 {
			t.Errorf("after its end come %v", b)
		}
		if b := read("b", 1); slices.Equal(a, b) {
			t.Error("another job is the same document")
		}
	})
}

func TestF40MessagesAndLogAreThoseOfTheContract(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newFixture(t, nil)
		var log strings.Builder
		d.Engine = contractMock(&log)
		result := d.mustRun(t, jobs.Job{ID: "j", Kind: "mock", Input: "uploads/j/never-opened.pdf", Pages: 12})
		if result != (jobs.Result{Object: "results/j/result.json", Pages: 12}) {
			t.Errorf("result %+v", result)
		}
		var want []string
		for n := 1; n <= 12; n++ {
			want = append(want, fmt.Sprintf("%d%% Page %d/12 analyzing...", n*100/12, n))
		}
		want = append(want, "100% Page 12/12 analyzing...") // while the result is stored
		var got []string
		for _, p := range d.reports {
			got = append(got, fmt.Sprintf("%d%% %s", p.Percent(), p.Message))
		}
		if !slices.Equal(got, want) {
			t.Errorf("reports\n got %q\nwant %q", got, want)
		}
		for _, line := range []string{`msg="PDF has 12 pages (mock)"`, `msg="[j] Page 5/12 analyzing... (41%)"`, `msg="[j] Page 12/12 analyzing... (100%)"`} {
			if strings.Count(log.String(), line) != 1 {
				t.Errorf("the log has not once the line %s:\n%s", line, &log)
			}
		}
		if s := d.summary(t); s.Seconds < 36 || s.Seconds > 60 || s.Pages != 12 || s.Engine != "mock" {
			t.Errorf("summary %+v, want 12 pages in 36 to 60 s", s)
		}
	})
}

func TestF40ZeroPages(t *testing.T) {
	t.Parallel()
	d := newFixture(t, Mock{Log: slog.New(slog.DiscardHandler)})
	if result := d.mustRun(t, jobs.Job{ID: "j", Kind: "mock"}); result.Pages != 0 {
		t.Errorf("result %+v", result)
	}
	if s := d.summary(t); s.Pages != 0 || s.TextObject != "" || d.has(t, pagesName("j")) {
		t.Errorf("summary %+v, want no pages and no object for them", s)
	}
}

func TestF40MockEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newFixture(t, contractMock(io.Discard))
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(10*time.Second, func() { cancel(jobs.ErrDrained) })
		began := time.Now()
		if _, err := d.run(ctx, jobs.Job{ID: "j"}); !errors.Is(err, jobs.ErrDrained) {
			t.Errorf("run: %v, want the cause", err)
		}
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("it ended after %s", took)
		}
	})
}

func TestF42MockResultIsTheContractsExample(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newFixture(t, contractMock(io.Discard))
		d.mustRun(t, jobs.Job{ID: "f47ac10b-58cc-4372-a567-0e02b2c3d479", Kind: "mock", Pages: 15})
		want := regexp.MustCompile(`^\{
  "job_id": "f47ac10b-58cc-4372-a567-0e02b2c3d479",
  "pages": 15,
  "processed_at": "2\d{3}-\d\d-\d\dT\d\d:\d\d:\d\dZ",
  "processing_time_seconds": \d\d(\.\d{1,2})?,
`)
		if got := d.get(t, "results/f47ac10b-58cc-4372-a567-0e02b2c3d479/result.json"); !want.MatchString(got) {
			t.Errorf("result.json begins otherwise than the contract's:\n%s", got)
		}
	})
}
