package provider_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/gateway/provider"
	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobapi/jobapitest"
	"github.com/batchfleet/batchfleet/jobs"
)

func (r *zpeRig) submitKind(kind jobs.Kind, id jobs.ID) {
	r.Helper()
	if _, err := r.q.SubmitJob(r.Context(), queue.Submission{ID: id, Kind: kind, Payload: []byte(`{"params":{"secret":"payload-canary"}}`)}); err != nil {
		r.Fatal(err)
	}
}

func (r *zpeRig) leaseKind(kind jobs.Kind) (queue.Caller, queue.Grant) {
	r.Helper()
	g, err := r.q.Lease(r.Context(), lab, queue.LeaseRequest{Renews: true, Kinds: []jobs.Kind{kind}})
	if err != nil || g.Job == "" {
		r.Fatalf("leased %+v, %v", g, err)
	}
	return queue.Caller{Worker: lab.Worker, Kind: kind}, g
}

func listed(t *testing.T, p jobapi.Jobs, q jobapi.Query) (ids []string) {
	t.Helper()
	q.Limit = 10
	page, err := p.List(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range page.Items {
		ids = append(ids, j.Scope+"/"+j.Type+"/"+j.ID)
	}
	slices.Sort(ids)
	return ids
}

func TestK17JobsOfOtherKindsAreAScopeOfTheirOwn(t *testing.T) {
	r := newZPERig(t)
	var woken []jobs.Kind
	others := &provider.ZPE{
		Queue: r.q, Others: true, Stop: r.q.Cancel, QueuedKind: func(kind jobs.Kind) { woken = append(woken, kind) },
		OpenFile: func(_ context.Context, id jobs.ID, lease, name string) (io.ReadCloser, error) {
			if lease == "" {
				return nil, fs.ErrNotExist
			}
			return io.NopCloser(strings.NewReader(string(id) + " " + name)), nil
		},
	}
	r.submit("z1")
	r.submitKind("thumbnail", "t1")
	r.submitKind("wordcount", "c1")
	r.submitKind("wordcount", "c2")
	for _, tt := range []struct {
		of   jobapi.Jobs
		q    jobapi.Query
		want []string
	}{
		{r.zpe, jobapi.Query{}, []string{"zpe/zpe.calc/z1"}},
		{others, jobapi.Query{}, []string{"gateway/gateway.thumbnail/t1", "gateway/gateway.wordcount/c1", "gateway/gateway.wordcount/c2"}},
		{others, jobapi.Query{Type: "gateway.thumbnail"}, []string{"gateway/gateway.thumbnail/t1"}},
		{others, jobapi.Query{Type: "zpe.calc"}, nil},
		{r.zpe, jobapi.Query{Type: "gateway.thumbnail"}, nil},
	} {
		if got := listed(t, tt.of, tt.q); !slices.Equal(got, tt.want) {
			t.Errorf("%+v: listed %v, want %v", tt.q, got, tt.want)
		}
	}
	// Neither scope knows the jobs of the other.
	for _, tt := range []struct {
		of *provider.ZPE
		id string
	}{{r.zpe, "t1"}, {others, "z1"}, {others, "unknown"}} {
		if got, err := tt.of.Get(t.Context(), []string{tt.id}); err != nil || len(got) > 0 {
			t.Errorf("get %s: %v, %v", tt.id, got, err)
		}
		_, cancelErr := tt.of.Cancel(t.Context(), tt.id)
		_, logErr := tt.of.Log(t.Context(), tt.id, jobapi.LogQuery{Tail: 10})
		_, retryErr := tt.of.Retry(t.Context(), tt.id)
		_, artifactsErr := tt.of.Artifacts(t.Context(), tt.id)
		_, _, openErr := tt.of.OpenArtifact(t.Context(), tt.id, "result.json")
		for what, err := range map[string]error{"cancel": cancelErr, "log": logErr, "retry": retryErr, "artifacts": artifactsErr, "open": openErr} {
			if !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s %s: %v, want that there is no such job", what, tt.id, err)
			}
		}
	}
	one := func(id string) jobapi.Job {
		t.Helper()
		got, err := others.Get(t.Context(), []string{id})
		if err != nil || len(got) != 1 {
			t.Fatalf("get %s: %v, %v", id, got, err)
		}
		jobapitest.Check(t, got[0])
		return got[0]
	}
	// One finishes, with an artifact.
	caller, g := r.leaseKind("thumbnail")
	if j := one("t1"); j.Status != jobs.Running {
		t.Errorf("it is %+v", j)
	}
	page := queue.Artifact{Name: "page.png", Size: 11, SHA256: strings.Repeat("0", 64), Type: "image/png"}
	if err := r.q.AddArtifact(t.Context(), caller, g.Job, g.LeaseID, page); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.q.Finish(t.Context(), caller, g.Job, g.LeaseID, queue.Result{JSON: `{"a":1}`, Artifacts: []queue.Artifact{page}}); err != nil {
		t.Fatal(err)
	}
	if j := one("t1"); j.Status != jobs.Succeeded || !strings.Contains(string(j.Result), `"/calc/thumbnail/jobs/t1/artifacts"`) || strings.Contains(string(j.Request), "canary") {
		t.Errorf("it is %s %s %s", j.Status, j.Result, j.Request)
	}
	list, err := others.Artifacts(t.Context(), "t1")
	want := []jobapi.Artifact{{Name: "page.png", MediaType: "image/png", Bytes: 11, SHA256: page.SHA256}, {Name: "result.json", MediaType: "application/json", Bytes: 7}}
	if err != nil || !slices.Equal(list, want) {
		t.Errorf("artifacts %+v, %v; want %+v", list, err, want)
	}
	for name, want := range map[string]string{"page.png": "t1 page.png", "result.json": `{"a":1}`} {
		content, _, err := others.OpenArtifact(t.Context(), "t1", name)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got, err := io.ReadAll(content); err != nil || string(got) != want {
			t.Errorf("%s is %q, %v; want %q", name, got, err, want)
		}
	}
	if _, _, err := others.OpenArtifact(t.Context(), "t1", "else"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an artifact that there is not: %v", err)
	}
	// One fails, and is retried.
	caller, g = r.leaseKind("wordcount")
	if _, err := r.q.Fail(t.Context(), caller, g.Job, g.LeaseID, queue.Failure{Code: "EXIT_3", Message: "exit 3", RetryPolicy: queue.RetryByKind}); err != nil {
		t.Fatal(err)
	}
	if j := one("c1"); j.Status != jobs.Failed || j.Error == nil || j.Error.Code != "EXIT_3" {
		t.Errorf("it is %+v", j)
	}
	if j, err := others.Retry(t.Context(), "c1"); err != nil || j.Status != jobs.Queued || !slices.Equal(woken, []jobs.Kind{"wordcount"}) {
		t.Errorf("retried: %+v, %v; woken %v", j, err, woken)
	}
	if j, err := others.Cancel(t.Context(), "c2"); err != nil || j.Status != jobs.Canceled {
		t.Errorf("canceled: %+v, %v", j, err)
	}
	log, err := others.Log(t.Context(), "c1", jobapi.LogQuery{Tail: 10})
	if err != nil || len(log.Lines) == 0 {
		t.Errorf("its log is %+v, %v", log, err)
	}
}

func TestK17J07J08J10J11J14J15J27J28OtherKindsKeepTheContract(t *testing.T) {
	jobapitest.Jobs(t, func(t *testing.T) jobapitest.Rig {
		r := newZPERig(t)
		caller := queue.Caller{Worker: lab.Worker, Kind: "thumbnail"}
		leases := map[string]queue.Grant{}
		n := 0
		return jobapitest.Rig{
			Jobs: &provider.ZPE{Queue: r.q, Others: true, Stop: r.q.Cancel}, Type: "gateway.thumbnail",
			Submit: func(text string) string {
				id := fmt.Sprintf("j%03d", n)
				n++
				s := queue.Submission{ID: jobs.ID(id), Kind: "thumbnail", Payload: fmt.Appendf(nil, `{"params":{%q:1}}`, text)}
				if _, err := r.q.SubmitJob(t.Context(), s); err != nil {
					t.Fatal(err)
				}
				r.pass(time.Second)
				return id
			},
			Start: func(string) {
				_, g := r.leaseKind("thumbnail")
				leases[string(g.Job)] = g
				r.pass(time.Second)
			},
			Report: func(id, text string) {
				if _, err := r.q.Extend(t.Context(), caller, jobs.ID(id), leases[id].LeaseID, queue.Beat{Message: text, Done: 1, Total: 2}); err != nil {
					t.Fatal(err)
				}
				r.pass(time.Second)
			},
			End: func(id string, status jobs.State, text string) {
				var err error
				switch g := leases[id]; status {
				case jobs.Succeeded:
					_, _, err = r.q.Finish(t.Context(), caller, g.Job, g.LeaseID, queue.Result{JSON: "{}", Meta: "{}"})
				case jobs.Canceled: // a job that is to be canceled has no retry
					_, err = r.q.Fail(t.Context(), caller, g.Job, g.LeaseID, queue.Failure{Code: "EXIT_3", Message: text, RetryPolicy: queue.Retry})
				default:
					_, err = r.q.Fail(t.Context(), caller, g.Job, g.LeaseID, queue.Failure{Code: "EXIT_3", Message: text, RetryPolicy: queue.RetryByKind})
				}
				if err != nil {
					t.Fatal(err)
				}
				r.pass(time.Second)
			},
		}
	})
}

func TestK17TheLogHasWhatAJobHasWritten(t *testing.T) {
	r := newZPERig(t)
	others := &provider.ZPE{Queue: r.q, Others: true, Stop: r.q.Cancel}
	r.submitKind("thumbnail", "t1")
	caller, g := r.leaseKind("thumbnail")
	n := 0
	write := func(lines ...string) {
		t.Helper()
		r.pass(time.Second)
		_, err := r.q.Extend(t.Context(), caller, g.Job, g.LeaseID, queue.Beat{Message: "at work", Done: 1, Total: 2})
		if err := errors.Join(err, r.write(caller, g, n, lines)); err != nil {
			t.Fatal(err)
		}
		n += len(lines)
	}
	read := func(q jobapi.LogQuery) (lines []string, last string) {
		t.Helper()
		log, err := others.Log(t.Context(), "t1", q)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range log.Lines {
			lines, last = append(lines, l.Text), l.Pos
		}
		return lines, last
	}
	write("first", "password=hunter2hunter2")
	before := []string{"submitted", "attempt 1: leased by lab-1", "first", "password=[redacted]"}
	got, last := read(jobapi.LogQuery{Tail: 10})
	if !slices.Equal(got, before) {
		t.Errorf("the log is %q, want %q", got, before)
	}
	write("second")
	if got, _ := read(jobapi.LogQuery{Tail: 10, After: last}); !slices.Equal(got, []string{"second"}) {
		t.Errorf("what has come since is %q", got)
	}
	if _, err := r.q.Fail(t.Context(), caller, g.Job, g.LeaseID, queue.Failure{Code: "EXIT_3", Message: "exit 3: no", RetryPolicy: queue.Final}); err != nil {
		t.Fatal(err)
	}
	if got, _ := read(jobapi.LogQuery{Tail: 3}); !slices.Equal(got, []string{"password=[redacted]", "second", "failed EXIT_3: exit 3: no"}) {
		t.Errorf("the log ends with %q", got)
	}
}

func TestK17TheLogSaysHowManyLinesItLacks(t *testing.T) {
	r := newZPERig(t)
	others := &provider.ZPE{Queue: r.q, Others: true, Stop: r.q.Cancel}
	r.submitKind("thumbnail", "t1")
	caller, g := r.leaseKind("thumbnail")
	for i := range 10 {
		lines := slices.Repeat([]string{fmt.Sprint(i)}, 100)
		if err := r.write(caller, g, 100*i, lines); err != nil {
			t.Fatal(err)
		}
	}
	log, err := others.Log(t.Context(), "t1", jobapi.LogQuery{Tail: 1000})
	if err != nil || len(log.Lines) != 303 || log.Lines[2].Text != "… 700 lines left out" || log.Lines[3].Text != "7" {
		t.Errorf("the log has %d lines (%v): %+v", len(log.Lines), err, log.Lines[:min(5, len(log.Lines))])
	}
}

// write adds lines to the log of a job.
func (r *zpeRig) write(c queue.Caller, g queue.Grant, before int, lines []string) error {
	return r.q.Write(r.Context(), c, []queue.LogOf{{Job: g.Job, Lease: g.LeaseID, Log: queue.Log{Before: before, Lines: lines}}})[0]
}
