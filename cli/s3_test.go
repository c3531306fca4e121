package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/storage"
	"github.com/batchfleet/batchfleet/storage/s3"
	"github.com/batchfleet/batchfleet/storage/s3/s3test"
	"github.com/batchfleet/batchfleet/storage/storagetest"
)

// withS3 returns what points processes to the bucket of a server.
func withS3(url string) []string {
	return []string{
		"STORAGE_TYPE=S3", "S3_BUCKET_NAME=fleet", "S3_ENDPOINT=" + url, "S3_REGION=" + s3test.Region, "ALLOWED_BUCKETS=shared",
		"AWS_ACCESS_KEY_ID=" + s3test.AccessKey, "AWS_SECRET_ACCESS_KEY=" + s3test.SecretKey, "LOCAL_STORAGE_PATH=/dev/null/nowhere",
	}
}

// namesIn returns the names of all objects.
func namesIn(t *testing.T, store storage.Store) (all []string) {
	t.Helper()
	err := store.Walk(t.Context(), "", func(name string, _ storage.Info, err error) error {
		all = append(all, name)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestF47FleetStoresInS3 processes documents, and kills a worker in the middle of a job.
func TestF47FleetStoresInS3(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t)
	url := s3test.New(t, "fleet", "shared")
	store := s3.New(s3test.Client(t, url), "fleet", "shared")
	run := func(wantCode int, args ...string) string {
		t.Helper()
		code, stdout, stderr := output(t, batchfleet(t, f.environment(append(withS3(url), "PROCESSOR=pdf")...), args...))
		if code != wantCode || strings.Contains(stdout+stderr, s3test.SecretKey) {
			t.Errorf("%v: exit code %d, want %d\n%s%s", args, code, wantCode, stdout, stderr)
		}
		return stdout
	}
	worker := func(name string) *process {
		return f.start(append(withS3(url), "WORKER_NAME="+name, "PROCESSOR=pdf", "LEASE_TTL=600s", "LEASE_EXTEND_EVERY=300s", "MOCK_PAGE_SECONDS=0.05", "CHECKPOINT_INTERVAL=0.2")...)
	}

	// One worker is killed while it runs a job that has stored a checkpoint; the other goes on.
	f.submit("long", 200) // 10 s
	killed := worker("killed")
	until(t, time.Minute, "a checkpoint", func() bool {
		return strings.Contains(fmt.Sprint(namesIn(t, store)), "results/long/parts/")
	})
	other := worker("other")
	killed.kill()

	if got := run(0, "doctor"); !strings.Contains(got, "ok    storage  s3://fleet") {
		t.Errorf("doctor says %s", got)
	}
	document := t.TempDir() + "/groff.pdf"
	text, err := os.ReadFile("../pdf/testdata/groff.pdf")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(document, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := run(0, "submit", "--wait", document); !strings.Contains(got, "result: s3://fleet/results/") {
		t.Errorf("submit says %s", got)
	}
	// An input in another bucket.
	storagetest.PutString(t, s3.New(s3test.Client(t, url), "shared"), "a/groff.pdf", string(text))
	if _, err := f.status.Submit(t.Context(), jobs.Job{ID: "shared", Kind: "pdf"}); err != nil {
		t.Fatal(err)
	}
	f.send(jobs.Job{ID: "shared", Kind: "pdf", Input: "s3://shared/a/groff.pdf"})
	f.untilState(2*time.Minute, "shared", "completed")
	f.untilState(2*time.Minute, "long", "completed")

	ids := map[string]int{"long": 200, "shared": 0}
	for _, name := range namesIn(t, store) {
		if id, ok := strings.CutPrefix(name, "uploads/"); ok {
			id, _, _ = strings.Cut(id, "/")
			ids[id] = 0
		}
		if strings.Contains(name, "/parts/") {
			t.Errorf("%s is left behind", name)
		}
	}
	if len(ids) != 3 {
		t.Errorf("there are %d jobs, want 3", len(ids))
	}
	for id, pages := range ids {
		var result struct {
			JobID string `json:"job_id"`
			Pages int    `json:"pages"`
		}
		got := storagetest.GetString(t, store, "results/"+id+"/result.json")
		if err := json.Unmarshal([]byte(got), &result); err != nil || result.JobID != id || pages != 0 && result.Pages != pages || result.Pages == 0 {
			t.Errorf("the result of job %s: %v %s", id, err, got)
		}
		if n := strings.Count(storagetest.GetString(t, store, "results/"+id+"/pages.jsonl"), "\n"); n != result.Pages {
			t.Errorf("job %s has %d lines of pages, want %d", id, n, result.Pages)
		}
		if got := run(0, "result", id); !strings.Contains(got, id) {
			t.Errorf("result of %s: %s", id, got)
		}
	}
	if e, err := f.status.Get(t.Context(), "long"); err != nil || e.Detail.Worker != "other" || !strings.Contains(other.log.String(), "resuming at checkpoint") {
		t.Errorf("completed by %q, %v; want the other one, at a checkpoint\n%s", e.Detail.Worker, err, other.log)
	}

	// Redis forgets a job, whose result is there.
	if err := f.rdb.Del(t.Context(), "job:shared", "{job:shared}:detail").Err(); err != nil {
		t.Fatal(err)
	}
	run(0, "fsck", "--repair")
	f.untilState(time.Minute, "shared", "completed")
	if code, _ := other.terminate(); code != 0 || strings.Contains(other.log.String()+killed.log.String(), s3test.SecretKey) {
		t.Errorf("the worker ended with %d\n%s", code, other.log)
	}
}

func TestF47PurgeDeletesOldResultsInS3(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t)
	url := s3test.NewAt(t, time.Now().AddDate(0, 0, -40), "fleet")
	store := s3.New(s3test.Client(t, url), "fleet")
	for _, name := range []string{"results/old/pages.jsonl", "results/old/result.json", "uploads/old/a.pdf"} {
		storagetest.PutString(t, store, name, "{}")
	}
	code, stdout, stderr := output(t, batchfleet(t, f.environment(withS3(url)...), "run", "purge", "--data", `{"olderThanDays":30}`))
	if got := fmt.Sprint(namesIn(t, store)); code != 0 || got != "[uploads/old/a.pdf]" {
		t.Errorf("exit code %d, left are %s\n%s%s", code, got, stdout, stderr)
	}
}
