package operations

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	cloud "cloud.google.com/go/storage"
	"google.golang.org/api/option"

	"github.com/batchfleet/batchfleet/jobapi/engine"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/storage"
	"github.com/batchfleet/batchfleet/storage/gcs"
)

// silence takes requests and never answers.
type silence struct{}

func (silence) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// checked is a storage that has answered until now.
type checked struct{ storage.Store }

func (checked) Check(context.Context) error { return nil }

func TestJ25StorageThatDoesNotAnswerIsUnavailable(t *testing.T) {
	client, err := cloud.NewClient(t.Context(), option.WithHTTPClient(&http.Client{Transport: silence{}}))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	r := newRig(t)
	r.Storage = checked{gcs.New(client, "fleet")}
	for _, tt := range []struct {
		op, body, step string
		within         time.Duration
	}{
		{"submit-batch", `{"objects":["a.pdf"]}`, "check", callTimeout},
		{"start", `{}`, "storage", probeTimeout + callTimeout},
	} {
		t.Run(tt.op, func(t *testing.T) {
			for _, s := range r.good(tt.op, tt.body).Steps() {
				if s.Name == tt.step {
					synctest.Test(t, func(t *testing.T) { wantAway(t, s, tt.within) })
				}
			}
		})
	}
}

func wantAway(t *testing.T, s engine.Step, within time.Duration) {
	t.Helper()
	begun := time.Now()
	_, err := s.Run(t.Context(), &ran{})
	if took := time.Since(begun); !errors.Is(err, jobs.ErrUnavailable) || took < callTimeout || took > within {
		t.Errorf("%v after %s, want jobs.ErrUnavailable within %s", err, took, within)
	}
	t.Log(err)
}

// slow is a storage that has nothing, and takes its time to say so.
type slow struct{ storage.Store }

func (slow) Stat(ctx context.Context, _ string) (storage.Info, error) {
	if err := jobs.Sleep(ctx, 6*time.Second); err != nil {
		return storage.Info{}, err
	}
	return storage.Info{}, fs.ErrNotExist
}

func TestJ23PlanOfABatchIsNotWaitedForLong(t *testing.T) {
	r := newRig(t)
	r.Storage = slow{}
	step := r.good("submit-batch", `{"dryRun":true,"concurrency":1,"objects":["a","b","c","d"]}`).Steps()[0]
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		got, skip, err := step.AlreadyDone(t.Context())
		if got != "see that 4 objects are there: not all could be asked for in 20s, at least 3 are missing" || skip || err != nil || time.Since(begun) != countTime {
			t.Errorf("%q, %v, %v after %s", got, skip, err, time.Since(begun))
		}
	})
}
