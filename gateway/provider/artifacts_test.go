package provider_test

import (
	"errors"
	"io"
	"io/fs"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
)

func TestArtifactsAreAsTheWorkerSentThem(t *testing.T) {
	r := newZPERig(t)
	r.submit("good", "waits")
	r.finish(r.lease("good"))
	want := []jobapi.Artifact{
		{Name: "freqs.csv", MediaType: "text/csv; charset=utf-8", Bytes: 1},
		{Name: "result.json", MediaType: "application/json", Bytes: 2},
		{Name: "summary.txt", MediaType: "text/plain; charset=utf-8", Bytes: 1},
	}
	got, err := r.zpe.Artifacts(t.Context(), "good")
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Errorf("%v; want (-) and got (+):\n%s", err, d)
	}
	for name, text := range map[string]string{"freqs.csv": "f", "result.json": "{}", "summary.txt": "s"} {
		content, a, err := r.zpe.OpenArtifact(t.Context(), "good", name)
		if err != nil || a.Name != name {
			t.Fatalf("%s: %+v, %v", name, a, err)
		}
		if got, err := io.ReadAll(content); err != nil || string(got) != text {
			t.Errorf("%s is %q, %v; want %q", name, got, err, text)
		}
	}
	if got, err := r.zpe.Artifacts(t.Context(), "waits"); err != nil || len(got) > 0 {
		t.Errorf("of a queued job: %v, %v; want none", got, err)
	}
	for id, name := range map[string]string{"waits": "result.json", "good": "other.json", "nobody": "result.json"} {
		if _, _, err := r.zpe.OpenArtifact(t.Context(), id, name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("open %s of %s: %v, want ErrNotExist", name, id, err)
		}
	}
	if _, err := r.zpe.Artifacts(t.Context(), "nobody"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of no job: %v, want ErrNotExist", err)
	}
}

func TestRetryQueuesADeadLetterAgain(t *testing.T) {
	r := newZPERig(t)
	woken := 0
	r.zpe.Queued = func() { woken++ }
	r.submit("a", "b", "c")
	for _, id := range []jobs.ID{"a", "b"} {
		r.fail(r.lease(id), queue.Final)
	}
	j, err := r.zpe.Retry(t.Context(), "a")
	if err != nil || j.Status != jobs.Queued || woken != 1 {
		t.Errorf("retried: %+v, %v, woken %d times", j, err, woken)
	}
	for _, id := range []string{"a", "c"} {
		if _, err := r.zpe.Retry(t.Context(), id); !errors.Is(err, jobapi.ErrNotFailed) {
			t.Errorf("of queued job %s: %v, want ErrNotFailed", id, err)
		}
	}
	if _, err := r.zpe.Retry(t.Context(), "nobody"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of no job: %v, want ErrNotExist", err)
	}
	// A dead letter that was dropped has no payload any more.
	if err := r.q.Drop(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.zpe.Retry(t.Context(), "b"); err == nil || errors.Is(err, jobapi.ErrNotFailed) || woken != 1 {
		t.Errorf("of a dropped dead letter: %v, want that it is gone", err)
	}
}
