package operations

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/internal/testrun"
	"github.com/batchfleet/batchfleet/jobapi/engine"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/pubsub"
	"github.com/batchfleet/batchfleet/redisdb"
	"github.com/batchfleet/batchfleet/storage"
)

func TestJStartMakesWhatIsMissingOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	j := r.do("start", `{}`)
	topics := []string{testNames.Jobs.Topic, testNames.Priority.Topic, testNames.Dead.Topic}
	subs := []string{testNames.Jobs.Subscription, testNames.Priority.Subscription, testNames.Dead.Subscription}
	r.wantLines(j.lines, "redis succeeded: Redis answers and takes writes", "topic succeeded: created "+strings.Join(topics, ", "),
		"subscription succeeded: created "+strings.Join(subs, ", "), "storage succeeded: objects can be written, read and deleted",
		"queue succeeded: 2 queues on record", "leasing skipped: workers may lease jobs already")
	for _, s := range r.emulator.Stats() {
		if !slices.Contains(topics, s.Topic) || strings.Replace(s.Topic, "/topics/", "/subscriptions/", 1) != s.Subscription {
			t.Errorf("subscription %s of topic %s", s.Subscription, s.Topic)
		}
	}
	_, _, deadline, err := r.PubSub.Subscription(t.Context(), subs[0])
	if err != nil || deadline != testNames.AckDeadline {
		t.Errorf("ack deadline %s, %v", deadline, err)
	}
	if left := r.files(); len(left) > 0 {
		t.Errorf("in the storage are %q", left)
	}
	on, err := r.Status.Queues(t.Context())
	if q := on["default"]; err != nil || q.Topic != topics[0] || q.Subscription != subs[0] || q.DeadTopic != topics[2] || q.DeadSubscription != subs[2] || on["priority"].Topic != topics[1] {
		t.Errorf("on record are %+v, %v", on, err)
	}
	r.wantLines(r.do("start", `{}`).lines, "redis succeeded: Redis answers and takes writes", "topic skipped: there already: "+strings.Join(topics, ", "),
		"subscription skipped: there already: "+strings.Join(subs, ", "), "storage succeeded: objects can be written, read and deleted",
		"queue skipped: on record already", "leasing skipped: workers may lease jobs already")
}

func TestJStartEndedAnywhereIsDoneByTheNext(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"CreateTopic", "CreateSubscription", "GetTopic", "GetSubscription"} {
		for _, lost := range []bool{false, true} { // the request, or only its answer
			r := newRig(t)
			if lost {
				r.emulator.DropReplies(method, 1)
			} else {
				r.emulator.Fail(method, 1, codes.Unavailable)
			}
			if j := r.do("start", `{}`); !errors.Is(j.err, jobs.ErrUnavailable) {
				t.Errorf("%s: %v, want jobs.ErrUnavailable", method, j.err)
			}
			if j := r.do("start", `{}`); j.err != nil {
				t.Errorf("after a failure of %s: %v", method, j.err)
			}
			if n := len(r.emulator.Stats()); n != 3 {
				t.Errorf("after a failure of %s there are %d subscriptions", method, n)
			}
		}
	}
	// Killed after each of the things it makes.
	for made := range 6 {
		r := newRig(t)
		for i, q := range testNames.queues() {
			if i < made {
				if err := r.emulator.EnsureTopic(q.Topic); err != nil {
					t.Fatal(err)
				}
			}
			if i+3 < made {
				if err := r.emulator.EnsureSubscription(q.Subscription, q.Topic, testNames.AckDeadline); err != nil {
					t.Fatal(err)
				}
			}
		}
		if j := r.do("start", `{}`); j.err != nil || len(r.emulator.Stats()) != 3 {
			t.Errorf("after a kill at %d: %v", made, j.err)
		}
	}
}

// An account that may not look finds out by trying to create.
func TestJStartSaysWhatItHasCreated(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.withQueues()
	r.emulator.Fail("GetTopic", 4, codes.PermissionDenied) // asked of each by the look and by the step
	r.emulator.Fail("GetSubscription", 4, codes.PermissionDenied)
	j := r.do("start", `{}`)
	if j.err != nil || j.lines[1] != "topic succeeded: all topics are there" || j.lines[2] != "subscription succeeded: all subscriptions are there" {
		t.Errorf("%q, %v", j.lines, j.err)
	}
}

func TestJStartSaysWhatDiffers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if err := r.emulator.EnsureSubscription(testNames.Jobs.Subscription, testNames.Jobs.Topic, 77*time.Second); err != nil {
		t.Fatal(err)
	}
	j := r.do("start", `{}`)
	want := testNames.Jobs.Subscription + " has an ack deadline of 1m17s, a new one would have 20s"
	if j.err != nil || !strings.Contains(j.log.String(), want) {
		t.Errorf("%v, log %q", j.err, j.log.String())
	}
	if j = r.do("start", `{}`); j.err != nil || !strings.Contains(j.lines[2], "skipped: there already: "+want) {
		t.Errorf("%q, %v", j.lines, j.err)
	}

	r = newRig(t)
	if err := r.emulator.EnsureSubscription(testNames.Jobs.Subscription, testNames.Dead.Topic, 20*time.Second); err != nil {
		t.Fatal(err)
	}
	j = r.do("start", `{}`)
	failure := (*engine.Failure)(nil)
	if !errors.As(j.err, &failure) || failure.Code != "SUBSCRIPTION_MISMATCH" || failure.Details["topic"] != testNames.Dead.Topic || !strings.Contains(j.err.Error(), "delete it") {
		t.Errorf("%v", j.err)
	}
	if len(j.lines) != 3 {
		t.Errorf("steps went on after that: %q", j.lines)
	}
}

// brokenStore goes wrong where a test wants it to.
type brokenStore struct {
	storage.Store
	put    func() error // after the object was stored
	opened string       // what Open reads instead
	delete func(name string) error
}

func (b *brokenStore) Put(ctx context.Context, name string, r io.Reader) error {
	err := b.Store.Put(ctx, name, r)
	if b.put != nil {
		err = errors.Join(err, b.put())
	}
	return err
}

func (b *brokenStore) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	if b.opened != "" {
		return io.NopCloser(strings.NewReader(b.opened)), nil
	}
	return b.Store.Open(ctx, name)
}

func (b *brokenStore) Delete(ctx context.Context, name string) error {
	if b.delete != nil {
		if err := b.delete(name); err != nil {
			return err
		}
	}
	return b.Store.Delete(ctx, name)
}

// Without a storage nothing that is leased could be done.
func TestJStartWithoutStorageLeavesLeasingOff(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.withQueues()
	if j := r.do("drain", `{}`); j.err != nil {
		t.Fatal(j.err)
	}
	local := r.Storage
	for _, want := range []bool{false, true} {
		r.Storage = local
		if !want {
			r.Storage = &brokenStore{Store: local, put: func() error { return jobs.ErrUnavailable }}
		}
		j := r.do("start", `{}`)
		draining, err := r.Status.Draining(t.Context())
		ops, err2 := r.Queue.Ops(t.Context())
		if (j.err == nil) != want || (draining == "") != want || ops.Dequeue != want || err != nil || err2 != nil {
			t.Errorf("%q: the fleet is drained since %q, leasing of the gateway is on: %t, want %t; %v, %v", j.lines, draining, ops.Dequeue, want, err, err2)
		}
	}
}

func TestJStartLeavesNoProbeBehind(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.withQueues()
	local := r.Storage
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	for _, tt := range []struct {
		name  string
		store *brokenStore
		want  error
	}{
		{"a write without an answer", &brokenStore{Store: local, put: func() error { return jobs.ErrUnavailable }}, jobs.ErrUnavailable},
		{"other content", &brokenStore{Store: local, opened: "something else"}, jobs.ErrUnavailable},
		{"canceled after the write", &brokenStore{Store: local, put: func() error { cancel(jobs.ErrCanceled); return nil }}, jobs.ErrCanceled}, // the last: they share the context
	} {
		t.Run(tt.name, func(t *testing.T) {
			r.Storage = tt.store
			j := &ran{}
			j.run(ctx, r.good("start", `{}`))
			if !errors.Is(j.err, tt.want) || !strings.HasPrefix(j.lines[len(j.lines)-1], "storage failed") {
				t.Errorf("%q, %v; want %v", j.lines, j.err, tt.want)
			}
			if left := r.files(); len(left) > 0 {
				t.Errorf("left behind: %q", left)
			}
		})
	}
	r.Storage = local
	r.put("probes/job_killed", 2*time.Hour)
	r.put("probes/job_running", time.Minute)
	r.put("probes/somebody's", 2*time.Hour)
	if j := r.do("start", `{}`); j.err != nil {
		t.Fatal(j.err)
	}
	if left := r.files(); !slices.Equal(left, []string{"probes", "probes/job_running", "probes/somebody's"}) {
		t.Errorf("left are %q, want all but the one that a killed server has left", left)
	}
}

func TestJStartOfBrokenStorageFails(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.withQueues()
	if err := os.RemoveAll(r.dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(r.dir, nil, 0o600); err != nil { // so that no directory can be made there
		t.Fatal(err)
	}
	j := r.do("start", `{}`)
	if !errors.Is(j.err, jobs.ErrUnavailable) || !strings.Contains(j.err.Error(), r.dir) {
		t.Errorf("%v", j.err)
	}
}

func TestJStartWithoutRedisFails(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.redis.Kill()
	if j := r.do("start", `{}`); !errors.Is(j.err, jobs.ErrUnavailable) || len(j.lines) != 1 {
		t.Errorf("%q, %v", j.lines, j.err)
	}
	r.redis.Start()
}

func TestJDrainWaitsForWhatIsHeld(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.withQueues()
	for _, id := range []jobs.ID{"f1", "f2"} {
		if err := pubsub.Submit(t.Context(), r.Status, r.Publish.Publish, jobs.Job{ID: id, Kind: "pdf"}, 0); err != nil {
			t.Fatal(err)
		}
	}
	_, finishFleet := r.work()
	if _, err := r.Queue.Submit(t.Context(), "z1", []byte(`{}`), ""); err != nil {
		t.Fatal(err)
	}
	agent := queue.Caller{Worker: "w1"}
	grant, err := r.Queue.Lease(t.Context(), agent, queue.LeaseRequest{Renews: true})
	if err != nil || grant.Job != "z1" {
		t.Fatalf("%+v, %v", grant, err)
	}

	j, wait := r.background(t.Context(), "drain", `{"pollIntervalMs":200}`)
	r.says(j, "2 jobs left")
	if _, err := r.Queue.Submit(t.Context(), "z2", []byte(`{}`), ""); err != nil {
		t.Fatal(err)
	}
	if got, err := r.Queue.Lease(t.Context(), agent, queue.LeaseRequest{Renews: true}); err != nil || got.Job != "" {
		t.Errorf("leased %q of a gateway that drains, %v", got.Job, err)
	}
	if since, err := r.Status.Draining(t.Context()); err != nil || since == "" {
		t.Errorf("the fleet is not asked to drain: %v", err)
	}
	r.redis.Kill() // for a moment: a restart of Redis ends nothing
	r.redis.Start()
	finishFleet(jobs.Outcome{State: jobs.Succeeded})
	r.says(j, "1 job left")
	if _, _, err := r.Queue.Finish(t.Context(), agent, "z1", grant.LeaseID, queue.Result{JSON: `{}`, Summary: "s"}); err != nil {
		t.Fatal(err)
	}
	wait()
	r.wantLines(j.lines, "stop-leasing succeeded: workers lease no more jobs", "wait succeeded: no job is held")
	if j.err != nil || !strings.HasPrefix(j.text(), `{"fleet":1,"gateway":1,"waitedMs":`) {
		t.Errorf("%v, result %s", j.err, j.text())
	}
	if j = r.do("drain", `{}`); j.lines[0] != "stop-leasing skipped: workers lease no jobs already" || j.err != nil {
		t.Errorf("%q, %v", j.lines, j.err)
	}
	if j = r.do("start", `{}`); j.lines[5] != "leasing succeeded: workers may lease jobs" || j.err != nil {
		t.Errorf("%q, %v", j.lines, j.err)
	}
	if got, err := r.Queue.Lease(t.Context(), agent, queue.LeaseRequest{Renews: true}); err != nil || got.Job != "z2" {
		t.Errorf("leased %q after a start, %v", got.Job, err)
	}
	if since, err := r.Status.Draining(t.Context()); err != nil || since != "" {
		t.Errorf("the fleet drains after a start: %v", err)
	}
}

func TestJDrainThatIsCanceledLeavesLeasingOff(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.withQueues()
	if err := pubsub.Submit(t.Context(), r.Status, r.Publish.Publish, jobs.Job{ID: "f1", Kind: "pdf"}, 0); err != nil {
		t.Fatal(err)
	}
	_, finish := r.work()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	j, wait := r.background(ctx, "drain", `{"pollIntervalMs":60000}`)
	r.says(j, "1 job left")
	cancel(jobs.ErrCanceled)
	if wait(); !errors.Is(j.err, jobs.ErrCanceled) || j.result != nil {
		t.Errorf("%v, result %s", j.err, j.text())
	}
	if !strings.Contains(j.now, "1 job left; leasing stays off until system/start (batchfleet run start)") || !strings.Contains(j.log.String(), "leasing stays off") {
		t.Errorf("it does not say what it leaves: %q, log %q", j.now, j.log.String())
	}
	if since, err := r.Status.Draining(t.Context()); err != nil || since == "" {
		t.Errorf("leasing is on again: %v", err)
	}
	finish(jobs.Outcome{State: jobs.Succeeded})
}

// Another server that shares the Redis knows nothing of this one's drain.
func TestJDrainFailsWhenSomebodyResumes(t *testing.T) {
	t.Parallel()
	for _, who := range []string{"fleet", "gateway", "fleet, and drained again"} {
		r := newRig(t)
		r.withQueues()
		if err := pubsub.Submit(t.Context(), r.Status, r.Publish.Publish, jobs.Job{ID: "f1", Kind: "pdf"}, 0); err != nil {
			t.Fatal(err)
		}
		_, finish := r.work()
		j, wait := r.background(t.Context(), "drain", `{"pollIntervalMs":200}`)
		r.says(j, "1 job left")
		on := true
		var err error
		switch who {
		case "fleet":
			_, err = r.Status.SetDraining(t.Context(), false)
		case "gateway":
			_, err = r.Queue.SetOps(t.Context(), nil, &on)
		default: // at once, so that no look can fall between
			err = r.rdb.Set(t.Context(), "fleet:draining", time.Now().UTC().Format(time.RFC3339Nano), 0).Err()
		}
		if err != nil {
			t.Fatal(err)
		}
		failure := (*engine.Failure)(nil)
		if wait(); !errors.As(j.err, &failure) || failure.Code != "LEASING_RESUMED" || j.result != nil {
			t.Errorf("%s: %v, result %s; want LEASING_RESUMED", who, j.err, j.text())
		}
		finish(jobs.Outcome{State: jobs.Succeeded})
	}
}

// A worker that has not heard yet may lease one more job, so nothing being held is
// not the end at once.
func TestJDrainGivesWorkersTimeToHear(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.withQueues()
	req := r.good("drain", `{"pollIntervalMs":200}`).(*drain)
	req.notice = 700 * time.Millisecond
	j := &ran{changed: make(chan struct{}, 1)}
	begun := time.Now()
	if j.run(t.Context(), req); j.err != nil || time.Since(begun) < req.notice {
		t.Errorf("%v, after %s", j.err, time.Since(begun))
	}
	for _, o := range System(r.Deps) {
		if d, ok := o.New().(*drain); ok && d.notice != 15*time.Second { // docs/operations.md
			t.Errorf("a drain gives %s", d.notice)
		}
	}
}

func TestJFsckFindsAndRepairs(t *testing.T) {
	t.Parallel()
	testrun.Long(t, "it waits for seconds")
	r := newRig(t)
	r.withQueues()
	for _, id := range []jobs.ID{"z1", "z2"} {
		if _, err := r.Queue.Submit(t.Context(), id, []byte(`{}`), ""); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.Status.Submit(t.Context(), jobs.Job{ID: "f1"}); err != nil {
		t.Fatal(err)
	}
	if j := r.do("fsck", `{}`); j.err != nil || j.lines[0] != "gateway succeeded: 2 jobs, no findings" {
		t.Errorf("%q, %v", j.lines, j.err)
	} else if want := `"findings":[]}`; !strings.HasSuffix(j.text(), want) || !strings.Contains(j.text(), `"fleet":{"jobs":{"queued":1}`) {
		t.Errorf("result %s, want it to end with %s", j.text(), want)
	}
	for _, key := range r.keys("*queue*") {
		if kind, _ := r.rdb.Type(t.Context(), key).Result(); kind == "list" {
			r.rdb.LRem(t.Context(), key, 0, "z2") // lost
		}
	}
	r.rdb.ZRem(t.Context(), "jobs:index", "f1")
	j := r.do("fsck", `{}`)
	for _, want := range []string{`"where":"gateway"`, `"jobId":"z2"`, `"where":"fleet"`, `"jobId":"f1"`, `"left":1`} {
		if j.err != nil || !strings.Contains(j.text(), want) {
			t.Errorf("%v, result %s, want %s", j.err, j.text(), want)
		}
	}
	if !strings.Contains(j.log.String(), "gateway: job z2: ") || j.err != nil {
		t.Errorf("log %q", j.log.String())
	}
	if got := r.do("fsck", `{}`); got.text() != j.text() {
		t.Errorf("without repair something has changed: %s, then %s", j.text(), got.text())
	}
	if j = r.do("fsck", `{"repair":true}`); j.err != nil || strings.Count(j.text(), `"left":0`) != 2 || strings.Contains(j.text(), `"done":""`) {
		t.Errorf("%v, result %s", j.err, j.text())
	}
	if j = r.do("fsck", `{}`); j.err != nil || !strings.HasSuffix(j.text(), `"findings":[]}`) {
		t.Errorf("after the repair: %v, result %s", j.err, j.text())
	}
	r.redis.Kill()
	if j = r.do("fsck", `{}`); !errors.Is(j.err, jobs.ErrUnavailable) {
		t.Errorf("without Redis: %v", j.err)
	}
	r.redis.Start()
}

func TestJFsckSaysWhatItHasSeen(t *testing.T) {
	t.Parallel()
	tests := []struct {
		audit redisdb.Audit
		want  string
	}{
		{redisdb.Audit{Jobs: map[string]int{"queued": 1}}, "1 job, no findings"},
		{redisdb.Audit{Counts: map[string]int{"a": 2, "b": 1}, Harmless: 1, Left: 1}, "0 jobs, 3 findings: 1 repaired, 1 harmless, 1 left"},
		{redisdb.Audit{Counts: map[string]int{"stale entry": 2, "status unknown": 1}, Harmless: 2, Left: 1}, "0 jobs, 3 findings: 2 harmless, 1 left"},
		{redisdb.Audit{Counts: map[string]int{"a": 1}, Left: 1, Unchecked: 1}, "0 jobs, 1 finding: 1 left; 1 suspect not looked at: run it again"},
	}
	for _, tt := range tests {
		if got := summary(tt.audit); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}

func (r *rig) keys(pattern string) []string {
	r.Helper()
	keys, err := r.rdb.Keys(r.Context(), pattern).Result()
	if err != nil {
		r.Fatal(err)
	}
	return keys
}
