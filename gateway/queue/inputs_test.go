package queue_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/jobs"
)

// several is the payload of a job with several inputs.
const several = `{"input":["uploads/a","uploads/b"],"params":{}}`

func (r *rig) submitPayload(kind jobs.Kind, payload string, ids ...jobs.ID) {
	r.Helper()
	for _, id := range ids {
		must(r.SubmitJob(r.ctx(), queue.Submission{ID: id, Kind: kind, Payload: []byte(payload)}))(r)
	}
}

func TestK05AJobWithSeveralInputsIsForWorkersThatKnowThem(t *testing.T) {
	onBoth(t, func(r *rig) {
		lease := func(inputs bool, kinds ...jobs.Kind) queue.Grant {
			r.Helper()
			return must(r.Lease(r.ctx(), w1, queue.LeaseRequest{Renews: true, Inputs: inputs, Kinds: kinds}))(r)
		}
		var ids []jobs.ID
		for i := range 40 { // more than one call passes over
			ids = append(ids, jobs.ID(fmt.Sprintf("s%02d", i)))
		}
		r.submitPayload("thumbnail", several, ids...)
		r.submitPayload("thumbnail", `{"params":{},"input":"uploads/a"}`, "one")
		r.submitPayload("wordcount", `{"params":{}}`, "w")
		if g := lease(false, "thumbnail", "wordcount"); g.Job != "w" {
			r.Errorf("leased %q, want the job of the other kind", g.Job)
		}
		for call, want := range []jobs.ID{"", "one"} { // a call looks at 32, however many there are, and the next goes on behind them
			if g := lease(false, "thumbnail"); g.Job != want {
				r.Fatalf("call %d leased %q, want %q", call, g.Job, want)
			}
		}
		if g := lease(false, "thumbnail"); g.Job != "" {
			r.Errorf("leased %q, want nothing", g.Job)
		}
		r.sound()
		var got []jobs.ID
		for range ids {
			g := lease(true, "thumbnail")
			got = append(got, g.Job)
			if g.Payload != several {
				r.Errorf("the payload of %s is %s", g.Job, g.Payload)
			}
		}
		if slices.Sort(got); !slices.Equal(got, ids) {
			r.Errorf("leased %v, want each once", got)
		}
		r.sound()
	})
}

func TestK05AJobWithSeveralInputsStaysOneWhenItRunsAgain(t *testing.T) {
	onBoth(t, func(r *rig) {
		r.submitPayload("thumbnail", several, "s")
		req := queue.LeaseRequest{Renews: true, Inputs: true, Kinds: []jobs.Kind{"thumbnail"}}
		g := must(r.Lease(r.ctx(), w1, req))(r)
		must(r.Queue.Fail(r.ctx(), as("thumbnail"), g.Job, g.LeaseID, queue.Failure{Code: "X", Message: "y", RetryPolicy: queue.ReturnUncounted}))(r)
		if g := r.leaseOf("thumbnail"); g.Job != "" {
			r.Errorf("leased %q to a worker that knows no such jobs", g.Job)
		}
		if g := must(r.Lease(r.ctx(), w1, req))(r); g.Job != "s" {
			r.Errorf("leased %q, want s", g.Job)
		}
	})
}

func TestK05CallsOfOneScriptGetWhatIsFitForThem(t *testing.T) {
	r := newRig(t)
	r.submitPayload("thumbnail", several, "s1", "s2", "s3")
	r.submitPayload("thumbnail", `{"params":{}}`, "p1", "p2")
	grants, _, err := r.LeaseJobs(r.ctx(), w2, queue.LeaseRequest{Renews: true, Kinds: []jobs.Kind{"thumbnail"}}, 5)
	if err != nil || len(grants) != 2 || grants[0].Job != "p1" || grants[1].Job != "p2" {
		t.Errorf("leased %+v, %v; want p1 and p2", grants, err)
	}
	grants, _, err = r.LeaseJobs(r.ctx(), w1, queue.LeaseRequest{Renews: true, Inputs: true, Kinds: []jobs.Kind{"thumbnail"}}, 5)
	if err != nil || len(grants) != 3 {
		t.Errorf("leased %+v, %v; want the three others", grants, err)
	}
	r.sound()
}

func TestK17PayloadsOfKindZPEMayBeginAsTheyLike(t *testing.T) {
	r := newRig(t)
	must(r.Submit(r.ctx(), "z", []byte(several), ""))(r)
	r.lease(w1, "z")
}

func TestK05EachUploadOfAJobIsKeptOrNothingIsQueued(t *testing.T) {
	onBoth(t, func(r *rig) {
		for _, name := range []string{"a", "b"} {
			if err := r.AddUpload(r.ctx(), queue.Upload{Name: name, Size: 1, SHA256: "x"}); err != nil {
				r.Fatal(err)
			}
		}
		s := queue.Submission{ID: "s", Kind: "thumbnail", Payload: []byte(several), Uploads: []string{"a", "gone", "b"}}
		if _, err := r.SubmitJob(r.ctx(), s); !errors.Is(err, queue.ErrNoUpload) {
			r.Errorf("submitted: %v, want %v", err, queue.ErrNoUpload)
		}
		r.is("0", "EXISTS", "zpe:status:s", "zpe:payload:s", "zpe:queue:thumbnail")
		r.is("0", "HEXISTS", "zpe:upload:a", "job:s")
		s.Uploads = []string{"a", "b", "a"}
		must(r.SubmitJob(r.ctx(), s))(r)
		for _, name := range []string{"a", "b"} {
			r.is("1", "HEXISTS", "zpe:upload:"+name, "job:s")
			r.keepsFor("zpe:upload:"+name, 2*r.ResultTTL)
		}
		found := must(r.Uploads(r.ctx(), "b", "gone", "a"))(r)
		if len(found) != 3 || found[0].Name != "b" || found[1].Name != "" || found[2].Name != "a" {
			r.Errorf("found %+v", found)
		}
	})
}
