package repair_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/processor/artifact"
)

// own stores the result of a job of somebody's own kind, as a worker does at the end.
func (r *rig) own(id jobs.ID, inputs ...string) {
	r.Helper()
	result := artifact.Result{JobID: id, Kind: "thumbnail", Attempt: 1, Pages: 3}
	for _, name := range inputs {
		result.Inputs = append(result.Inputs, artifact.Input{Name: name})
	}
	if _, err := artifact.Finish(r.Context(), r.Store, result, 0); err != nil {
		r.Fatal(err)
	}
}

func TestF25StoredResultOfPeoplesOwnKindIsRecorded(t *testing.T) {
	for _, tt := range []struct {
		name    string
		job     jobs.Job // as it is on record; without an id for one that is not
		results []string // inputs of the stored result
		want    string
	}{
		{"one input", jobs.Job{ID: "a", Kind: "thumbnail", Input: "uploads/x.pdf", Payload: `{"dpi":60}`}, []string{"uploads/x.pdf"}, "completed"},
		{"several inputs", jobs.Job{ID: "a", Kind: "thumbnail", Inputs: []string{"x", "y"}}, []string{"x", "y"}, "completed"},
		{"no input", jobs.Job{ID: "a", Kind: "thumbnail"}, nil, "completed"},
		{"not on record", jobs.Job{}, []string{"uploads/x.pdf"}, "completed"},
		{"not on record, of several inputs", jobs.Job{}, []string{"x", "y"}, "completed"},
		{"of another input", jobs.Job{ID: "a", Kind: "thumbnail", Input: "uploads/y.pdf"}, []string{"uploads/x.pdf"}, "queued"},
		{"inputs in another order", jobs.Job{ID: "a", Kind: "thumbnail", Inputs: []string{"y", "x"}}, []string{"x", "y"}, "queued"},
		{"of another kind", jobs.Job{ID: "a", Kind: "video", Input: "uploads/x.pdf"}, []string{"uploads/x.pdf"}, "queued"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(r *rig) {
				if tt.job.ID != "" {
					tt.job.Submitted = time.Now()
					if _, err := r.Status.Submit(r.Context(), tt.job); err != nil {
						r.Fatal(err)
					}
				}
				r.own("a", tt.results...)
				const checkpoint = "results/a/checkpoint.tar"
				if err := r.Store.Put(r.Context(), checkpoint, strings.NewReader("x")); err != nil {
					r.Fatal(err)
				}
				time.Sleep(time.Second)
				if _, err := r.round(); err != nil {
					r.Fatal(err)
				}
				r.want("a", tt.want, "")
				published := "[]"
				if tt.want == "queued" {
					published = "[a]"
				}
				if fmt.Sprint(r.published) != published {
					r.Errorf("published %v, want %s", r.published, published)
				}
				_, err := r.Store.Stat(r.Context(), checkpoint)
				if gone := errors.Is(err, fs.ErrNotExist); gone != (tt.want == "completed") {
					r.Errorf("the checkpoint is there: %v, of a job that is %s", !gone, tt.want)
				}
				e, err := r.Status.Get(r.Context(), "a")
				if tt.want == "completed" && (err != nil || e.ResultURL != "results/a/result.json" || e.Detail.Pages != 3 || e.Detail.Kind != "thumbnail") {
					r.Errorf("recorded %+v, %v", e, err)
				}
			})
		})
	}
}
