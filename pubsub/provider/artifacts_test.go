package provider_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobapi/jobapitest"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/storage"
)

// TestArtifactsAreWhatAJobHasMade and nothing else of the storage.
func TestArtifactsAreWhatAJobHasMade(t *testing.T) {
	r := newFleetRig(t)
	if _, err := r.fleet.Artifacts(t.Context(), "nobody"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of no job: %v, want ErrNotExist", err)
	}
	r.finish(r.claim(r.submit("good")), jobs.Outcome{State: jobs.Succeeded, Result: jobs.Result{Object: "results/good/result.json", Pages: 1}})
	if _, err := r.fleet.Artifacts(t.Context(), "good"); !isRefused(err, jobapi.CodePrecondition) {
		t.Errorf("without a storage: %v, want a refusal", err)
	}
	store, err := storage.NewLocal(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r.fleet.Storage = func(context.Context) (storage.Store, error) { return store, nil }
	for _, name := range []string{"results/good/result.json", "results/good/pages.jsonl", "results/good/parts/1.jsonl", "results/good/odd name", "results/other/result.json", "results/failed/result.json", "uploads/good/x.pdf"} {
		if err := store.Put(t.Context(), name, strings.NewReader("content of "+name)); err != nil {
			t.Fatal(err)
		}
	}
	r.finish(r.claim(r.submit("failed")), jobs.Outcome{State: jobs.Failed, Reason: "no luck"})
	r.claim(r.submit("running"))
	want := []jobapi.Artifact{
		{Name: "pages.jsonl", MediaType: "application/x-ndjson", Bytes: 35},
		{Name: "result.json", MediaType: "application/json", Bytes: 35},
	}
	got, err := r.fleet.Artifacts(t.Context(), "good")
	for i, a := range got { // made from when it was stored
		if want[i].Tag = a.Tag; a.Tag == "" {
			t.Errorf("%s has no tag", a.Name)
		}
	}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Errorf("%v; want (-) and got (+):\n%s", err, d)
	}
	for _, id := range []string{"failed", "running"} {
		if got, err := r.fleet.Artifacts(t.Context(), id); err != nil || len(got) > 0 {
			t.Errorf("of a job that is %s: %v, %v, want none", id, got, err)
		}
		if _, _, err := r.fleet.OpenArtifact(t.Context(), id, "result.json"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("open of a job that is %s: %v, want ErrNotExist", id, err)
		}
	}
	content, a, err := r.fleet.OpenArtifact(t.Context(), "good", "result.json")
	if err != nil || a != want[1] {
		t.Fatalf("open: %+v, %v", a, err)
	}
	defer content.Close()
	if text, err := io.ReadAll(content); err != nil || string(text) != "content of results/good/result.json" {
		t.Errorf("content %q, %v", text, err)
	}
	for _, name := range []string{"", "none.json", "../other/result.json", "parts/1.jsonl", "odd name", ".", ".."} {
		if _, _, err := r.fleet.OpenArtifact(t.Context(), "good", name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("open %q: %v, want ErrNotExist", name, err)
		}
	}
}

func isRefused(err error, code string) bool {
	refused, ok := errors.AsType[*jobapi.Refusal](err)
	return ok && refused.Code == code
}

// TestRetryPublishesWhatIsOnRecord and only of a job that has failed.
func TestRetryPublishesWhatIsOnRecord(t *testing.T) {
	r := newFleetRig(t)
	r.finish(r.claim(r.submit("a")), jobs.Outcome{State: jobs.Failed, Reason: "no luck"})
	if _, err := r.fleet.Retry(t.Context(), "a"); !isRefused(err, jobapi.CodePrecondition) {
		t.Errorf("without Pub/Sub: %v, want a refusal", err)
	}
	var sent []jobs.Job
	var fails error
	r.fleet.Publish = func(_ context.Context, job jobs.Job) (string, error) {
		sent = append(sent, job)
		return "1", fails
	}
	if _, err := r.fleet.Retry(t.Context(), "nobody"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of no job: %v, want ErrNotExist", err)
	}
	j, err := r.fleet.Retry(t.Context(), "a")
	if err != nil || j.Status != jobs.Queued || j.Attempt != 0 || j.Error != nil {
		t.Errorf("retried: %+v, %v", j, err)
	}
	if len(sent) != 1 || sent[0].ID != "a" || sent[0].Kind != "pdf" || sent[0].Input != "uploads/a/x.pdf" {
		t.Errorf("published %+v, want the job as it was", sent)
	}
	// Its message may be one that could not be published.
	if j, err := r.fleet.Retry(t.Context(), "a"); err != nil || j.Status != jobs.Queued || len(sent) != 2 {
		t.Errorf("of a queued job: %+v, %v, published %d", j, err, len(sent))
	}
	c := r.claim(sent[0])
	if _, err := r.fleet.Retry(t.Context(), "a"); !errors.Is(err, jobapi.ErrNotFailed) {
		t.Errorf("of a running job: %v, want ErrNotFailed", err)
	}
	r.finish(c, jobs.Outcome{State: jobs.Succeeded, Result: jobs.Result{Object: "results/a/result.json"}})
	if _, err := r.fleet.Retry(t.Context(), "a"); !errors.Is(err, jobapi.ErrNotFailed) || len(sent) != 2 {
		t.Errorf("of a job that has succeeded: %v, want ErrNotFailed; published %d", err, len(sent))
	}
	// A message that cannot be published leaves a job that is recorded as queued, for the
	// workers' repair.
	r.finish(r.claim(r.submit("b")), jobs.Outcome{State: jobs.Failed, Reason: "no luck"})
	fails = jobs.ErrUnavailable
	if _, err := r.fleet.Retry(t.Context(), "b"); !isRefused(err, jobapi.CodeUnavailable) || !strings.Contains(err.Error(), "recorded as queued") {
		t.Errorf("without a queue: %v", err)
	}
	r.want("b", r.summaryOfQueued())
	fails = nil
	if _, err := r.fleet.Retry(t.Context(), "b"); err != nil || sent[len(sent)-1].ID != "b" {
		t.Errorf("again: %v, published %+v", err, sent)
	}
}

func TestK14RetryPublishesTheParameters(t *testing.T) {
	r := newFleetRig(t)
	var sent jobs.Job
	r.fleet.Publish = func(_ context.Context, job jobs.Job) (string, error) {
		sent = job
		return "1", nil
	}
	job := jobs.Job{ID: "a", Kind: "thumbnail", Inputs: []string{"x", "y"}, Payload: `{"dpi": 60}`, Submitted: time.Now()}
	if _, err := r.st.Submit(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	for range 2 { // what is queued again keeps them
		r.finish(r.claim(jobs.Job{ID: "a", Kind: "thumbnail"}), jobs.Outcome{State: jobs.Failed, Reason: "no luck"})
		if _, err := r.fleet.Retry(t.Context(), "a"); err != nil || sent.Payload != job.Payload || fmt.Sprint(sent.Inputs) != "[x y]" {
			t.Errorf("published %+v, %v; want it with its parameters", sent, err)
		}
	}
	r.finish(r.claim(sent), jobs.Outcome{State: jobs.Failed, Reason: "no luck"})
	r.rdb.Del(t.Context(), "{job:a}:params")
	sent = jobs.Job{}
	if _, err := r.fleet.Retry(t.Context(), "a"); !isRefused(err, jobapi.CodePrecondition) || sent.ID != "" {
		t.Errorf("without its parameters: %v, published %+v; want a refusal", err, sent)
	}
}

// summaryOfQueued is how a job is shown that was just submitted.
func (r *fleetRig) summaryOfQueued() string {
	r.Helper()
	r.submit("fresh")
	return jobapitest.Summary(r.get("fresh"))
}
