package workertest

import (
	"context"
	"errors"
	"io/fs"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/worker"
)

// Store is a status under test with what people ask of it. It gives a job up after
// three crashes.
type Store interface {
	worker.Status
	Submit(ctx context.Context, job jobs.Job) (bool, error)
	Cancel(ctx context.Context, id jobs.ID) (jobs.State, error)
}

// Logger is a Store whose logs can be read. It keeps at most some 5 MB of the log of a job, by
// bytes, and may have lines of its own there.
type Logger interface {
	Store
	Log(ctx context.Context, id jobs.ID) ([]string, error)
}

// Status runs the suite. Every test calls open for an empty store of its own. What a
// [Logger] must keep is tested if it is one.
func Status(t *testing.T, open func(t *testing.T) Store) {
	t.Helper()
	for _, test := range []struct {
		name string
		run  func(*testing.T, store)
	}{
		{"a job has one owner", oneOwner},
		{"a claim whose answer was lost may be asked for again", claimAgain},
		{"a stale attempt writes nothing", staleAttempt},
		{"a report prolongs the claim", reportProlongs},
		{"an outcome is recorded once", finishOnce},
		{"crashes are counted before the start", countsCrashes},
		{"a release is no crash", releaseIsNoCrash},
		{"a late release takes the crash off again", lateRelease},
		{"a failed attempt is counted once", retryOnce},
		{"a job waits for its next attempt", retryWaits},
		{"failures and crashes are counted apart", retryIsNoCrash},
		{"a waiting job that is canceled never starts", cancelWaiting},
		{"a job that is canceled while its attempt fails has ended", cancelFailing},
		{"a job that is left to others is queued", leaveQueues},
		{"a job that is left to others keeps what it has", leaveChangesNothing},
		{"a job is submitted once", submitOnce},
		{"a queued job that is canceled never starts", cancelQueued},
		{"a running job gets a cancel by its report", cancelRunning},
		{"a canceled job whose worker is lost has ended", cancelAbandoned},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, store{open(t)}) })
	}
	if _, ok := open(t).(Logger); ok {
		for name, run := range logTests {
			t.Run(name, func(t *testing.T) { run(t, store{open(t)}) })
		}
	}
}

type store struct{ Store }

// A claim for forever outlasts the test, one for an instant is over by the next call.
const (
	forever = time.Hour
	instant = time.Millisecond
)

// claim claims job "a" once no other claim holds any more.
func (s store) claim(t *testing.T, hold time.Duration, want jobs.Verdict) jobs.Claim {
	t.Helper()
	for {
		c, err := s.Claim(within(t), jobs.Job{ID: "a", Kind: "mock"}, hold, jobs.Claim{})
		switch {
		case err != nil:
			t.Fatal(err)
		case c.Verdict == jobs.Busy && want != jobs.Busy && c.Wait <= time.Minute:
			if err := jobs.Sleep(within(t), c.Wait); err != nil {
				t.Fatal(err)
			}
		case c.Verdict != want:
			t.Fatalf("claim %+v, want verdict %d", c, want)
		default:
			return c
		}
	}
}

func (s store) report(t *testing.T, c jobs.Claim) error {
	t.Helper()
	return s.Report(within(t), c, forever, &jobs.Progress{Done: 1, Total: 2, Message: "Page 1/2 analyzing..."}, jobs.Lines{Text: []string{"line"}})
}

func (s store) finish(t *testing.T, c jobs.Claim, o jobs.Outcome, want jobs.State) {
	t.Helper()
	if state, err := s.Finish(within(t), c, o); err != nil || state != want {
		t.Errorf("finish as %s: %s, %v; want %s on record", o.State, state, err, want)
	}
}

func (s store) cancel(t *testing.T, want jobs.State) {
	t.Helper()
	if state, err := s.Cancel(within(t), "a"); err != nil || state != want {
		t.Errorf("cancel: %s, %v; want %s", state, err, want)
	}
}

// retry reports a failed attempt that is to be made again.
func (s store) retry(t *testing.T, c jobs.Claim, after time.Duration, want jobs.State) {
	t.Helper()
	o := jobs.Outcome{State: jobs.Failed, Reason: "exit 3", Retry: true, RetryAfter: after}
	if state, err := s.Retry(within(t), c, o); err != nil || state != want {
		t.Errorf("retry: %s, %v; want %s on record", state, err, want)
	}
}

func wantLost(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, jobs.ErrLeaseLost) {
		t.Errorf("%s: %v, want ErrLeaseLost", what, err)
	}
}

func oneOwner(t *testing.T, s store) {
	first := s.claim(t, forever, jobs.Granted)
	if first.Token == "" || first.Attempt != 1 || first.Crashes != 0 {
		t.Errorf("claim %+v, want a token, attempt 1 and no crash", first)
	}
	if busy := s.claim(t, forever, jobs.Busy); busy.Wait <= forever-time.Minute || busy.Wait > forever {
		t.Errorf("busy for %s, want what is left of the other's hour", busy.Wait)
	}
	if err := s.report(t, first); err != nil {
		t.Errorf("report of the owner: %v", err)
	}
}

func claimAgain(t *testing.T, s store) {
	first := s.claim(t, forever, jobs.Granted)
	again, err := s.Claim(within(t), jobs.Job{ID: "a", Kind: "mock"}, forever, first)
	if err != nil || again.Verdict != jobs.Granted || again.Token != first.Token || again.Attempt != 1 {
		t.Errorf("claim %+v, %v; want the same grant", again, err)
	}
}

func staleAttempt(t *testing.T, s store) {
	stale := s.claim(t, instant, jobs.Granted)
	owner := s.claim(t, forever, jobs.Granted)
	wantLost(t, "stale report", s.report(t, stale))
	_, err := s.Finish(within(t), stale, jobs.Outcome{State: jobs.Failed, Reason: "stale"})
	wantLost(t, "stale finish", err)
	_, err = s.Retry(within(t), stale, jobs.Outcome{State: jobs.Failed, Reason: "stale", Retry: true})
	wantLost(t, "stale retry", err)
	wantLost(t, "stale release", s.Release(within(t), stale, "stale"))
	if err := s.report(t, owner); err != nil {
		t.Errorf("report of the owner: %v", err)
	}
	s.finish(t, owner, jobs.Outcome{State: jobs.Succeeded}, jobs.Succeeded)
}

func reportProlongs(t *testing.T, s store) {
	c := s.claim(t, instant, jobs.Granted)
	if err := s.report(t, c); err != nil { // a claim that no other has taken is still held
		t.Fatal(err)
	}
	s.claim(t, forever, jobs.Busy)
}

func finishOnce(t *testing.T, s store) {
	c := s.claim(t, forever, jobs.Granted)
	s.finish(t, c, jobs.Outcome{State: jobs.Failed, Reason: "first"}, jobs.Failed)
	s.finish(t, c, jobs.Outcome{State: jobs.Succeeded}, jobs.Failed) // no error: the ack may go out
	s.retry(t, c, 0, jobs.Failed)
	wantLost(t, "report after the end", s.report(t, c))
	wantLost(t, "release after the end", s.Release(within(t), c, "again"))
	if ended := s.claim(t, forever, jobs.Ended); ended.State != jobs.Failed || ended.Reason != "first" || ended.Attempt != 1 {
		t.Errorf("claim after the end: %+v; want the first outcome, of attempt 1", ended)
	}
}

func countsCrashes(t *testing.T, s store) {
	for n := range 3 {
		if c := s.claim(t, instant, jobs.Granted); c.Attempt != n+1 || c.Crashes != n {
			t.Errorf("claim %+v, want attempt %d after %d crashes", c, n+1, n)
		}
	}
	last := s.claim(t, forever, jobs.CrashLoop)
	if last.Attempt != 4 || last.Crashes != 3 {
		t.Errorf("claim %+v, want attempt 4 after 3 crashes", last)
	}
	s.finish(t, last, jobs.Outcome{State: jobs.Failed, Reason: "worker crashed 3 times"}, jobs.Failed)
}

func releaseIsNoCrash(t *testing.T, s store) {
	for n := range 6 {
		c := s.claim(t, forever, jobs.Granted)
		if c.Attempt != n+1 || c.Crashes != 0 {
			t.Fatalf("claim %+v, want attempt %d without crashes", c, n+1)
		}
		if err := s.Release(within(t), c, "Worker stopped; waiting for another worker"); err != nil {
			t.Fatal(err)
		}
		wantLost(t, "report after the release", s.report(t, c))
	}
}

func lateRelease(t *testing.T, s store) {
	first := s.claim(t, instant, jobs.Granted)
	second := s.claim(t, forever, jobs.Granted)
	if second.Crashes != 1 {
		t.Errorf("claim %+v, want one crash", second)
	}
	for range 2 { // the second one takes nothing off
		wantLost(t, "late release", s.Release(within(t), first, "Worker stopped"))
	}
	if err := s.Release(within(t), second, "Worker stopped"); err != nil {
		t.Fatal(err)
	}
	if third := s.claim(t, forever, jobs.Granted); third.Attempt != 3 || third.Crashes != 0 {
		t.Errorf("claim %+v, want attempt 3 without crashes", third)
	}
}

func retryOnce(t *testing.T, s store) {
	first := s.claim(t, forever, jobs.Granted)
	for range 2 { // the answer to the first call may be lost
		s.retry(t, first, 0, jobs.Queued)
	}
	second := s.claim(t, forever, jobs.Granted)
	if second.Attempt != 2 || second.Failures != 1 || second.Crashes != 0 {
		t.Errorf("claim %+v, want attempt 2 after a failure and no crash", second)
	}
	s.retry(t, first, forever, jobs.Queued) // also when the job runs again
	if err := s.report(t, second); err != nil {
		t.Errorf("report of the owner: %v", err)
	}
	s.retry(t, second, 0, jobs.Queued)
	if third := s.claim(t, forever, jobs.Granted); third.Attempt != 3 || third.Failures != 2 {
		t.Errorf("claim %+v, want attempt 3 after 2 failures", third)
	}
}

func retryWaits(t *testing.T, s store) {
	c := s.claim(t, forever, jobs.Granted)
	s.retry(t, c, forever, jobs.Queued)
	for range 2 {
		if w := s.claim(t, forever, jobs.Waiting); w.Wait <= forever-time.Minute || w.Wait > forever {
			t.Errorf("it waits for %s, want what is left of its hour", w.Wait)
		}
	}
	wantLost(t, "report after the failure", s.report(t, c))
	_, err := s.Finish(within(t), c, jobs.Outcome{State: jobs.Succeeded})
	wantLost(t, "finish after the failure", err)
	wantLost(t, "release after the failure", s.Release(within(t), c, "Worker stopped"))
	s.claim(t, forever, jobs.Waiting)
}

func retryIsNoCrash(t *testing.T, s store) {
	for n := range 5 {
		c := s.claim(t, forever, jobs.Granted)
		if c.Attempt != n+1 || c.Failures != n || c.Crashes != 0 {
			t.Fatalf("claim %+v, want attempt %d after %d failures and no crash", c, n+1, n)
		}
		s.retry(t, c, 0, jobs.Queued)
	}
	s.claim(t, instant, jobs.Granted)
	if c := s.claim(t, forever, jobs.Granted); c.Attempt != 7 || c.Failures != 5 || c.Crashes != 1 {
		t.Errorf("claim %+v, want attempt 7 after 5 failures and a crash", c)
	}
}

func cancelWaiting(t *testing.T, s store) {
	s.retry(t, s.claim(t, forever, jobs.Granted), forever, jobs.Queued)
	s.cancel(t, jobs.Canceled)
	if ended := s.claim(t, forever, jobs.Ended); ended.State != jobs.Canceled || ended.Attempt != 1 {
		t.Errorf("claim %+v, want it canceled after attempt 1", ended)
	}
}

func cancelFailing(t *testing.T, s store) {
	c := s.claim(t, forever, jobs.Granted)
	s.cancel(t, jobs.Running)
	for range 2 {
		s.retry(t, c, forever, jobs.Canceled)
	}
	if ended := s.claim(t, forever, jobs.Ended); ended.State != jobs.Canceled {
		t.Errorf("claim %+v, want it canceled", ended)
	}
}

// leave leaves job "a" to others, if the store can.
func (s store) leave(t *testing.T, want jobs.State) {
	t.Helper()
	l, ok := s.Store.(worker.KindStatus)
	if !ok {
		t.Skip("it is no worker.KindStatus")
	}
	age, state, err := l.Leave(within(t), jobs.Job{ID: "a", Kind: "mock"}, "no worker has taken it yet")
	if err != nil || state != want || age < 0 || age > time.Minute {
		t.Errorf("leave: it is %s and %s old, %v; want %s and a moment", state, age, err, want)
	}
}

func leaveQueues(t *testing.T, s store) {
	for range 2 {
		s.leave(t, jobs.Queued)
	}
	if fresh, err := s.Submit(within(t), jobs.Job{ID: "a", Kind: "mock"}); err != nil || fresh {
		t.Errorf("submit: %t, %v; want it known", fresh, err)
	}
	if c := s.claim(t, forever, jobs.Granted); c.Attempt != 1 {
		t.Errorf("claim %+v, want attempt 1", c)
	}
}

func leaveChangesNothing(t *testing.T, s store) {
	c := s.claim(t, forever, jobs.Granted)
	s.leave(t, jobs.Running)
	if err := s.report(t, c); err != nil {
		t.Errorf("report of the owner: %v", err)
	}
	s.retry(t, c, forever, jobs.Queued)
	s.leave(t, jobs.Queued)
	s.claim(t, forever, jobs.Waiting)
	s.cancel(t, jobs.Canceled)
	s.leave(t, jobs.Canceled)
	s.claim(t, forever, jobs.Ended)
}

func submitOnce(t *testing.T, s store) {
	for _, want := range []bool{true, false} {
		if fresh, err := s.Submit(within(t), jobs.Job{ID: "a", Kind: "mock"}); err != nil || fresh != want {
			t.Errorf("submit: %t, %v; want %t", fresh, err, want)
		}
	}
	s.claim(t, forever, jobs.Granted)
}

func cancelQueued(t *testing.T, s store) {
	if _, err := s.Cancel(within(t), "a"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("cancel of an unknown job: %v, want ErrNotExist", err)
	}
	if _, err := s.Submit(within(t), jobs.Job{ID: "a", Kind: "mock"}); err != nil {
		t.Fatal(err)
	}
	s.cancel(t, jobs.Canceled)
	if c := s.claim(t, forever, jobs.Ended); c.State != jobs.Canceled {
		t.Errorf("claim %+v, want it canceled", c)
	}
}

func cancelRunning(t *testing.T, s store) {
	c := s.claim(t, forever, jobs.Granted)
	s.cancel(t, jobs.Running)
	if err := s.report(t, c); !errors.Is(err, jobs.ErrCanceled) {
		t.Errorf("report: %v, want ErrCanceled", err)
	}
	s.finish(t, c, jobs.Outcome{State: jobs.Canceled}, jobs.Canceled)
}

func cancelAbandoned(t *testing.T, s store) {
	c := s.claim(t, instant, jobs.Granted)
	s.cancel(t, jobs.Running)
	if ended := s.claim(t, forever, jobs.Ended); ended.State != jobs.Canceled {
		t.Errorf("claim %+v, want it canceled", ended)
	}
	s.finish(t, c, jobs.Outcome{State: jobs.Succeeded}, jobs.Canceled)
}
