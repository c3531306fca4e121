package processor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/storage"
	"github.com/batchfleet/batchfleet/storage/storagetest"
)

// book is an engine whose pages are as a test says.
type book struct {
	pages int
	input bool
	took  time.Duration                             // per page
	page  func(n int) (Record, error)               // nil for simple text
	open  func(ctx context.Context, s Sink) error   // called before Open, if not nil
	from  []int                                     // what Read was asked for
	read  func(ctx context.Context, out Sink) error // instead of all the above
}

func (b *book) Name() string     { return "book" }
func (b *book) NeedsInput() bool { return b.input }

func (b *book) Read(ctx context.Context, _ jobs.Job, _ string, from int, out Sink) error {
	b.from = append(b.from, from)
	if b.read != nil {
		return b.read(ctx, out)
	}
	if b.open != nil {
		if err := b.open(ctx, out); err != nil {
			return err
		}
	}
	if err := out.Open(b.pages, json.RawMessage(`{"bound":true}`)); err != nil {
		return err
	}
	for n := from; n <= b.pages; n++ {
		if b.took > 0 {
			if err := jobs.Sleep(ctx, b.took); err != nil {
				return err
			}
		}
		rec := textPage(n)
		if b.page != nil {
			var err error
			if rec, err = b.page(n); err != nil {
				return err
			}
		}
		if err := out.Page(rec); err != nil {
			return err
		}
	}
	return nil
}

func textPage(n int) Record {
	return Record{Page: n, Text: fmt.Sprintf("<page> & %d", n), Words: 3, Characters: 8, HasText: true}
}

// recordingStore is a store that records each call and can refuse it.
type recordingStore struct {
	storage.Store
	mu     sync.Mutex
	did    []string
	refuse func(what string) error // what: "open name", "put name", "delete name"
}

func (s *recordingStore) note(what string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.did = append(s.did, what)
	if s.refuse != nil {
		return s.refuse(what)
	}
	return nil
}

func (s *recordingStore) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	if err := s.note("open " + name); err != nil {
		return nil, err
	}
	return s.Store.Open(ctx, name)
}

func (s *recordingStore) Put(ctx context.Context, name string, r io.Reader) error {
	if err := s.note("put " + name); err != nil {
		return err
	}
	return s.Store.Put(ctx, name, r)
}

func (s *recordingStore) Delete(ctx context.Context, name string) error {
	if err := s.note("delete " + name); err != nil {
		return err
	}
	return s.Store.Delete(ctx, name)
}

// told returns what was done of one kind, in order.
func (s *recordingStore) told(verb string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for _, what := range s.did {
		if name, ok := strings.CutPrefix(what, verb+" "); ok {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// refuseOn makes the store unavailable for everything that contains part.
func (s *recordingStore) refuseOn(part string) {
	s.refuse = func(what string) error {
		if strings.Contains(what, part) {
			return fmt.Errorf("%s: %w: cable cut", what, jobs.ErrUnavailable)
		}
		return nil
	}
}

// fixture is what the tests of [Pages] work with.
type fixture struct {
	*Pages
	store   *recordingStore
	reports []jobs.Progress
	log     strings.Builder
}

func newFixture(t *testing.T, e Engine) *fixture {
	t.Helper()
	local, err := storage.NewLocal(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = local.Close() })
	d := &fixture{store: &recordingStore{Store: local}}
	d.Pages = &Pages{
		Engine: e, Store: d.store, Dir: t.TempDir(), MaxInputBytes: 1 << 30,
		Log: slog.New(slog.NewTextHandler(&d.log, nil)),
	}
	t.Cleanup(func() { d.wantNothingLeft(t) })
	return d
}

func (d *fixture) run(ctx context.Context, job jobs.Job) (jobs.Result, error) {
	d.reports = nil
	return d.Run(ctx, job, func(p jobs.Progress) { d.reports = append(d.reports, p) })
}

// mustRun runs a job that has to succeed.
func (d *fixture) mustRun(t *testing.T, job jobs.Job) jobs.Result {
	t.Helper()
	result, err := d.run(t.Context(), job)
	if err != nil {
		t.Fatalf("run: %v\n%s", err, d.log.String())
	}
	return result
}

// mustFail runs a job that has to fail for good, for a reason that contains want.
func (d *fixture) mustFail(t *testing.T, job jobs.Job, want string) {
	t.Helper()
	result, err := d.run(t.Context(), job)
	if err == nil || errors.Is(err, jobs.ErrUnavailable) || !strings.Contains(err.Error(), want) {
		t.Errorf("run = %+v, %v; want the job's own failure that says %q", result, err, want)
	}
	if d.has(t, resultName(job.ID)) {
		t.Error("a failed job has a result")
	}
}

func (d *fixture) put(t *testing.T, name, data string) {
	t.Helper()
	storagetest.PutString(t, d.store.Store, name, data)
}

func (d *fixture) has(t *testing.T, name string) bool {
	t.Helper()
	_, err := d.store.Stat(t.Context(), name)
	return err == nil
}

// get returns the content of an object, which must be there.
func (d *fixture) get(t *testing.T, name string) string {
	t.Helper()
	return storagetest.GetString(t, d.store.Store, name)
}

// summary returns the result of job j.
func (d *fixture) summary(t *testing.T) Summary {
	t.Helper()
	var s Summary
	if err := json.Unmarshal([]byte(d.get(t, resultName("j"))), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// records returns the pages of job j.
func (d *fixture) records(t *testing.T) []Record {
	t.Helper()
	var recs []Record
	for line := range strings.Lines(d.get(t, pagesName("j"))) {
		var rec Record
		if err := json.Unmarshal([]byte(line), &rec); err != nil {
			t.Fatal(err)
		}
		recs = append(recs, rec)
	}
	return recs
}

// wantNothingLeft checks that no file of a job is left on the worker's disk.
func (d *fixture) wantNothingLeft(t *testing.T) {
	t.Helper()
	files, err := os.ReadDir(d.Dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	for _, f := range files {
		t.Errorf("temporary file %s is left behind", f.Name())
	}
}
