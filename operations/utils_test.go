package operations

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/batchfleet/batchfleet/internal/testrun"
	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobapi/engine"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/pubsub"
	"github.com/batchfleet/batchfleet/worker"
)

// objects puts documents and returns their names, as JSON too.
func (r *rig) objects(n int) (names []string, text string) {
	r.Helper()
	for i := range n {
		names = append(names, fmt.Sprintf("uploads/%d.pdf", i))
		r.put(names[i], 0)
	}
	b, err := json.Marshal(names)
	if err != nil {
		r.Fatal(err)
	}
	return names, string(b)
}

func TestJSubmitBatchRunsAJobForEachObject(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.withQueues()
	names, list := r.objects(7)
	j, wait := r.background(t.Context(), "submit-batch", `{"objects":`+list+`,"kind":"mock","ratePerSecond":1000,"concurrency":3,"pollIntervalMs":200}`)
	r.says(j, "0 of 7 jobs ended")
	ends := map[string]jobs.State{}
	for i := range 7 {
		job, finish := r.work()
		o := jobs.Outcome{State: jobs.Succeeded}
		switch i {
		case 3:
			o = jobs.Outcome{State: jobs.Failed, Reason: "no PDF"}
		case 5:
			o = jobs.Outcome{State: jobs.Canceled}
		}
		if ends[job.Input] = o.State; job.Kind != "mock" || job.Submitted.IsZero() {
			t.Errorf("job %+v", job)
		}
		finish(o)
		if i == 0 {
			r.redis.Kill() // a restart of Redis ends nothing
			r.redis.Start()
		}
	}
	wait()
	r.wantLines(j.lines, "check succeeded: 7 objects are there", "publish succeeded: 7 jobs queued", "wait succeeded: 5 succeeded, 1 failed, 1 canceled")
	res, _ := j.result.(batch)
	if j.err != nil || !strings.HasPrefix(j.text(), `{"submitted":7,"succeeded":5,"failed":1,"canceled":1,"jobs":[{"jobId":"`) {
		t.Errorf("%v, result %s", j.err, j.text())
	}
	for i, job := range res.Jobs {
		if job.Object != names[i] || job.Status != ends[job.Object] || job.JobID == "" {
			t.Errorf("object %d: %+v, want %s of %s", i, job, ends[names[i]], names[i])
		}
		if !strings.Contains(j.log.String(), fmt.Sprintf("job %s of objects[%d] is queued\n", job.JobID, i)) {
			t.Errorf("the log does not name job %s", job.JobID)
		}
	}
}

func TestJSubmitBatchQueuesNothingWhenObjectsAreMissing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.withQueues()
	_, list := r.objects(3)
	missing := strings.Repeat(`,"uploads/none.pdf"`, 6)
	j := r.do("submit-batch", `{"objects":`+strings.TrimSuffix(list, "]")+missing+`]}`)
	failure := (*engine.Failure)(nil)
	if !errors.As(j.err, &failure) || failure.Code != "OBJECTS_MISSING" || failure.Details["missing"] != 6 {
		t.Fatalf("%v", j.err)
	}
	for _, want := range []string{`6 of 9 objects are not there, so nothing is queued: objects[3] "uploads/none.pdf", objects[4]`, `objects[7] "uploads/none.pdf", and 1 more`} {
		if !strings.Contains(j.err.Error(), want) {
			t.Errorf("%v, want %s", j.err, want)
		}
	}
	if len(r.keys("*")) > 0 || r.emulator.Stats()[1].Published > 0 {
		t.Errorf("something was queued: %q, %+v", r.keys("*"), r.emulator.Stats())
	}
}

// publisher returns one to the topic of the fleet whose n-th call, from 1 on, fails
// with what refuse returns for it.
func (r *rig) publisher(refuse func(n int) error) *pubsub.Publisher {
	r.Helper()
	calls := atomic.Int32{}
	refusing := option.WithGRPCDialOption(grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if err := refuse(int(calls.Add(1))); err != nil {
			return err
		}
		return invoke(ctx, method, req, reply, cc, opts...)
	}))
	p, err := pubsub.OpenPublisher(r.Context(), testNames.Jobs.Topic, pubsub.Rules{}, append(slices.Clone(r.opts), refusing)...)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { _ = p.Close() })
	return p
}

// What was recorded and not published is canceled, what was published goes on.
func TestJSubmitBatchCancelsWhatItCannotPublish(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.withQueues()
	_, list := r.objects(3)
	r.emulator.Fail("Publish", 1, codes.PermissionDenied)
	j := r.do("submit-batch", `{"objects":`+list+`,"concurrency":1}`)
	if j.err == nil || !strings.Contains(j.err.Error(), "0 of 3 jobs are queued and go on: objects[0]: publish job") {
		t.Errorf("%v", j.err)
	}
	r.wantStates("canceled")

	r.rdb.FlushDB(t.Context())
	usual := r.Publish
	r.Publish = r.publisher(func(n int) error {
		if n == 2 {
			return status.Error(codes.PermissionDenied, "no more")
		}
		return nil
	})
	j = r.do("submit-batch", `{"objects":`+list+`,"concurrency":1,"ratePerSecond":1000}`)
	if j.err == nil || !strings.Contains(j.err.Error(), "1 of 3 jobs are queued and go on") {
		t.Errorf("%v", j.err)
	}
	r.wantStates("canceled", "queued")

	r.rdb.FlushDB(t.Context())
	r.Publish = usual
	r.emulator.Fail("Publish", 1, codes.PermissionDenied)
	j = r.do("submit-batch", `{"objects":`+list+`,"concurrency":3,"ratePerSecond":1000}`)
	begun := regexp.MustCompile(`(?m)^(objects\[.\]) is job (.*)$`).FindAllStringSubmatch(j.log.String(), -1)
	for _, line := range begun {
		job := "job " + line[2] + " of " + line[1] + " is "
		if log := j.log.String(); strings.Contains(log, job+"queued\n") == strings.Contains(log, job+"not published: ") {
			t.Errorf("the log does not say what became of job %s: %s", line[2], log)
		}
	}
	if len(begun) == 0 || !strings.Contains(j.log.String(), "is not published: ") {
		t.Errorf("the log names no job that was not published: %s", j.log.String())
	}
}

func TestJSubmitBatchOutlastsARestartOfRedis(t *testing.T) {
	t.Parallel()
	testrun.Long(t, "it waits for seconds")
	r := newRig(t)
	r.withQueues()
	_, list := r.objects(3)
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	j, wait := r.background(ctx, "submit-batch", `{"objects":`+list+`,"concurrency":1,"ratePerSecond":0.5}`)
	r.says(j, "of 3 jobs queued")
	r.redis.Kill()
	r.redis.Start()
	r.says(j, "0 of 3 jobs ended")
	cancel(nil)
	wait()
	r.wantStates("queued", "queued", "queued")
}

func TestJSubmitBatchThatIsCanceledLeavesItsJobs(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.withQueues()
	_, list := r.objects(2)
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	j, wait := r.background(ctx, "submit-batch", `{"objects":`+list+`,"pollIntervalMs":60000,"ratePerSecond":1000}`)
	r.says(j, "0 of 2 jobs ended")
	cancel(jobs.ErrCanceled)
	if wait(); !errors.Is(j.err, jobs.ErrCanceled) || !strings.Contains(j.log.String(), "jobs that are published go on") {
		t.Errorf("%v, log %q", j.err, j.log.String())
	}
	r.wantStates("queued", "queued")
	_, finish := r.work()
	finish(jobs.Outcome{State: jobs.Succeeded})
}

// A batch does not wait for jobs that Redis has lost. It keeps waiting for those that
// workers record again.
func TestJSubmitBatchFailsWhenJobsAreForgotten(t *testing.T) {
	t.Parallel()
	testrun.Long(t, "it waits for seconds")
	r := newRig(t)
	r.withQueues()
	_, list := r.objects(3)
	j, wait := r.background(t.Context(), "submit-batch", `{"objects":`+list+`,"ratePerSecond":1000,"pollIntervalMs":200}`)
	first, end := r.work()
	second, _ := r.work()
	third, _ := r.work()
	end(jobs.Outcome{State: jobs.Failed, Reason: "no PDF"})
	r.says(j, "1 of 3 jobs ended")
	forget := func(id jobs.ID) {
		t.Helper()
		if err := r.rdb.Del(t.Context(), r.keys("*"+string(id)+"*")...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	forget(first.ID) // it has been seen to end
	forget(second.ID)
	r.says(j, "1 of 3 jobs ended, 1 forgotten") // and waits: the third runs
	claim, err := r.Status.Claim(t.Context(), second, time.Minute, jobs.Claim{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Status.Finish(t.Context(), claim, jobs.Outcome{State: jobs.Succeeded}); err != nil {
		t.Fatal(err)
	}
	r.says(j, "2 of 3 jobs ended")
	forget(third.ID)
	failure := (*engine.Failure)(nil)
	if wait(); !errors.As(j.err, &failure) || failure.Code != "JOBS_FORGOTTEN" || !strings.Contains(j.err.Error(), "1 of 3 jobs are forgotten") {
		t.Fatalf("%v, want JOBS_FORGOTTEN", j.err)
	}
	want := map[string]any{"submitted": 3, "succeeded": 1, "failed": 1, "canceled": 0, "forgotten": 1}
	if !maps.Equal(failure.Details, want) {
		t.Errorf("details %v, want %v", failure.Details, want)
	}
	if log := j.log.String(); !strings.Contains(log, "job "+string(third.ID)+" of objects[") || strings.Count(log, "is forgotten\n") != 1 {
		t.Errorf("the log does not name the forgotten job alone: %s", log)
	}
}

func TestJSubmitBatchKeepsToItsRate(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.withQueues()
	_, list := r.objects(5)
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	begun := time.Now()
	j, wait := r.background(ctx, "submit-batch", `{"objects":`+list+`,"ratePerSecond":10,"concurrency":20}`)
	r.says(j, "of 5 jobs ended")
	if took := time.Since(begun); took < 400*time.Millisecond { // four waits; more is the machine's
		t.Errorf("five jobs at 10 a second took %s", took)
	}
	cancel(nil)
	wait()
}

func TestJResultOfABatchIsBounded(t *testing.T) {
	t.Parallel()
	const most = 1000
	for _, letter := range []string{"x", "&", "\U0001f4c4"} {
		var all []submitted
		for range most {
			all = append(all, submitted{"01KAAAAAAAAAAAAAAAAAAAAAAA", strings.Repeat(letter, 1024/len(letter)), jobs.Failed})
		}
		b, err := json.Marshal(resultOf(all))
		if res := resultOf(all); err != nil || len(b) > 1<<20 || len(b) < 1<<19 || res.Failed != most || len(res.Jobs)+res.Omitted != most || res.Omitted == 0 {
			t.Errorf("%s: %d bytes, %d jobs, %d omitted, %v", letter, len(b), len(res.Jobs), res.Omitted, err)
		}
	}
}

// wantStates compares the statuses of all jobs on record, in any order.
func (r *rig) wantStates(want ...string) {
	r.Helper()
	var got []string
	for _, key := range r.keys("job:*") {
		e, err := r.Status.Get(r.Context(), jobs.ID(strings.TrimPrefix(key, "job:")))
		if err != nil {
			r.Fatal(err)
		}
		got = append(got, e.Status)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		r.Errorf("the jobs are %q, want %q", got, want)
	}
}

// dies makes dead letters of jobs that have failed.
func (r *rig) dies(reason string, ids ...jobs.ID) {
	r.Helper()
	topic, err := pubsub.OpenDeadLetterTopic(r.Context(), testNames.Dead.Topic, r.opts...)
	if err != nil {
		r.Fatal(err)
	}
	defer topic.Close()
	for _, id := range ids {
		job := jobs.Job{ID: id, Kind: "pdf", Input: "uploads/x.pdf"}
		claim, err := r.Status.Claim(r.Context(), job, time.Minute, jobs.Claim{})
		if err != nil {
			r.Fatal(err)
		}
		if _, err := r.Status.Finish(r.Context(), claim, jobs.Outcome{State: jobs.Failed, Reason: reason}); err != nil {
			r.Fatal(err)
		}
		lease := jobs.Lease{Job: job, Raw: jobs.Raw{ID: "m-" + string(id), Data: []byte(`{"job_id":"` + string(id) + `","pdf_path":"uploads/x.pdf"}`)}}
		if err := topic.Add(r.Context(), lease, worker.DeadLetterInfo{Cause: worker.CauseFailed, At: time.Now(), Reason: reason, Attempt: 1}); err != nil {
			r.Fatal(err)
		}
	}
}

// wantDeadLetters compares the number of dead letters, none of them held, and of the
// messages that were ever published to the jobs' topic.
func (r *rig) wantDeadLetters(count int, published uint64) {
	r.Helper()
	stats := r.emulator.Stats() // dead, jobs, urgent
	if dead := stats[0]; dead.Undelivered != count || dead.Leased != 0 || stats[1].Published != published {
		r.Errorf("%d dead letters, %d held, %d jobs published; want %d, none, %d", dead.Undelivered, dead.Leased, stats[1].Published, count, published)
	}
}

func TestJRedriveQueuesDeadJobsAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.withQueues()
	r.wantLines(r.do("redrive", `{}`).lines, "collect succeeded: there are no dead letters, or somebody else holds them just now", "redrive succeeded: 0 redriven")
	r.dies("disk on fire", "a", "b")
	r.dies("no PDF", "c", "d", "e", "f")
	j := r.do("redrive", `{"reason":"on fire","ratePerSecond":1000}`)
	r.wantLines(j.lines, "collect succeeded: 2 of 6 dead letters chosen", "redrive succeeded: 2 redriven")
	r.wantDeadLetters(4, 2)
	r.wantStates("failed", "failed", "failed", "failed", "queued", "queued")

	// One has succeeded since, one runs: somebody else has redriven them.
	for _, id := range []jobs.ID{"c", "d"} {
		if _, err := r.Status.Requeue(t.Context(), jobs.Job{ID: id}); err != nil {
			t.Fatal(err)
		}
		claim, err := r.Status.Claim(t.Context(), jobs.Job{ID: id}, time.Minute, jobs.Claim{})
		if err != nil {
			t.Fatal(err)
		}
		if id == "c" {
			if _, err := r.Status.Finish(t.Context(), claim, jobs.Outcome{State: jobs.Succeeded}); err != nil {
				t.Fatal(err)
			}
		}
	}
	j = r.do("redrive", `{"count":3,"ratePerSecond":1000}`)
	r.wantLines(j.lines, "collect succeeded: 3 of 4 dead letters chosen", "redrive succeeded: 1 redriven, 1 dropped that had succeeded since, 1 left, for which the log says why")
	if want := `{"redriven":1,"dropped":1,"left":1}`; j.text() != want || !strings.Contains(j.log.String(), "job d: left: it is running\n") {
		t.Errorf("result %s, want %s; log %q", j.text(), want, j.log.String())
	}
	r.wantDeadLetters(2, 3)
	job, finish := r.work()
	if job.ID != "a" || job.Input != "uploads/x.pdf" {
		t.Errorf("job %+v came, want a as it was", job)
	}
	finish(jobs.Outcome{State: jobs.Succeeded})
}

func TestJRedriveStopsWhenTheSameErrorRepeats(t *testing.T) {
	t.Parallel()
	testrun.Long(t, "it waits for seconds")
	r := newRig(t)
	r.withQueues()
	const failed = 40 // at one a second, so that both failures are on record before the last
	var ids []jobs.ID
	for i := range failed {
		ids = append(ids, jobs.ID(fmt.Sprintf("j%d", i)))
	}
	r.dies("disk on fire", ids...)
	j, wait := r.background(t.Context(), "redrive", `{"stopAfter":2,"ratePerSecond":1}`)
	for range 2 {
		_, finish := r.work()
		finish(jobs.Outcome{State: jobs.Failed, Reason: "disk on fire"})
	}
	wait()
	failure := (*engine.Failure)(nil)
	if !errors.As(j.err, &failure) || failure.Code != "SAME_ERROR" || failure.Details["failedAgain"] != 2 || failure.Details["left"] == 0 {
		t.Fatalf("%v, want SAME_ERROR", j.err)
	}
	redriven, _ := failure.Details["redriven"].(int)
	r.wantDeadLetters(failed-redriven, uint64(redriven)) //nolint:gosec // a few
}

func TestJRedriveThatEndsHandsTheDeadLettersBack(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.withQueues()
	r.dies("disk on fire", "a", "b", "c")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	j, wait := r.background(ctx, "redrive", `{"ratePerSecond":0.01}`)
	r.says(j, "1 of 3 jobs looked at")
	cancel(jobs.ErrCanceled)
	if wait(); !errors.Is(j.err, jobs.ErrCanceled) {
		t.Error(j.err)
	}
	r.wantDeadLetters(2, 1)

	r.redis.Kill()
	if j = r.do("redrive", `{}`); !errors.Is(j.err, jobs.ErrUnavailable) {
		t.Errorf("without Redis: %v", j.err)
	}
	r.redis.Start()
	r.wantDeadLetters(2, 1)
	r.emulator.Fail("ModifyAckDeadline", 1, codes.Unavailable)
	if j = r.do("redrive", `{"ratePerSecond":1000}`); !errors.Is(j.err, jobs.ErrUnavailable) {
		t.Errorf("without a lease: %v", j.err)
	}
	r.wantDeadLetters(2, 1)
	if j = r.do("redrive", `{"ratePerSecond":1000}`); j.err != nil {
		t.Error(j.err)
	}
	r.wantDeadLetters(0, 3)
}

func TestJ20LimitsOfABatchAreTheServers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Batch = Batch{MaxSize: 2, MaxConcurrency: 3}
	for body, field := range map[string]string{
		`{"objects":["a","b"]}`:                 "", // the default of concurrency is above the limit
		`{"objects":["a","b"],"concurrency":3}`: "",
		`{"objects":["a","b"],"concurrency":4}`: "concurrency",
		`{"objects":["a","b","c"]}`:             "objects",
	} {
		req, err := r.request("submit-batch", body)
		wrong := (*jobapi.FieldError)(nil)
		if errors.As(err, &wrong) != (field != "") || wrong != nil && wrong.Field != field {
			t.Errorf("%s: %v, want a mistake in %q", body, err, field)
		}
		if b := req.(*submitBatch); err == nil && *b.Concurrency != 3 {
			t.Errorf("%s: concurrency %d, want 3", body, *b.Concurrency)
		}
	}
}

func TestJ27MissingObjectsAreNamedWithoutSecretsThatAreCut(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.withQueues()
	const words = "1. legal 2. winner 3. thank 4. year 5. wave 6. sausage 7. worth 8. useful 9. legal 10. winner 11. thank 12. yellow"
	j := r.do("submit-batch", `{"objects":["uploads/`+words+`"]}`)
	if j.err == nil || strings.Contains(j.err.Error(), "sausage") {
		t.Errorf("%v", j.err)
	}
}
