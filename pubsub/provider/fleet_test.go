package provider_test

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobapi/jobapitest"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/pubsub/provider"
	"github.com/batchfleet/batchfleet/redisdb"
	"github.com/batchfleet/batchfleet/status"
	"github.com/batchfleet/batchfleet/status/redistest"
)

type fleetRig struct {
	*testing.T
	redis *redistest.Server
	rdb   *redis.Client
	st    *status.Store
	fleet *provider.Fleet
	lines map[string]int // of each attempt, by its token
	trips *trips
}

func newFleetRig(t *testing.T) *fleetRig {
	t.Helper()
	r := &fleetRig{T: t, redis: redistest.New(t), lines: map[string]int{}, trips: &trips{}}
	r.rdb = r.redis.Client()
	r.rdb.AddHook(r.trips)
	r.st = status.New(r.rdb)
	r.st.Worker = "w1"
	r.fleet = &provider.Fleet{Status: r.st}
	return r
}

func (r *fleetRig) submit(id jobs.ID) jobs.Job {
	r.Helper()
	job := jobs.Job{ID: id, Kind: "pdf", Input: "uploads/" + string(id) + "/x.pdf", Submitted: time.Now()}
	if _, err := r.st.Submit(r.Context(), job); err != nil {
		r.Fatal(err)
	}
	return job
}

func (r *fleetRig) claim(job jobs.Job) jobs.Claim {
	r.Helper()
	c, err := r.st.Claim(r.Context(), job, time.Minute, jobs.Claim{})
	if err != nil || c.Verdict != jobs.Granted {
		r.Fatalf("claim: %+v, %v", c, err)
	}
	return c
}

func (r *fleetRig) report(c jobs.Claim, done int, step, message string) {
	r.Helper()
	if err := r.st.Report(r.Context(), c, time.Minute, &jobs.Progress{Done: done, Total: 4, Step: step, Message: message}, jobs.Lines{Before: r.lines[c.Token], Text: []string{message}}); err != nil {
		r.Fatal(err)
	}
	r.lines[c.Token]++
}

func (r *fleetRig) finish(c jobs.Claim, o jobs.Outcome) {
	r.Helper()
	if _, err := r.st.Finish(r.Context(), c, o); err != nil {
		r.Fatal(err)
	}
}

func (r *fleetRig) get(id string) jobapi.Job {
	r.Helper()
	found, err := r.fleet.Get(r.Context(), []string{id})
	if err != nil || len(found) != 1 {
		r.Fatalf("get %s: %v, %v", id, found, err)
	}
	j := found[0]
	if text, err := json.Marshal(j); err != nil || !json.Valid(text) {
		r.Errorf("job %s: %s, %v", id, text, err)
	}
	return j
}

func (r *fleetRig) want(id, want string) jobapi.Job {
	r.Helper()
	j := r.get(id)
	if got := jobapitest.Summary(j); got != want {
		r.Errorf("job %s:\n got %s\nwant %s", id, got, want)
	}
	jobapitest.Check(r.T, j)
	return j
}

func TestJ07J08J10J11J14J15J27J28FleetKeepsTheContract(t *testing.T) {
	jobapitest.Jobs(t, func(t *testing.T) jobapitest.Rig {
		r := newFleetRig(t)
		made, claims := map[string]jobs.Job{}, map[string]jobs.Claim{}
		return jobapitest.Rig{
			Jobs: r.fleet, Type: "fleet.pdf",
			Submit: func(text string) string {
				job := jobs.Job{ID: jobs.ID(fmt.Sprintf("j%03d", len(made))), Kind: "pdf", Input: "uploads/" + text, Submitted: time.Now()}
				if _, err := r.st.Submit(t.Context(), job); err != nil {
					t.Fatal(err)
				}
				made[string(job.ID)] = job
				return string(job.ID)
			},
			Start:  func(id string) { claims[id] = r.claim(made[id]) },
			Report: func(id, text string) { r.report(claims[id], 1, "pages", text) },
			End: func(id string, status jobs.State, text string) {
				r.finish(claims[id], jobs.Outcome{State: status, Reason: text, Result: jobs.Result{Object: "results/" + text, Pages: 4}})
			},
		}
	})
}

func TestJ02J03J05FleetJobThroughItsLife(t *testing.T) {
	r := newFleetRig(t)
	job := r.submit("a")
	versions := map[string]bool{}
	seen := func(j jobapi.Job) jobapi.Job {
		if versions[j.Version] || j.Version == "" || len(j.Version) > 32 {
			t.Errorf("version %q of %s is not new", j.Version, jobapitest.Summary(j))
		}
		versions[j.Version] = true
		return j
	}
	j := seen(r.want("a", "queued fetch:pending pages:pending store:pending 0/0/3"))
	if j.Type != "fleet.pdf" || j.Scope != "fleet" || !j.StartedAt.IsZero() || j.CreatedAt.UnixMilli() != job.Submitted.UnixMilli() ||
		string(j.Request) != `{"input":"uploads/a/x.pdf","kind":"pdf"}` || j.Attempt != 0 {
		t.Errorf("%+v", j)
	}
	first := r.claim(job)
	started := "running fetch:running(Processing started...) pages:pending store:pending 1/0/3"
	if j = seen(r.want("a", started)); j.Steps[0].StartedAt != j.StartedAt {
		t.Errorf("its first step began at %v, the job at %v", j.Steps[0].StartedAt, j.StartedAt)
	}
	r.report(first, 0, "fetch", "Processing started...")
	r.want("a", started) // as it was, but for the moment at which the step began
	r.report(first, 1, "pages", "Page 1/4 analyzing...")
	j = seen(r.want("a", "running fetch:succeeded pages:running(Page 1/4 analyzing...) store:pending 2/1/3"))
	if again := r.get("a"); again.Version != j.Version {
		t.Error("the version has changed, the job has not")
	}
	r.report(first, 2, "pages", "Page 2/4 analyzing...")
	if k := seen(r.get("a")); k.Steps[1].StartedAt != j.Steps[1].StartedAt {
		t.Errorf("step pages began at %v, and then at %v", j.Steps[1].StartedAt, k.Steps[1].StartedAt)
	}
	if err := r.st.Release(t.Context(), first, "Worker stopped; waiting for another worker"); err != nil {
		t.Fatal(err)
	}
	j = seen(r.want("a", "queued fetch:pending(Worker stopped; waiting for another worker) pages:pending store:pending 0/0/3"))
	if !j.StartedAt.IsZero() || j.Attempt != 1 {
		t.Errorf("handed back: started %v, attempt %d", j.StartedAt, j.Attempt)
	}
	<-time.After(2 * time.Millisecond) // the server's clock tells the attempts apart
	second := r.claim(job)
	j = seen(r.want("a", started)) // its times are of the first attempt
	if j.Steps[0].StartedAt != j.StartedAt {
		t.Errorf("its first step began at %v, the second attempt at %v", j.Steps[0].StartedAt, j.StartedAt)
	}
	r.report(second, 4, "store", "Page 4/4 analyzing...") // reports are thinned out
	seen(r.want("a", "running fetch:succeeded pages:succeeded store:running(Page 4/4 analyzing...) 3/2/3"))
	r.finish(second, jobs.Outcome{State: jobs.Succeeded, Result: jobs.Result{Object: "results/a/result.json", Pages: 4}})
	j = seen(r.want("a", "succeeded fetch:succeeded pages:succeeded store:succeeded 3/3/3"))
	if string(j.Result) != `{"object":"results/a/result.json","pages":4}` || j.Attempt != 2 || j.Worker != "w1" {
		t.Errorf("%+v", j)
	}
}

func TestK10FleetShowsWhyAJobWaitsAndUntilWhen(t *testing.T) {
	r := newFleetRig(t)
	c := r.claim(r.submit("a"))
	r.report(c, 1, "pages", "Page 1/4 analyzing...")
	o := jobs.Outcome{State: jobs.Failed, Reason: "exit 3: no space", Retry: true, RetryAfter: 10 * time.Minute}
	if _, err := r.st.Retry(t.Context(), c, o); err != nil {
		t.Fatal(err)
	}
	e, err := r.st.Get(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	until := e.Detail.Next.Add(time.Second - 1).UTC().Format(time.RFC3339)
	j := r.want("a", "queued fetch:pending(waits until "+until+": attempt 1 failed: exit 3: no space; next in 10 min) pages:pending store:pending 0/0/3")
	if j.Attempt != 1 || j.Error != nil || !j.StartedAt.IsZero() {
		t.Errorf("%+v", j)
	}
	if _, err := r.fleet.Cancel(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	r.want("a", "canceled fetch:succeeded pages:canceled(Canceled) store:canceled 2/1/3")
}

func TestK07StepsAndResultOfSomebodysOwnKindSpeakOfNoPages(t *testing.T) {
	r := newFleetRig(t)
	job := jobs.Job{ID: "a", Kind: "thumbnail", Input: "uploads/a/x.pdf", Submitted: time.Now()}
	c := r.claim(job)
	r.report(c, 3, "run", "3/4 tiles")
	r.want("a", "running fetch:succeeded run:running(75%: 3/4 tiles) store:pending 2/1/3")
	r.report(c, 4, "run", "100% of the tiles")
	r.want("a", "running fetch:succeeded run:running(100% of the tiles) store:pending 2/1/3")
	r.finish(c, jobs.Outcome{State: jobs.Succeeded, Result: jobs.Result{Object: "results/a/result.json", Files: 2}})
	if j := r.want("a", "succeeded fetch:succeeded run:succeeded store:succeeded 3/3/3"); string(j.Result) != `{"files":2,"object":"results/a/result.json","pages":0}` {
		t.Errorf("result %s", j.Result)
	}
	job.ID, job.Input, job.Inputs = "none", "", []string{"uploads/a", "uploads/b"}
	c = r.claim(job)
	r.want("none", "running fetch:running(Processing started...) run:pending store:pending 1/0/3")
	r.report(c, 1, "run", "1/4 tiles")
	r.want("none", "running fetch:succeeded run:running(25%: 1/4 tiles) store:pending 2/1/3")
	r.finish(c, jobs.Outcome{State: jobs.Succeeded, Result: jobs.Result{Object: "o"}})
	if j := r.get("none"); string(j.Result) != `{"files":0,"object":"o","pages":0}` {
		t.Errorf("result without files %s", j.Result)
	}
}

func TestF76ResultSaysThatTheDocumentIsDamaged(t *testing.T) {
	r := newFleetRig(t)
	r.finish(r.claim(r.submit("a")), jobs.Outcome{State: jobs.Succeeded, Result: jobs.Result{Object: "results/a/result.json", Pages: 4, Damaged: true}})
	r.finish(r.claim(r.submit("b")), jobs.Outcome{State: jobs.Succeeded, Result: jobs.Result{Object: "o", Pages: 9, Damaged: true, DamagedPages: 3}})
	for id, want := range map[string]string{
		"a": `{"damaged":true,"damagedPages":0,"object":"results/a/result.json","pages":4}`,
		"b": `{"damaged":true,"damagedPages":3,"object":"o","pages":9}`,
	} {
		if j := r.get(id); string(j.Result) != want {
			t.Errorf("result of %s: %s, want %s", id, j.Result, want)
		}
	}
}

func TestJ16J24FleetJobsThatEndOtherwise(t *testing.T) {
	r := newFleetRig(t)
	c := r.claim(r.submit("failed"))
	r.report(c, 1, "pages", "Page 1/4 analyzing...")
	r.finish(c, jobs.Outcome{State: jobs.Failed, Reason: "page 2 is broken", Code: "PDF_BROKEN"})
	j := r.want("failed", "failed fetch:succeeded pages:failed(page 2 is broken) store:pending 2/1/3")
	if j.Error == nil || j.Error.Code != "PDF_BROKEN" || j.Error.Message != "page 2 is broken" {
		t.Errorf("error %+v", j.Error)
	}
	for recorded, want := range map[string]string{"": "FAILED", "JOB_TIMEOUT": "TIMEOUT", "JOB_STALLED": "JOB_STALLED", "bad code": "FAILED", "AKIAIOSFODNN7CANARY0": "FAILED"} {
		id := jobs.ID(fmt.Sprintf("code-%x", recorded+"x"))
		r.finish(r.claim(r.submit(id)), jobs.Outcome{State: jobs.Failed, Reason: "r", Code: recorded})
		if j := r.want(string(id), "failed fetch:pending pages:pending store:pending 0/0/3"); j.Error.Code != want {
			t.Errorf("code %q is shown as %q, want %q", recorded, j.Error.Code, want)
		}
	}
	odd := jobs.Job{ID: "odd-kind", Kind: "sk-0123456789canary0123456789", Submitted: time.Now()}
	if _, err := r.st.Submit(t.Context(), odd); err != nil {
		t.Fatal(err)
	}
	if j := r.get("odd-kind"); j.Type != "fleet.unknown" || strings.Contains(string(j.Request), "canary") {
		t.Errorf("a kind that is a secret is shown as %s, %s", j.Type, j.Request)
	}
	c = r.claim(r.submit("canceled"))
	r.report(c, 1, "pages", "Page 1/4 analyzing...")
	r.finish(c, jobs.Outcome{State: jobs.Canceled})
	r.want("canceled", "canceled fetch:succeeded pages:canceled(Canceled) store:canceled 2/1/3")
	r.finish(r.claim(r.submit("earlier")), jobs.Outcome{State: jobs.Succeeded, Result: jobs.Result{Object: "o", Pages: 1}})
	why := "(An earlier attempt has stored the result)"
	r.want("earlier", "succeeded fetch:skipped"+why+" pages:skipped"+why+" store:skipped"+why+" 3/3/3")
	mock := jobs.Job{ID: "mock", Kind: "mock", Pages: 4}
	c = r.claim(mock)
	j = r.want("mock", "running fetch:skipped(The job has no input) pages:running(Processing started...) store:pending 2/1/3")
	if j.Steps[1].StartedAt != j.StartedAt {
		t.Errorf("its first step began at %v, the job at %v", j.Steps[1].StartedAt, j.StartedAt)
	}
	r.report(c, 1, "pages", "Page 1/4 analyzing...")
	j = r.want("mock", "running fetch:skipped(The job has no input) pages:running(Page 1/4 analyzing...) store:pending 2/1/3")
	if string(j.Request) != `{"input":"","kind":"mock","pages":4}` {
		t.Errorf("request %s", j.Request)
	}
}

func TestJ14J15CancelOfFleetJobs(t *testing.T) {
	r := newFleetRig(t)
	ctx := t.Context()
	job := r.submit("queued")
	j, err := r.fleet.Cancel(ctx, "queued")
	if err != nil || j.Status != jobs.Canceled || j.FinishedAt.IsZero() || !j.StartedAt.IsZero() {
		t.Errorf("cancel of a queued job: %+v, %v", j, err)
	}
	r.want("queued", "canceled fetch:canceled pages:canceled store:canceled 0/0/3")
	if c, err := r.st.Claim(ctx, job, time.Minute, jobs.Claim{}); err != nil || c.Verdict != jobs.Ended {
		t.Errorf("a canceled job was started: %+v, %v", c, err)
	}
	c := r.claim(r.submit("running"))
	if j, err = r.fleet.Cancel(ctx, "running"); err != nil || j.Status != jobs.Running {
		t.Errorf("cancel of a running job: %+v, %v", j, err)
	}
	if err := r.st.Report(ctx, c, time.Minute, nil, jobs.Lines{}); !errors.Is(err, jobs.ErrCanceled) {
		t.Errorf("its worker was told %v", err)
	}
}

func TestJ08TypesOfFleetJobs(t *testing.T) {
	r := newFleetRig(t)
	list := func(typ string, want ...string) {
		t.Helper()
		page, err := r.fleet.List(t.Context(), jobapi.Query{Limit: 200, Type: typ})
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, i := range page.Items {
			ids = append(ids, i.ID)
		}
		if !slices.Equal(ids, want) {
			t.Errorf("type %q has %v, want %v", typ, ids, want)
		}
	}
	r.submit("a")
	list("fleet.pdf", "a")
	for _, typ := range []string{"fleet.mock", "fleet.", "zpe.calc", "pdf", "fleet.PDF"} {
		list(typ)
	}
	if _, err := r.st.Submit(t.Context(), jobs.Job{ID: "nokind"}); err != nil {
		t.Fatal(err)
	}
	list("fleet.unknown", "nokind")
	if j := r.get("nokind"); j.Type != "fleet.unknown" {
		t.Errorf("a job without a kind is a %s", j.Type)
	}
	r.claim(jobs.Job{ID: "nokind", Kind: "mock"}) // its worker knows its kind
	list("fleet.mock", "nokind")
}

func TestJ27FleetShowsNoSecrets(t *testing.T) {
	r := newFleetRig(t)
	ctx := t.Context()
	const secret = "hunter2hunter2"
	key := make([]byte, 48*4)
	_, _ = rand.Read(key) // it never fails
	body := base64.StdEncoding.EncodeToString(key)
	r.st.Worker = "w1 token=" + secret
	if err := r.st.Member(status.Worker{}).Pulse(ctx, 0, false, "storage: password="+secret); err != nil {
		t.Fatal(err)
	}
	check := func(id string) {
		t.Helper()
		head, err := r.fleet.List(ctx, jobapi.Query{Limit: 50})
		log, err2 := r.fleet.Log(ctx, id, jobapi.LogQuery{Tail: 200})
		workers, err3 := r.fleet.Workers(ctx)
		text, err4 := json.Marshal([]any{r.get(id), head, log, workers}) //nolint:contextcheck // it takes the test's
		if err := errors.Join(err, err2, err3, err4); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), secret) {
			t.Errorf("job %s is shown with its secrets: %s", id, text)
		}
		for part := range slices.Chunk([]byte(body), 16) {
			if strings.Contains(string(text), string(part)) {
				t.Errorf("job %s is shown with a part of a key: %s", id, part)
			}
		}
	}
	job := func(id jobs.ID) jobs.Claim {
		t.Helper()
		job := jobs.Job{ID: id, Kind: "pdf", Input: "uploads/x.pdf?password=" + secret}
		if _, err := r.st.Submit(ctx, job); err != nil {
			t.Fatal(err)
		}
		check(string(id))
		return r.claim(job) //nolint:contextcheck // it takes the test's
	}
	c := job("a")
	r.report(c, 1, "pages", "password="+secret)
	if err := r.st.Report(ctx, c, time.Minute, nil, jobs.Lines{Before: r.lines[c.Token], Text: []string{
		"-----BEGIN PRIVATE KEY-----", body[:64], body[64:128] + "\n" + body[128:192], body[192:], "-----END PRIVATE KEY-----", // one entry of two lines
		"-----BEGIN PRIVATE KEY-----\n" + body[:128], body[128:] + "\n-----END PRIVATE KEY-----", // all of it in two entries
		strings.Repeat("x ", 35<<10) + "password=" + secret, // longer than what is shown
		strings.Repeat("y ", 32<<10-7) + "password=" + secret,
	}}); err != nil {
		t.Fatal(err)
	}
	check("a")
	log, err := r.fleet.Log(ctx, "a", jobapi.LogQuery{Tail: 200})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range log.Lines {
		if len(l.Text) > 64<<10 {
			t.Errorf("a line of %d bytes is shown, want 64 KiB at most", len(l.Text))
		}
	}
	r.finish(c, jobs.Outcome{State: jobs.Failed, Reason: "cannot use token: " + secret + "; password=" + secret})
	check("a")
	r.finish(job("b"), jobs.Outcome{State: jobs.Succeeded, Result: jobs.Result{Object: "results/x?token=" + secret}})
	check("b")
}

func TestJ07HostileDocumentsAreShownOrLeftOut(t *testing.T) {
	r := newFleetRig(t)
	ctx := t.Context()
	want := map[string]jobs.State{"paused": jobs.Running, "wild": jobs.Failed, "good": jobs.Queued}
	for _, id := range []string{"null", "binary", "number", "huge", "hash", "paused", "wild", "good"} {
		r.submit(jobs.ID(id))
	}
	for id, v := range map[string]string{
		"null": "null", "binary": "\x00\xff", "number": `{"status":7}`, "huge": `{"status":"queued","message":"` + strings.Repeat("x", 4<<20) + `"}`,
		"paused": `{"status":"paused","message":"` + "\xff\\u0000" + `"}`,
		"wild":   `{"status":"failed","progress":1e99,"error_msg":["x"],"updated_at":"yesterday","result_url":{}}`,
	} {
		r.rdb.Set(ctx, "job:"+id, v, 0)
	}
	r.rdb.Del(ctx, "job:hash")
	r.rdb.HSet(ctx, "job:hash", "status", "queued")
	r.rdb.HSet(ctx, "{job:wild}:detail", "kind", "../../x", "attempt", "-9", "started_at", "x", "finished_at", "99999999999999999999", "worker", strings.Repeat("w\xff", 5000), "code", "<script>")
	var ids []string
	page, err := r.fleet.List(ctx, jobapi.Query{Limit: 50})
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range page.Items {
		ids = append(ids, i.ID)
		if i.Status != want[i.ID] || i.CreatedAt.IsZero() || len(i.Worker) > 256 {
			t.Errorf("%+v, want %v", i, want[i.ID])
		}
		if j := r.get(i.ID); j.Status != i.Status || j.Type != i.Type {
			t.Errorf("%+v", j)
		}
	}
	if len(ids) != len(want) {
		t.Errorf("listed %v, want %v", ids, want)
	}
	if found, err := r.fleet.Get(ctx, []string{"huge", "good", "x y", "hash", "nobody", "wild"}); err != nil || len(found) != 2 {
		t.Errorf("%d jobs, %v; want good and wild", len(found), err)
	}
	if found, err := r.fleet.Get(ctx, nil); err != nil || len(found) != 0 {
		t.Errorf("get of none: %v, %v", found, err)
	}
}

func TestJ30RedisGoneInTheMiddleIsUnavailable(t *testing.T) {
	r := newFleetRig(t)
	r.submit("a")
	r.redis.Freeze()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	rdb := redisdb.Connect(redisdb.Options{Host: r.redis.Host, Port: r.redis.Port})
	defer rdb.Close()
	f := &provider.Fleet{Status: status.New(rdb)}
	jobapitest.Unavailable(ctx, t, "while Redis hangs", f)
	r.redis.Resume()
	r.redis.Kill()
	jobapitest.Unavailable(t.Context(), t, "without Redis", f)
	r.redis.Start()
	if _, err := f.List(t.Context(), jobapi.Query{Limit: 1}); err != nil {
		t.Errorf("list after Redis is back: %v", err)
	}
}

// TestJ27PartsOfALogHideWhatBeganBeforeThem reads a log as those do who follow it,
// some lines at a time, and from any line on.
func TestJ27PartsOfALogHideWhatBeganBeforeThem(t *testing.T) {
	r := newFleetRig(t)
	ctx := t.Context()
	c := r.claim(r.submit("a"))
	const bodies = 20
	lines := []string{"before", "-----BEGIN PRIVATE KEY-----"}
	for i := range bodies {
		lines = append(lines, fmt.Sprintf("MIIEvgIBADANBgkqhkiG9w0BAQEFAASCBKgwggSkAgEAAoIBAQC1m+GVNFC1%04d", i))
	}
	lines = append(lines, "-----END PRIVATE KEY-----", "after")
	for i := range 12 {
		lines = append(lines, []string{"abandon", "ability", "able", "about"}[i%4])
	}
	if err := r.st.Report(ctx, c, time.Minute, nil, jobs.Lines{Text: lines}); err != nil {
		t.Fatal(err)
	}
	whole, err := r.fleet.Log(ctx, "a", jobapi.LogQuery{Tail: 200})
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]string{}
	for _, l := range whole.Lines {
		if said[l.Pos] = l.Text; strings.Contains(l.Text, "MIIE") {
			t.Errorf("the whole log shows %q", l.Text)
		}
	}
	same := func(how string, q jobapi.LogQuery) {
		t.Helper()
		part, err := r.fleet.Log(ctx, "a", q)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range part.Lines {
			if l.Text != said[l.Pos] {
				t.Errorf("%s: %q, in the whole log %q", how, l.Text, said[l.Pos])
			}
		}
	}
	for i, l := range whole.Lines {
		same(fmt.Sprintf("last %d", i+1), jobapi.LogQuery{Tail: i + 1})
		same(fmt.Sprintf("one after line %d", i), jobapi.LogQuery{Tail: 1, After: l.Pos})
	}
}

// TestK06J27SecretWhoseBeginningWasDroppedIsHidden has a log of which the middle is gone,
// and with it where a key begins.
func TestK06J27SecretWhoseBeginningWasDroppedIsHidden(t *testing.T) {
	r := newFleetRig(t)
	ctx := t.Context()
	r.st.LogCap = 12_000
	c := r.claim(r.submit("a"))
	key := make([]byte, 48*150)
	_, _ = rand.Read(key) // it never fails
	body := base64.StdEncoding.EncodeToString(key)
	lines := []string{"before", "-----BEGIN PRIVATE KEY-----"}
	for part := range slices.Chunk([]byte(body), 64) {
		lines = append(lines, string(part))
	}
	lines = append(lines, "-----END PRIVATE KEY-----", "after", "password=hunter2hunter2")
	if err := r.st.Report(ctx, c, time.Minute, nil, jobs.Lines{Text: append(slices.Repeat([]string{"a line"}, 100), lines...)}); err != nil {
		t.Fatal(err)
	}
	for _, tail := range []int{1, 5, 50, 500} {
		for after := jobapi.LogStart; ; {
			log, err := r.fleet.Log(ctx, "a", jobapi.LogQuery{Tail: tail, After: after})
			if err != nil {
				t.Fatal(err)
			}
			if len(log.Lines) == 0 {
				break
			}
			for _, l := range log.Lines {
				after = l.Pos
				for part := range slices.Chunk([]byte(body), 16) {
					if strings.Contains(l.Text, string(part)) {
						t.Fatalf("%d lines a page: %+v shows a part of the key", tail, l)
					}
				}
				if strings.Contains(l.Text, "hunter2") || l.Text == "before" {
					t.Errorf("%d lines a page: %+v", tail, l)
				}
			}
		}
	}
	log, err := r.fleet.Log(ctx, "a", jobapi.LogQuery{Tail: 500})
	if err != nil {
		t.Fatal(err)
	}
	marks := 0
	for _, l := range log.Lines {
		if jobs.LinesIn(l.Text) > 1 {
			marks++
		}
	}
	if marks != 1 {
		t.Errorf("%d marks in %+v", marks, log.Lines)
	}
}

func TestFleetWhenRedisRefusesIsUnavailable(t *testing.T) {
	jobapitest.RedisRefuses(t, func(rdb *redis.Client) jobapi.Jobs { return &provider.Fleet{Status: status.New(rdb)} })
}
