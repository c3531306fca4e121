package provider_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/gateway/provider"
	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/internal/testrun"
	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobapi/jobapitest"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/status/redistest"
)

// zpeRig is a gateway's queue with a clock of its own, and what shows it.
type zpeRig struct {
	*testing.T
	redis *redistest.Server
	rdb   *redis.Client
	q     *queue.Queue
	zpe   *provider.ZPE
	now   time.Time
}

var lab = queue.Caller{Worker: "lab-1"}

func newZPERig(t *testing.T) *zpeRig {
	t.Helper()
	r := &zpeRig{T: t, redis: redistest.New(t), now: time.Date(2026, 11, 22, 9, 0, 0, 123_456_789, time.UTC)}
	r.rdb = r.redis.Client()
	r.q = queue.New(r.rdb, queue.DefaultRules)
	r.q.Now = func() time.Time { return r.now }
	r.zpe = &provider.ZPE{Queue: r.q, Stop: r.q.Cancel}
	return r
}

func (r *zpeRig) pass(d time.Duration) { r.now = r.now.Add(d) }

func (r *zpeRig) submit(ids ...jobs.ID) {
	r.Helper()
	for _, id := range ids {
		if _, err := r.q.Submit(r.Context(), id, []byte(`{"secret":"payload-canary"}`), ""); err != nil {
			r.Fatal(err)
		}
		r.pass(time.Second)
	}
}

func (r *zpeRig) lease(want jobs.ID) queue.Grant {
	r.Helper()
	g, err := r.q.Lease(r.Context(), lab, queue.LeaseRequest{Renews: true})
	if err != nil || g.Job != want {
		r.Fatalf("leased %q, %v; want %q", g.Job, err, want)
	}
	r.pass(time.Second)
	return g
}

func (r *zpeRig) beat(g queue.Grant, done int, message string) {
	r.Helper()
	if _, err := r.q.Extend(r.Context(), lab, g.Job, g.LeaseID, queue.Beat{Message: message, Done: done, Total: 7}); err != nil {
		r.Fatal(err)
	}
	r.pass(time.Second)
}

func (r *zpeRig) finish(g queue.Grant) {
	r.Helper()
	if _, _, err := r.q.Finish(r.Context(), lab, g.Job, g.LeaseID, queue.Result{JSON: "{}", Summary: "s", Freqs: "f", Meta: "{}"}); err != nil {
		r.Fatal(err)
	}
	r.pass(time.Second)
}

func (r *zpeRig) fail(g queue.Grant, how queue.RetryPolicy) {
	r.Helper()
	if _, err := r.q.Fail(r.Context(), lab, g.Job, g.LeaseID, queue.Failure{
		Code: "QE_RUNTIME_ERROR", Message: "pw.x exited with code 1", Traceback: "Error in routine\n  davcio (10)\n", RetryPolicy: how,
	}); err != nil {
		r.Fatal(err)
	}
	r.pass(time.Second)
}

func (r *zpeRig) cancel(id jobs.ID) {
	r.Helper()
	if _, err := r.zpe.Cancel(r.Context(), string(id)); err != nil {
		r.Fatal(err)
	}
	r.pass(time.Second)
}

// want checks a job, in one line, and what all jobs promise.
func (r *zpeRig) want(id, want string) jobapi.Job {
	r.Helper()
	found, err := r.zpe.Get(r.Context(), []string{id})
	if err != nil || len(found) != 1 {
		r.Fatalf("get %s: %v, %v", id, found, err)
	}
	j := found[0]
	if got := jobapitest.Summary(j); got != want {
		r.Errorf("job %s:\n got %s\nwant %s", id, got, want)
	}
	if j.Scope != "zpe" || j.Type != "zpe.calc" || string(j.Request) != "{}" {
		r.Errorf("job %s: %+v", id, j)
	}
	jobapitest.Check(r.T, j)
	text, err := json.Marshal(j)
	if err != nil || strings.Contains(string(text), "canary") {
		r.Errorf("job %s: %s, %v", id, text, err)
	}
	return j
}

// log returns the lines of a log as one text, their seconds first.
func (r *zpeRig) log(id string, q jobapi.LogQuery) string {
	r.Helper()
	if q.Tail == 0 {
		q.Tail = 100
	}
	log, err := r.zpe.Log(r.Context(), id, q)
	if err != nil {
		r.Fatal(err)
	}
	var b strings.Builder
	for _, l := range log.Lines {
		fmt.Fprintf(&b, "%s %s\n", l.Time.Format("04:05"), l.Text)
	}
	return b.String()
}

func TestJ07J08J10J11J14J15J27J28ZPEKeepsTheContract(t *testing.T) {
	jobapitest.Jobs(t, func(t *testing.T) jobapitest.Rig {
		r := newZPERig(t)
		leases := map[string]queue.Grant{}
		n := 0
		return jobapitest.Rig{
			Jobs: r.zpe, Type: "zpe.calc",
			Submit: func(text string) string {
				id := fmt.Sprintf("j%03d", n)
				n++
				if _, err := r.q.Submit(t.Context(), jobs.ID(id), fmt.Appendf(nil, "{%q:1}", text), ""); err != nil {
					t.Fatal(err)
				}
				r.pass(time.Second)
				return id
			},
			Start:  func(id string) { leases[id] = r.lease(jobs.ID(id)) },
			Report: func(id, text string) { r.beat(leases[id], 1, text) },
			End: func(id string, status jobs.State, text string) {
				g := leases[id]
				if status == jobs.Succeeded {
					r.finish(g)
					return
				}
				how := queue.Final
				if status == jobs.Canceled {
					how = queue.Retry // a job that is to be canceled has no retry
				}
				if _, err := r.q.Fail(t.Context(), lab, g.Job, g.LeaseID, queue.Failure{Code: "QE_RUNTIME_ERROR", Message: text, RetryPolicy: how}); err != nil {
					t.Fatal(err)
				}
				r.pass(time.Second)
			},
		}
	})
}

func TestJ02J03ZPEJobThroughItsLife(t *testing.T) {
	r := newZPERig(t)
	created := r.now
	r.submit("a")
	versions := map[string]bool{}
	seen := func(j jobapi.Job) jobapi.Job {
		if versions[j.Version] || len(j.Version) > 32 {
			t.Errorf("version %q of %s is not new", j.Version, jobapitest.Summary(j))
		}
		versions[j.Version] = true
		return j
	}
	j := seen(r.want("a", "queued run:pending 0/0/1"))
	if !j.CreatedAt.Equal(created.Truncate(time.Millisecond)) || !j.StartedAt.IsZero() || j.Attempt != 0 || j.Worker != "" {
		t.Errorf("%+v", j)
	}
	leased := r.now
	g := r.lease("a")
	j = seen(r.want("a", "running run:running 1/0/1"))
	if !j.StartedAt.Equal(leased.Truncate(time.Millisecond)) || j.Attempt != 1 || j.Worker != "lab-1" {
		t.Errorf("%+v", j)
	}
	r.beat(g, 3, "displacement 3")
	j = seen(r.want("a", "running run:running(3/7 displacement 3) 1/0/1"))
	r.beat(g, 3, "")
	if again := r.want("a", "running run:running(3/7 displacement 3) 1/0/1"); again.Version != j.Version {
		t.Error("the version has changed, the job has not")
	}
	r.fail(g, queue.Retry)
	j = seen(r.want("a", "queued run:pending(waits until 2026-11-22T09:00:25Z: QE_RUNTIME_ERROR: pw.x exited with code 1) 0/0/1"))
	if !j.StartedAt.IsZero() || j.Attempt != 1 {
		t.Errorf("put off: %+v", j)
	}
	r.pass(time.Minute)
	g = r.lease("a")
	seen(r.want("a", "running run:running 1/0/1"))
	ended := r.now
	r.finish(g)
	j = seen(r.want("a", "succeeded run:succeeded 1/1/1"))
	if j.Attempt != 2 || !j.FinishedAt.Equal(ended.Truncate(time.Millisecond)) || !strings.Contains(string(j.Result), `"/calc/zpe/jobs/a/result"`) {
		t.Errorf("%+v, %s", j, j.Result)
	}
}

func TestJ14J16ZPEJobsThatEndOtherwise(t *testing.T) {
	r := newZPERig(t)
	r.submit("failed", "canceled", "waits", "lost")
	r.fail(r.lease("failed"), queue.Final)
	j := r.want("failed", "failed run:failed(pw.x exited with code 1) 1/0/1")
	if j.Error.Code != "QE_RUNTIME_ERROR" || j.Error.Message != "pw.x exited with code 1" || len(j.Error.Details) != 0 {
		t.Errorf("%+v", j.Error)
	}
	g := r.lease("canceled")
	if j, err := r.zpe.Cancel(t.Context(), "canceled"); err != nil || j.Status != jobs.Running {
		t.Errorf("cancel of a running job: %+v, %v", j, err)
	}
	r.want("canceled", "running run:running(to be canceled) 1/0/1")
	r.fail(g, queue.Retry)
	r.want("canceled", "canceled run:canceled 1/0/1")
	if j, err := r.zpe.Cancel(t.Context(), "waits"); err != nil || j.Status != jobs.Canceled || j.FinishedAt.IsZero() || !j.StartedAt.IsZero() {
		t.Errorf("cancel of a job that waits: %+v, %v", j, err)
	}
	r.want("waits", "canceled run:canceled 0/0/1")
	r.lease("lost")
	r.pass(time.Hour)
	if _, err := r.q.Reap(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.want("lost", "queued run:pending(waits until 2026-11-22T10:00:30Z: lease expired: worker lab-1 went silent) 0/0/1")

	// Canceled while it waits, it does not show as the time of its run how long it has waited.
	r.submit("later")
	r.fail(r.lease("later"), queue.Retry)
	r.pass(8 * time.Second)
	if j, err := r.zpe.Cancel(t.Context(), "later"); err != nil || !j.StartedAt.IsZero() || j.Attempt != 1 || j.FinishedAt.IsZero() {
		t.Errorf("cancel of a job that waits for its next run: %+v, %v", j, err)
	}
	r.want("later", "canceled run:canceled 0/0/1")
	if log := r.log("later", jobapi.LogQuery{}); !strings.Contains(log, "attempt 1: leased by lab-1\n") || !strings.HasSuffix(log, " canceled\n") {
		t.Errorf("its log is\n%s", log)
	}

	asked := jobs.ID("")
	r.zpe.Stop = func(ctx context.Context, id jobs.ID) (string, error) {
		asked = id
		return r.q.Cancel(ctx, id)
	}
	r.cancel("lost")
	if asked != "lost" {
		t.Error("the gateway was not asked")
	}
}

func TestZPEJobEndsNoSoonerThanItsRunBegan(t *testing.T) {
	r := newZPERig(t)
	r.submit("a")
	began := r.now
	g := r.lease("a")
	r.pass(-time.Minute) // it ends by another gateway, whose clock differs
	r.finish(g)
	found, err := r.zpe.Get(r.Context(), []string{"a"})
	if err != nil || len(found) != 1 || !found[0].FinishedAt.Equal(jobapi.At(began).Time) || !found[0].StartedAt.Equal(found[0].FinishedAt.Time) {
		t.Errorf("%+v, %v; want it to begin and end at %v", found, err, began)
	}
}

func TestJ10J11ZPELogTellsWhatHasHappened(t *testing.T) {
	r := newZPERig(t)
	r.submit("a")
	g := r.lease("a")
	r.beat(g, 1, "relaxing")
	running := "00:00 submitted\n00:01 attempt 1: leased by lab-1\n"
	if got := r.log("a", jobapi.LogQuery{}); got != running+"00:02 1/7 relaxing\n" {
		t.Errorf("running:\n%s", got)
	}
	// A follower gets each line once, though heartbeats come without news.
	pos := ""
	follow := func() (texts []string) {
		log, err := r.zpe.Log(t.Context(), "a", jobapi.LogQuery{Tail: 100, After: pos})
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range log.Lines {
			texts = append(texts, l.Text)
			pos = l.Pos
		}
		return texts
	}
	steps := []struct {
		do   func()
		want []string
	}{
		{func() {}, []string{"submitted", "attempt 1: leased by lab-1", "1/7 relaxing"}},
		{func() { r.beat(g, 1, "") }, nil},
		{func() { r.beat(g, 2, "displacing") }, []string{"2/7 displacing"}},
		{func() { r.fail(g, queue.Retry) }, []string{
			"QE_RUNTIME_ERROR: pw.x exited with code 1; it runs again after 2026-11-22T09:00:25.123Z", "Error in routine", "  davcio (10)",
		}},
		{func() { r.pass(time.Minute); g = r.lease("a") }, []string{"attempt 2: leased by lab-1"}},
		{func() { r.cancel("a") }, []string{"to be canceled"}},
		{func() { r.finish(g) }, []string{"finished"}},
		{func() {}, nil},
	}
	for i, s := range steps {
		s.do()
		if got := follow(); !slices.Equal(got, s.want) {
			t.Errorf("step %d: %q, want %q", i, got, s.want)
		}
	}
	whole := "00:00 submitted\n00:01 first run began\n01:06 attempt 2: leased by lab-1\n01:08 finished\n"
	if got := r.log("a", jobapi.LogQuery{}); got != whole {
		t.Errorf("in the end:\n%s", got)
	}
	for _, tt := range []struct {
		q    jobapi.LogQuery
		want string
	}{
		{jobapi.LogQuery{Tail: 2}, "01:06 attempt 2: leased by lab-1\n01:08 finished\n"},
		{jobapi.LogQuery{Since: r.now.Add(-2 * time.Second)}, "01:08 finished\n"},
		{jobapi.LogQuery{After: "0-0-0", Tail: 1}, "00:00 submitted\n"},
		{jobapi.LogQuery{After: jobapi.LogStart, Tail: 2}, "00:00 submitted\n00:01 first run began\n"},
		{jobapi.LogQuery{After: "nonsense"}, whole},
		{jobapi.LogQuery{After: "99999999999999999999-1-1"}, whole},
		{jobapi.LogQuery{After: "9999999999999-1-1"}, ""},
	} {
		if got := r.log("a", tt.q); got != tt.want {
			t.Errorf("%+v:\n%s", tt.q, got)
		}
	}
	// A job that was queued again counts its runs from 1; until then its last run has no number.
	r.submit("b")
	r.fail(r.lease("b"), queue.Final)
	if err := r.q.Requeue(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	r.cancel("b")
	if got, want := r.log("b", jobapi.LogQuery{}), "01:09 submitted\n01:10 leased by lab-1\n01:12 canceled\n"; got != want {
		t.Errorf("queued again and canceled:\n%s", got)
	}
}

func TestJ27ZPEShowsNoSecretsAndSurvivesWhatSomebodyHasWritten(t *testing.T) {
	r := newZPERig(t)
	r.submit("a", "b", "c", "fine")
	key := "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7canary0\n-----END PRIVATE KEY-----"
	g := r.lease("a")
	if _, err := r.q.Fail(t.Context(), lab, "a", g.LeaseID, queue.Failure{
		Code: "AKIAIOSFODNN7CANARY0", Message: "password=hunter2canary", Traceback: "before\n" + key + "\nafter", RetryPolicy: queue.Final,
	}); err != nil {
		t.Fatal(err)
	}
	j := r.want("a", "failed run:failed(password=[redacted]) 1/0/1")
	text, _ := json.Marshal(j)
	if log := r.log("a", jobapi.LogQuery{}); strings.Contains(strings.ToLower(log+string(text)), "canary") || j.Error.Code != "FAILED" || !strings.Contains(log, "before") || !strings.Contains(log, "after") {
		t.Errorf("%s\n%s", text, log)
	}
	r.lease("b")
	if err := r.rdb.HSet(t.Context(), "zpe:status:b", "done", "-5", "total", "999999999999999999999", "detail", "bad \xff\x00 text\r\nand\u202e lines\n",
		"created_at", "yesterday", "updated_at", "2026-13-45T00:00:00Z", "worker_id", "w\xff", "leased_at", "-1e300", "first_leased_at", "NaN",
		"attempt", "-7", "error_code", "no code").Err(); err != nil {
		t.Fatal(err)
	}
	found, err := r.zpe.Get(t.Context(), []string{"b"})
	if err != nil || len(found) != 1 || found[0].Attempt < 0 {
		t.Errorf("%+v, %v", found, err)
	}
	for l := range strings.SplitSeq(strings.TrimSuffix(r.log("b", jobapi.LogQuery{}), "\n"), "\n") {
		if !strings.Contains(l, " ") || !jobs.IsVisible(l) {
			t.Errorf("line %q", l)
		}
	}
	if err := r.rdb.HSet(t.Context(), "zpe:status:b", "status", "failed").Err(); err != nil {
		t.Fatal(err)
	}
	if found, err := r.zpe.Get(t.Context(), []string{"b"}); err != nil || len(found) != 1 || found[0].Error.Code != "FAILED" {
		t.Errorf("%+v, %v", found, err)
	}
	for status, want := range map[string]int{"odd": 0, "": 0, "queued": 1} {
		if err := r.rdb.HSet(t.Context(), "zpe:status:b", "status", status).Err(); err != nil {
			t.Fatal(err)
		}
		if found, err := r.zpe.Get(t.Context(), []string{"b"}); err != nil || len(found) != want {
			t.Errorf("status %q: %+v, %v", status, found, err)
		}
	}
	r.rdb.Del(t.Context(), "zpe:status:c")
	r.rdb.Set(t.Context(), "zpe:status:c", "mine", 0)
	if _, err := r.zpe.Log(t.Context(), "c", jobapi.LogQuery{Tail: 1}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("log of a foreign key: %v", err)
	}
	if _, err := r.zpe.Cancel(t.Context(), "c"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("cancel of a foreign key: %v", err)
	}
	page, err := r.zpe.List(t.Context(), jobapi.Query{Status: jobs.Queued, Limit: 10})
	if err != nil || len(page.Items) != 1 || page.Items[0].ID != "fine" {
		t.Errorf("%+v, %v", page, err)
	}
}

// TestJ27ZPEShowsNoSecretInAnyState of what its worker has said, whichever place
// shows it then.
func TestJ27ZPEShowsNoSecretInAnyState(t *testing.T) {
	r := newZPERig(t)
	r.submit("a")
	r.lease("a")
	for _, state := range []string{queue.Queued, queue.Started, queue.Finished, queue.Failed, queue.Canceled} {
		fields := map[string]string{"status": state, "detail": "token=hunter2canary", "error_message": "", "worker_id": "lab token=hunter2canary"}
		if state == queue.Canceled {
			fields["status"], fields["detail"] = "failed", "canceled"
		}
		if err := r.rdb.HSet(t.Context(), "zpe:status:a", fields).Err(); err != nil {
			t.Fatal(err)
		}
		found, err := r.zpe.Get(t.Context(), []string{"a"})
		page, err2 := r.zpe.List(t.Context(), jobapi.Query{Limit: 10})
		text, err3 := json.Marshal([]any{found, page})
		if err := errors.Join(err, err2, err3); err != nil || len(found) != 1 {
			t.Fatalf("%s: %d jobs, %v", state, len(found), err)
		}
		if said := string(text) + r.log("a", jobapi.LogQuery{}); strings.Contains(said, "canary") || !strings.Contains(said, "[redacted]") {
			t.Errorf("%s: %s", state, said)
		}
	}
}

func TestZPEWithoutRedisIsUnavailable(t *testing.T) {
	t.Parallel()
	testrun.Long(t, "it waits for seconds")
	r := newZPERig(t)
	r.submit("a")
	r.redis.Kill()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	jobapitest.Unavailable(ctx, t, "without Redis", r.zpe)
}

func TestZPEWhenRedisRefusesIsUnavailable(t *testing.T) {
	jobapitest.RedisRefuses(t, func(rdb *redis.Client) jobapi.Jobs {
		q := queue.New(rdb, queue.DefaultRules)
		return &provider.ZPE{Queue: q, Stop: q.Cancel}
	})
}

func FuzzZPELogPosition(f *testing.F) {
	for _, s := range []string{"", "1-2-3", "1795300000123-3-4294967295", "-1-2-3", "1-2", "99999999999999999999-0-0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if again := provider.ParsePosition(s); again != "" && provider.ParsePosition(again) != again {
			t.Errorf("%q reads as %q", s, again)
		}
	})
}
