package member_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/grid/member"
	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/worker"
)

func TestG14FailureIsAResult(t *testing.T) {
	const secret = "password=hunter2 Bearer abcdefghijklmnop"
	tests := []struct {
		name string
		run  handler
		want string
	}{
		{"what the handler makes of it reaches the leader whole", func(_ context.Context, job jobs.Job) (jobs.Result, error) {
			return jobs.Result{}, &jobs.Failure{Code: "EXIT", Detail: resultText(job, wire.Failed, secret), Err: errors.New("exit 3")}
		}, "AckJob 1 as 11 FAILED " + secret},
		{"without a result of its handler it gets one", func(context.Context, jobs.Job) (jobs.Result, error) {
			return jobs.Result{}, &jobs.Failure{Code: "OOM", Err: errors.New("killed")}
		}, "AckJob 1 as 11 FAILED oom"},
		{"a failure without a code", func(context.Context, jobs.Job) (jobs.Result, error) {
			return jobs.Result{}, errors.New("no such file")
		}, "AckJob 1 as 11 FAILED error"},
		{"one that asks for another attempt is the leader's to decide", func(context.Context, jobs.Job) (jobs.Result, error) {
			return jobs.Result{}, &jobs.Failure{Code: "NO_SPACE", Retry: true, Err: errors.New("disk full")}
		}, "AckJob 1 as 11 FAILED no_space"},
		{"a panic", func(context.Context, jobs.Job) (jobs.Result, error) { panic("oops") }, "AckJob 1 as 11 FAILED error"},
		{"a job that takes too long", untilStopped, "AckJob 1 as 11 FAILED timeout"},
		{"what a job that takes too long has written", func(ctx context.Context, job jobs.Job) (jobs.Result, error) {
			<-ctx.Done()
			return jobs.Result{}, &jobs.Failure{Code: "TIMEOUT", Detail: resultText(job, wire.Failed, "so far"), Err: context.Cause(ctx)}
		}, "AckJob 1 as 11 FAILED so far"},
		{"a success without a text", func(context.Context, jobs.Job) (jobs.Result, error) { return jobs.Result{}, nil }, "AckJob 1 as 11 OK"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			test(t, 1, func(r *rig) {
				r.worker.JobTimeout = time.Minute
				r.start(tt.run)
				r.leaders[0].assign(1, 11)
				time.Sleep(2 * time.Minute)
				want(r, "result", r.leaders[0].heard(wire.AckJob), tt.want)
				if n := strings.Count(r.log.String(), "hunter2"); n > 0 {
					r.Errorf("the log has the output of the job")
				}
			})
		})
	}
}

func TestG14InvalidRequestIsRejected(t *testing.T) {
	test(t, 1, func(r *rig) {
		r.start(answer)
		for _, payload := range []string{"{", `{"JobId":"01000000-0000-0000-0000-000000000002"}`, "null"} {
			f := assignment(1, 11)
			f.Payload = []byte(payload)
			r.leaders[0].send(f)
			want(r, payload, r.leaders[0].heard(wire.AckJob), "AckJob 1 as 11 FAILED rejected")
		}
		want(r, "started", r.started(), "")
	})
}

func TestG14ResultHasIDsOfRequest(t *testing.T) {
	test(t, 1, func(r *rig) {
		r.start(func(context.Context, jobs.Job) (jobs.Result, error) { return jobs.Result{}, errors.New("no such file") })
		f := assignment(1, 11)
		index, array := int64(7), id(50)
		f.Payload = must(wire.JobRequest{JobID: id(1), ClientID: "clientA", ExecName: "calcA", Options: wire.Options{Index: &index, ArrayID: &array}})
		r.leaders[0].send(f)
		var got wire.JobResult
		if err := json.Unmarshal(r.leaders[0].lastSaid(wire.AckJob).Payload, &got); err != nil {
			r.Fatal(err)
		}
		if got.JobID != id(1) || got.ClientID != "clientA" || got.ExecName != "calcA" || *got.Index != 7 || *got.ArrayID != array ||
			got.Stderr != "no such file" || got.Message != "no such file" || got.Worker != "test" {
			r.Errorf("result %+v", got)
		}
	})
}

func TestG06G07TooLargeResultIsCut(t *testing.T) {
	room := wire.MaxAck("clientA") - len(resultText(jobs.Job{ID: jobs.ID(id(1).String())}, wire.OK, ""))
	leftOut := fmt.Sprintf("the output archive of 4194304 bytes is left out: the result would be larger than %d bytes", wire.MaxAck("clientA"))
	tests := []struct {
		name      string
		archive   int
		out       int
		truncated bool
		message   string
	}{
		{"the largest that fits", 0, room, false, ""},
		{"one byte more", 0, room + 1, true, ""},
		{"an archive that is too large", 4 << 20, 1000, false, leftOut},
		{"both", 4 << 20, 5 << 20, true, leftOut},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			test(t, 1, func(r *rig) {
				l := r.leaders[0]
				r.start(func(_ context.Context, job jobs.Job) (jobs.Result, error) {
					text := resultText(job, wire.OK, strings.Repeat("x", tt.out))
					if tt.archive > 0 {
						var result wire.JobResult
						_ = json.Unmarshal([]byte(text), &result)
						result.OutputArchive = make([]byte, tt.archive)
						text = string(must(result))
					}
					return jobs.Result{Text: text}, nil
				})
				l.assign(1, 11)
				f := l.lastSaid(wire.AckJob)
				asResult := wire.Frame{Type: wire.Result, Subject: wire.ResultSubject("clientA", id(1)), Payload: f.Payload}
				if err := asResult.Check(); err != nil {
					r.Error(err)
				}
				var got wire.JobResult
				if err := json.Unmarshal(f.Payload, &got); err != nil {
					r.Fatal(err)
				}
				if got.Status != wire.OK || got.OutputArchive != nil || got.StdoutTruncated != tt.truncated || got.Message != tt.message {
					r.Errorf("%s, %d bytes of archive, truncated %t, %q", got.Status, len(got.OutputArchive), got.StdoutTruncated, got.Message)
				}
				if !tt.truncated && len(got.Stdout) != tt.out {
					r.Errorf("%d bytes of output, want all %d", len(got.Stdout), tt.out)
				}
				if n := l.connections(); n != 1 {
					r.Errorf("%d connections, want one", n)
				}
			})
		})
	}
}

// limits is a handler with all that a loop may ask.
type limits struct{ handler }

func (limits) TimeLimit() time.Duration { return 7 * time.Second }

func (limits) RunAttempt(_ context.Context, a jobs.Attempt) (jobs.Result, error) {
	return jobs.Result{}, &jobs.Failure{Code: "EXIT", Detail: resultText(a.Job, wire.Failed, fmt.Sprint("attempt ", a.Number)), Err: errors.New("exit 3")}
}

func TestHandlerKeepsOptionalInterfaces(t *testing.T) {
	test(t, 1, func(r *rig) {
		r.start(answer)
		w := r.member.Handler(limits{})
		if got := w.(worker.TimeLimiter).TimeLimit(); got != 7*time.Second {
			r.Errorf("the limit is %s", got)
		}
		if got := r.member.Handler(handler(answer)).(worker.TimeLimiter).TimeLimit(); got != 0 {
			r.Errorf("the limit is %s, want none", got)
		}
		r.worker.Replace(map[jobs.Kind]worker.Handler{member.Kind: w})
		r.leaders[0].assign(1, 11)
		want(r, "result", r.leaders[0].heard(wire.AckJob), "AckJob 1 as 11 FAILED attempt 1")
	})
}

func TestG14FailedKeepsResult(t *testing.T) {
	test(t, 1, func(r *rig) {
		r.start(func(_ context.Context, job jobs.Job) (jobs.Result, error) {
			r.member.Failed(job, []byte(resultText(job, wire.Failed, "so far")))
			return jobs.Result{}, &jobs.Failure{Code: "EXIT", Final: true, Err: errors.New("exit 3")}
		})
		r.leaders[0].assign(1, 11)
		want(r, "result", r.leaders[0].heard(wire.AckJob), "AckJob 1 as 11 FAILED so far")
	})
}
