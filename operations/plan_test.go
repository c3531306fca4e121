package operations

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobapi/engine"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/pubsub"
)

func TestJ23DryRunHasNoSideEffects(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	all := map[string]string{
		"start": `{"dryRun":true}`, "drain": `{"dryRun":true}`, "fsck": `{"dryRun":true,"repair":true}`,
		"submit-batch": `{"dryRun":true,"objects":["uploads/a.pdf","uploads/missing.pdf"]}`, "redrive": `{"dryRun":true}`,
		"purge": `{"dryRun":true,"olderThanDays":1}`,
	}
	plans := func(when string) {
		before := r.world()
		for op, body := range all {
			for _, line := range r.plan(op, body) {
				t.Logf("%s: %s: %s", when, op, line)
				if strings.Contains(line, "error") {
					t.Errorf("%s: %s: %s", when, op, line)
				}
			}
			if after := r.world(); after != before {
				t.Fatalf("%s: the plan of %s has changed\n%s\nto\n%s", when, op, before, after)
			}
		}
	}
	plans("empty")
	r.put("uploads/a.pdf", 0)
	r.put("results/old/result.json", 48*time.Hour)
	r.put("probes/job_left", 48*time.Hour)
	if j := r.do("start", `{}`); j.err != nil {
		t.Fatal(j.err)
	}
	if _, err := r.Queue.Submit(t.Context(), "z1", []byte(`{}`), ""); err != nil {
		t.Fatal(err)
	}
	if err := pubsub.Submit(t.Context(), r.Status, r.Publish.Publish, jobs.Job{ID: "f1", Input: "uploads/a.pdf"}, 0); err != nil {
		t.Fatal(err)
	}
	r.put("results/old/result.json", 48*time.Hour)
	plans("started")
	if j := r.do("drain", `{}`); j.err != nil {
		t.Fatal(j.err)
	}
	plans("drained")
}

func TestJPlansSayWhatIsThere(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.wantLines(r.plan("start", `{"dryRun":true}`),
		"redis run: see that Redis answers and takes writes", "topic run: create the topics that are missing",
		"subscription run: create the subscriptions that are missing", "storage run: write, read back and delete an object",
		"queue run: note in Redis which queues the fleet has", "leasing skip: workers may lease jobs already")
	batch := func(names string) []string { return r.plan("submit-batch", `{"dryRun":true,"objects":[`+names+`]}`) }
	r.put("uploads/a.pdf", 0)
	r.wantLines(batch(`"uploads/a.pdf"`), "check run: 1 object is there", "publish run: queue a job for each of 1 object", "wait run: wait until all jobs have ended")
	if got := batch(`"uploads/a.pdf","b","c"`)[0]; got != `check run: 2 of 3 objects are not there, so nothing is queued: objects[1] "b", objects[2] "c"` {
		t.Error(got)
	}
	if err := os.Remove(filepath.Join(r.dir, "uploads/a.pdf")); err != nil {
		t.Fatal(err)
	}
	r.put("results/a/result.json", 48*time.Hour)
	r.put("results/a/pages.jsonl", 48*time.Hour)
	r.put("results/b/result.json", 48*time.Hour)
	r.wantLines(r.plan("purge", `{"dryRun":true,"olderThanDays":1}`), "delete run: would delete 2 results, 3 objects, 96 bytes")
	r.wantLines(r.plan("purge", `{"dryRun":true,"olderThanDays":3}`), "delete skip: no results to delete are older than 3 days")
	if got := r.plan("purge", `{"dryRun":true,"olderThanDays":1,"limit":1}`); !strings.HasPrefix(got[0], "delete run: would delete 1 result, ") {
		t.Errorf("%q, want one of the two", got)
	}
}

func TestJWhatIsNotSetUp(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Deps = Deps{Queue: r.Queue, Batch: r.Batch} // a gateway alone
	if j := r.do("start", `{}`); j.err != nil {
		t.Error(j.err)
	} else {
		r.wantLines(j.lines, "redis succeeded: Redis answers and takes writes", "topic skipped: "+noPubSub, "subscription skipped: "+noPubSub,
			"storage skipped: "+noStorage, "queue skipped: "+noFleet, "leasing skipped: workers may lease jobs already")
	}
	if j := r.do("fsck", `{}`); j.err != nil || !strings.HasPrefix(j.lines[1], "fleet skipped: "+noFleet) {
		t.Errorf("%q, %v", j.lines, j.err)
	}
	if j := r.do("drain", `{}`); j.err != nil || !strings.Contains(j.text(), `"fleet":null,"gateway":0`) {
		t.Errorf("%q, %v: %s", j.lines, j.err, j.text())
	}
	for op, body := range map[string]string{"submit-batch": `{"objects":["a"]}`, "redrive": `{}`, "purge": `{"olderThanDays":1}`} {
		_, err := r.request(op, body)
		if refusal := (*jobapi.Refusal)(nil); !errors.As(err, &refusal) || refusal.Status != 409 || refusal.Code != jobapi.CodePrecondition || !strings.Contains(refusal.Message, "set GCP_PROJECT_ID") {
			t.Errorf("%s: %v, want FAILED_PRECONDITION and what to set first", op, err)
		}
	}
}

// A fleet that only reads the dead letters of another names no topic.
func TestJStartMakesNoSubscriptionWithoutATopic(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Names.Priority, r.Names.Dead.Topic = Queue{}, ""
	j := r.do("start", `{}`)
	if j.err != nil || j.lines[1] != "topic succeeded: created "+testNames.Jobs.Topic || j.lines[2] != "subscription succeeded: created "+testNames.Jobs.Subscription {
		t.Errorf("%q, %v", j.lines, j.err)
	}
}

func TestJ22LimitsOfFields(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	many := func(n int) string { return `["` + strings.Repeat(`a","`, n-1) + `a"]` }
	tests := []struct{ op, body, field string }{
		{"start", `{}`, ""},
		{"drain", `{"pollIntervalMs":200}`, ""},
		{"drain", `{"pollIntervalMs":60000}`, ""},
		{"drain", `{"pollIntervalMs":199}`, "pollIntervalMs"},
		{"drain", `{"pollIntervalMs":0}`, "pollIntervalMs"},
		{"drain", `{"pollIntervalMs":-1}`, "pollIntervalMs"},
		{"drain", `{"pollIntervalMs":60001}`, "pollIntervalMs"},
		{"drain", `{"pollIntervalMs":9223372036854775807}`, "pollIntervalMs"},
		{"submit-batch", `{"objects":["a"],"pollIntervalMs":199}`, "pollIntervalMs"},
		{"submit-batch", `{}`, "objects"},
		{"submit-batch", `{"objects":[]}`, "objects"},
		{"submit-batch", `{"objects":` + many(1000) + `}`, ""},
		{"submit-batch", `{"objects":` + many(1001) + `}`, "objects"},
		{"submit-batch", `{"objects":["a","../b"]}`, "objects[1]"},
		{"submit-batch", `{"objects":["gs://bucket/a"]}`, "objects[0]"},
		{"submit-batch", `{"objects":[""]}`, "objects[0]"},
		{"submit-batch", `{"objects":["a"],"kind":"PDF"}`, "kind"},
		{"submit-batch", `{"objects":["a"],"kind":"mock"}`, ""},
		{"submit-batch", `{"objects":["a"],"ratePerSecond":0.1}`, ""},
		{"submit-batch", `{"objects":["a"],"ratePerSecond":0.09}`, "ratePerSecond"},
		{"submit-batch", `{"objects":["a"],"ratePerSecond":1000.1}`, "ratePerSecond"},
		{"submit-batch", `{"objects":["a"],"ratePerSecond":0}`, "ratePerSecond"},
		{"submit-batch", `{"objects":["a"],"concurrency":20}`, ""},
		{"submit-batch", `{"objects":["a"],"concurrency":21}`, "concurrency"},
		{"submit-batch", `{"objects":["a"],"concurrency":0}`, "concurrency"},
		{"redrive", `{}`, ""},
		{"redrive", `{"count":0,"ratePerSecond":0.01,"stopAfter":0}`, ""},
		{"submit-batch", `{"objects":["a"],"kind":""}`, ""},
		{"submit-batch", `{"objects":["a"],"kind":"k` + strings.Repeat("-", 31) + `"}`, ""},
		{"submit-batch", `{"objects":["a"],"kind":"k` + strings.Repeat("-", 32) + `"}`, "kind"},
		{"redrive", `{"count":10000,"stopAfter":10000,"reason":"` + strings.Repeat("r", 1024) + `"}`, ""},
		{"redrive", `{"count":10001}`, "count"},
		{"redrive", `{"stopAfter":10001}`, "stopAfter"},
		{"redrive", `{"count":-1}`, "count"},
		{"redrive", `{"ratePerSecond":0.001}`, "ratePerSecond"},
		{"redrive", `{"stopAfter":-1}`, "stopAfter"},
		{"redrive", `{"reason":"` + strings.Repeat("r", 1025) + `"}`, "reason"},
		{"purge", `{}`, "olderThanDays"},
		{"purge", `{"olderThanDays":0}`, "olderThanDays"},
		{"purge", `{"olderThanDays":3650}`, ""},
		{"purge", `{"olderThanDays":3651}`, "olderThanDays"},
		{"purge", `{"olderThanDays":1,"limit":0}`, "limit"},
		{"purge", `{"olderThanDays":1,"limit":1000000}`, ""},
		{"purge", `{"olderThanDays":1,"limit":1000001}`, "limit"},
	}
	for _, tt := range tests {
		_, err := r.request(tt.op, tt.body)
		field := (*jobapi.FieldError)(nil)
		switch {
		case tt.field == "" && err != nil:
			t.Errorf("%s %.80s: %v", tt.op, tt.body, err)
		case tt.field != "" && (!errors.As(err, &field) || field.Field != tt.field):
			t.Errorf("%s %.80s: %v, want a mistake in %s", tt.op, tt.body, err, tt.field)
		}
	}
}

func TestJ27EchoShowsNoNames(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const canary = "canary-s3cret"
	for op, body := range map[string]string{
		"start": `{}`, "drain": `{}`, "fsck": `{}`, "purge": `{"olderThanDays":1}`,
		"submit-batch": `{"objects":["uploads/` + canary + `.pdf"],"kind":"` + canary + `"}`,
		"redrive":      `{"reason":"` + canary + `"}`,
	} {
		req := r.good(op, body)
		for _, more := range []string{"", `"timeoutMs":5000`} {
			if more != "" {
				ms := int64(5000)
				req.Common().TimeoutMs = &ms
			}
			b, err := json.Marshal(req.Echo())
			if err != nil || b[0] != '{' || strings.Contains(string(b), canary) || !strings.Contains(string(b), more) {
				t.Errorf("echo of %s: %s, %v", op, b, err)
			}
		}
	}
	b, _ := json.Marshal(r.good("submit-batch", `{"objects":["a","b"],"kind":"mock"}`).Echo())
	if want := `{"objectCount":2,"kind":"mock","ratePerSecond":10,"concurrency":4,"pollIntervalMs":1000}`; string(b) != want {
		t.Errorf("echo %s, want %s", b, want)
	}
}

func TestJOperationsAreThoseOfTheContract(t *testing.T) {
	t.Parallel()
	var got []string
	for _, o := range append(System(Deps{}), Utils(Deps{})...) {
		got = append(got, fmt.Sprint(o.Name, o.Load))
		if o.New() == o.New() {
			t.Errorf("%s: a request is not its own", o.Name)
		}
	}
	if want := "[startfalse drainfalse fsckfalse submit-batchtrue redrivefalse purgefalse]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
}

// TestJOperationsInTheEngine runs and plans each operation as a server does.
func TestJOperationsInTheEngine(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.put("uploads/canary-token=s3cretvalue.pdf", 0)
	r.put("results/a/result.json", 48*time.Hour)
	for scope, offers := range map[string][]engine.Operation{"system": System(r.Deps), "utils": Utils(r.Deps)} {
		e := &engine.Engine{Scope: scope, Supported: offers, Limits: engine.Limits{Exclusive: scope == "system"}}
		t.Cleanup(func() { _ = e.Close(context.WithoutCancel(t.Context())) })
		if scope == "utils" {
			r.withQueues()
		}
		for _, op := range e.Operations() {
			body := map[string]string{
				"submit-batch": `{"objects":["uploads/canary-token=s3cretvalue.pdf","uploads/none.pdf"]}`, "purge": `{"olderThanDays":1}`,
			}[op]
			ask := func(dry bool) jobapi.Request {
				req := e.NewRequest(op)
				if body != "" {
					if err := json.Unmarshal([]byte(body), req); err != nil {
						t.Fatal(err)
					}
				}
				req.Common().DryRun = dry
				if err := req.Check(); err != nil {
					t.Fatal(err)
				}
				switch req := req.(type) {
				case *drain:
					req.notice = 0
				case *redrive:
					req.timeout = time.Minute // see noneLeft
				}
				return req
			}
			plan, err := e.Plan(t.Context(), op, ask(true))
			if err != nil || len(plan) == 0 || op == "purge" && plan[0].Reason != "would delete 1 result, 1 object, 32 bytes" {
				t.Errorf("plan of %s: %+v, %v", op, plan, err)
			}
			job, err := e.Create(t.Context(), op, ask(false))
			if err != nil {
				t.Fatal(err)
			}
			for changed := e.Changed(); !job.Status.Terminal(); changed = e.Changed() {
				found, err := e.Get(t.Context(), []string{job.ID})
				if err != nil || len(found) != 1 {
					t.Fatal(err)
				}
				if job = found[0]; !job.Status.Terminal() {
					<-changed
				}
			}
			b, err := json.Marshal(job)
			want := jobs.Succeeded
			if op == "submit-batch" {
				want = jobs.Failed // an object is missing
			}
			if err != nil || job.Status != want || strings.Contains(string(b), "canary") || len(job.Steps) != len(plan) {
				t.Errorf("%s: %s, %v", op, b, err)
			}
			t.Logf("%s", b)
		}
	}
}
