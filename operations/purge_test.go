package operations

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	cloud "cloud.google.com/go/storage"
	"github.com/fsouza/fake-gcs-server/fakestorage"
	"google.golang.org/api/option"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/storage"
	"github.com/batchfleet/batchfleet/storage/gcs"
)

const day = 24 * time.Hour

// stored returns the names of all objects.
func (r *rig) stored() (names []string) {
	r.Helper()
	err := r.Storage.Walk(r.Context(), "", func(name string, _ storage.Info, err error) error {
		if err != nil {
			return err
		}
		names = append(names, name)
		return nil
	})
	if err != nil {
		r.Fatal(err)
	}
	slices.Sort(names)
	return names
}

func TestJPurgeDeletesOldResultsAndNothingElse(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.put("uploads/old/document.pdf", 9*day)
	r.put("results.old/a/result.json", 9*day)
	r.put("results/stray.json", 9*day)
	r.put("results/..odd/result.json", 9*day)
	r.put("results/odd name/result.json", 9*day)
	r.put("results/new/result.json", time.Hour)
	r.put("results/new/pages.jsonl", 9*day) // the newest object counts
	want := r.stored()
	for _, id := range []string{"a", "b"} {
		r.put("results/"+id+"/pages.jsonl", 9*day)
		r.put("results/"+id+"/result.json", 3*day)
	}
	r.put("results/given-up/parts/00000001.jsonl", 3*day)
	outside := t.TempDir()
	if err := errors.Join(os.WriteFile(outside+"/result.json", nil, 0o600), os.Chtimes(outside+"/result.json", time.Time{}, time.Unix(1, 0)),
		os.Symlink(outside, filepath.Join(r.dir, "results", "linked"))); err != nil {
		t.Fatal(err)
	}
	j := r.do("purge", `{"olderThanDays":2}`)
	r.wantLines(j.lines, "delete succeeded: deleted 3 results, 5 objects, 176 bytes; left alone: 2 of no job")
	if j.text() != `{"jobs":3,"objects":5,"bytes":176,"left":{"notEnded":0,"endedSince":0,"unreadable":0,"notPermitted":0,"tooLarge":0,"noJob":2}}` {
		t.Errorf("result %s", j.text())
	}
	if got := r.stored(); !slices.Equal(got, want) {
		t.Errorf("left are\n%q, want\n%q", got, want)
	}
	if _, err := os.Stat(outside + "/result.json"); err != nil {
		t.Error(err)
	}
	r.wantLines(r.do("purge", `{"olderThanDays":2}`).lines, "delete succeeded: deleted 0 results, 0 objects, 0 bytes; left alone: 2 of no job")
}

func TestJPurgeLeavesWhatJobsStillNeed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, id := range []jobs.ID{"queued", "running", "failed", "finished", "unreadable", "unknown"} {
		r.put("results/"+string(id)+"/parts/00000001.jsonl", 9*day)
		if id == "unknown" {
			continue
		}
		if _, err := r.Status.Submit(t.Context(), jobs.Job{ID: id}); err != nil {
			t.Fatal(err)
		}
		if id == "queued" {
			continue
		}
		claim, err := r.Status.Claim(t.Context(), jobs.Job{ID: id}, time.Minute, jobs.Claim{})
		if err != nil {
			t.Fatal(err)
		}
		if id == "failed" || id == "finished" {
			if _, err := r.Status.Finish(t.Context(), claim, jobs.Outcome{State: map[jobs.ID]jobs.State{"failed": jobs.Failed, "finished": jobs.Succeeded}[id]}); err != nil {
				t.Fatal(err)
			}
		}
	}
	r.rdb.Set(t.Context(), "job:unreadable", "}", 0)
	// As if it had failed long ago.
	r.rdb.HSet(t.Context(), "{job:failed}:detail", "finished_at", time.Now().Add(-8*day).UnixMilli())
	j := r.do("purge", `{"olderThanDays":2}`)
	if j.err != nil || j.text() != `{"jobs":2,"objects":2,"bytes":`+fmt.Sprint(len("content of results/failed/parts/00000001.jsonl")+len("content of results/unknown/parts/00000001.jsonl"))+`,"left":{"notEnded":2,"endedSince":1,"unreadable":1,"notPermitted":0,"tooLarge":0,"noJob":0}}` {
		t.Errorf("%v, result %s", j.err, j.text())
	}
	if !strings.HasSuffix(j.lines[0], "; left alone: 2 not ended, 1 ended since, 1 unreadable") {
		t.Errorf("%q", j.lines)
	}
	r.wantLines(r.plan("purge", `{"dryRun":true,"olderThanDays":2}`), "delete skip: no results to delete are older than 2 days; left alone: 2 not ended, 1 ended since, 1 unreadable")
	want := []string{"results/finished/parts/00000001.jsonl", "results/queued/parts/00000001.jsonl", "results/running/parts/00000001.jsonl", "results/unreadable/parts/00000001.jsonl"}
	if got := r.stored(); !slices.Equal(got, want) {
		t.Errorf("left are %q, want %q", got, want)
	}
	r.redis.Kill()
	if j = r.do("purge", `{"olderThanDays":2}`); !errors.Is(j.err, jobs.ErrUnavailable) || len(r.stored()) != len(want) {
		t.Errorf("without Redis: %v, left %q", j.err, r.stored())
	}
	r.redis.Start()
}

// many is a storage with one result of so many old objects.
type many struct {
	storage.Store
	objects int
}

func (m many) Walk(_ context.Context, _ string, see storage.Visit) error {
	for i := range m.objects {
		if err := see(fmt.Sprintf("results/a/%d", i), storage.Info{}, nil); err != nil {
			return err
		}
	}
	return nil
}

func TestJPurgeLeavesWhatIsTooLarge(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Storage = many{r.Storage, maxOfResult}
	r.wantLines(r.plan("purge", `{"dryRun":true,"olderThanDays":2}`), "delete run: would delete 1 result, 10000 objects, 0 bytes")
	r.Storage = many{r.Storage, maxOfResult + 1}
	r.wantLines(r.do("purge", `{"olderThanDays":2}`).lines, "delete succeeded: deleted 0 results, 0 objects, 0 bytes; left alone: 1 too large")
}

func TestJPurgeKeepsToItsLimit(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const n = 2*sweepBatch + 30
	for i := range n {
		r.put(fmt.Sprintf("results/job-%d/result.json", i), 9*day)
		if i%10 == 0 { // is looked at and does not count
			if _, err := r.Status.Submit(t.Context(), jobs.Job{ID: jobs.ID(fmt.Sprintf("job-%d", i))}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, limit := range []int{1, 7, sweepBatch, n} {
		before := len(r.stored())
		want := min(limit, before-n/10)
		j := r.do("purge", fmt.Sprintf(`{"olderThanDays":2,"limit":%d}`, limit))
		if got := before - len(r.stored()); j.err != nil || got != want || !strings.HasPrefix(j.text(), fmt.Sprintf(`{"jobs":%d,`, want)) {
			t.Errorf("limit %d: %v, deleted %d, want %d; result %s", limit, j.err, got, want, j.text())
		}
	}
}

// A purge that is killed leaves no result that names what is gone, and the next
// one finds the rest.
func TestJPurgeEndedAnywhereLeavesNoHalfResult(t *testing.T) {
	t.Parallel()
	objects := []string{"pages.jsonl", "parts/00000001.jsonl", "result.json", "zz"}
	for after := range len(objects) {
		r := newRig(t)
		local := r.Storage
		for _, o := range objects {
			r.put("results/a/"+o, 9*day)
		}
		var mu sync.Mutex
		n := 0
		r.Storage = &brokenStore{Store: local, delete: func(string) error {
			mu.Lock()
			defer mu.Unlock()
			if n++; n > after {
				return jobs.ErrUnavailable
			}
			return nil
		}}
		if j := r.do("purge", `{"olderThanDays":2}`); !errors.Is(j.err, jobs.ErrUnavailable) {
			t.Errorf("%v, want jobs.ErrUnavailable", j.err)
		}
		left := r.stored()
		if len(left) != len(objects)-after || slices.Contains(left, "results/a/result.json") && after > 0 {
			t.Errorf("after %d: left are %q", after, left)
		}
		r.Storage = local
		if j := r.do("purge", `{"olderThanDays":2}`); j.err != nil || len(r.stored()) > 0 {
			t.Errorf("the next: %v, left are %q", j.err, r.stored())
		}
	}
}

// Another server may purge at the same moment: both count what either deletes.
func TestJTwoPurgesAtOnceDoNoHarm(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.put("results/a/pages.jsonl", 9*day)
	r.put("results/a/result.json", 9*day)
	local := r.Storage
	var once sync.Once
	var other *ran
	r.Storage = &brokenStore{Store: local, delete: func(string) error {
		once.Do(func() {
			r.Storage = local
			other = r.do("purge", `{"olderThanDays":2}`)
		})
		return nil
	}}
	first := r.do("purge", `{"olderThanDays":2}`)
	for _, j := range []*ran{first, other} {
		if j.err != nil || !strings.HasPrefix(j.text(), `{"jobs":1,"objects":2,`) {
			t.Errorf("%v, result %s", j.err, j.text())
		}
	}
	if left := r.stored(); len(left) > 0 {
		t.Errorf("left are %q", left)
	}
}

func TestJPurgeThatIsCanceledStops(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for i := range 2 * sweepBatch {
		r.put(fmt.Sprintf("results/job-%d/result.json", i), 9*day)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	r.Storage = &brokenStore{Store: r.Storage, delete: func(string) error { cancel(jobs.ErrCanceled); return nil }}
	j := &ran{}
	if j.run(ctx, r.good("purge", `{"olderThanDays":2}`)); !errors.Is(j.err, jobs.ErrCanceled) {
		t.Error(j.err)
	}
	if left := len(r.stored()); left < sweepBatch {
		t.Errorf("%d results left", left)
	}
}

func TestJPurgeInCloudStorage(t *testing.T) {
	t.Parallel()
	fake, err := fakestorage.NewServerWithOptions(fakestorage.Options{Scheme: "http", Host: "127.0.0.1", Writer: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	defer fake.Stop()
	for name, age := range map[string]time.Duration{
		"results/a/pages.jsonl": 9 * day, "results/a/result.json": 9 * day, "results/a-b/result.json": 9 * day, "results/a": 9 * day,
		"results/a.b/result.json": 0, "uploads/a": 9 * day,
	} {
		at := time.Now().Add(-age)
		fake.CreateObject(fakestorage.Object{ObjectAttrs: fakestorage.ObjectAttrs{BucketName: "fleet", Name: name, Created: at, Updated: at}, Content: []byte("x")})
	}
	client, err := cloud.NewClient(t.Context(), option.WithEndpoint(fake.URL()+"/storage/v1/"), option.WithoutAuthentication(), cloud.WithJSONReads())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	r := newRig(t)
	r.Storage = gcs.New(client, "fleet")
	j := r.do("purge", `{"olderThanDays":2}`)
	if got := r.stored(); j.err != nil || j.text() != `{"jobs":2,"objects":3,"bytes":3,"left":{"notEnded":0,"endedSince":0,"unreadable":0,"notPermitted":0,"tooLarge":0,"noJob":0}}` || !slices.Equal(got, []string{"results/a", "results/a.b/result.json", "uploads/a"}) {
		t.Errorf("%v, result %s, left are %q", j.err, j.text(), got)
	}
}
