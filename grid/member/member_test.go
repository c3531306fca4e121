package member_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchfleet/batchfleet/grid/member"
	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/worker"
)

func answer(_ context.Context, job jobs.Job) (jobs.Result, error) { return ok(job, "4") }

func TestG11G34HelloHasPatternAndCredits(t *testing.T) {
	test(t, 1, func(r *rig) {
		l := r.leaders[0]
		r.member.Token, r.member.Version = "secret", "v1"
		r.start(answer)
		hello := l.firstSaid()
		var c wire.Capability
		if err := json.Unmarshal(hello.Payload, &c); err != nil {
			r.Fatal(err)
		}
		if hello.MsgID != r.member.ID || hello.MsgID.IsZero() || !hello.CorrID.IsZero() || c.Proto != 2 || c.Host != "test" || c.Version != "v1" || c.Token != "secret" {
			r.Errorf("hello %+v with %+v", hello, c)
		}
		want(r, "features", strings.Join(c.Features, " "), "accept cancel ping error resultack drain array report blob")
		want(r, "hello", l.heard(wire.HelloWorker, wire.Credit), "HelloWorker job.assign.* of 2; Credit 2")
		l.assign(1, 11)
		want(r, "the end of a job", l.heard(wire.AckJob, wire.Credit, wire.Accept), "AckJob 1 as 11 OK 4; Credit 1")
		time.Sleep(time.Minute)
		want(r, "while nothing happens", l.heard(wire.AckJob, wire.Credit, wire.Accept), "")
	})
}

func TestG11BadPatternIsRefused(t *testing.T) {
	for _, pattern := range []string{"job.assign.>", "job.*.gpu", "job..a", "job.>.a", "a b"} {
		m := &member.Member{Leaders: []string{"h:1"}, MaxParallel: 1, Dir: t.TempDir(), Pattern: pattern, Log: slog.New(slog.DiscardHandler)}
		err := m.Open(t.Context())
		if err == nil {
			_ = m.Close()
		}
		if valid := !strings.ContainsAny(pattern, " ") && !strings.Contains(pattern, "..") && !strings.Contains(pattern, ">."); valid != (err == nil) {
			t.Errorf("pattern %q: %v", pattern, err)
		}
	}
}

func TestSettingsAreChecked(t *testing.T) {
	for _, test := range []struct {
		leaders  []string
		parallel int
		keep     time.Duration
		want     string
	}{
		{nil, 1, 0, "no leader is given"},
		{[]string{"a"}, 1, 0, `"a" must be host:port`},
		{[]string{"a:1", ":2"}, 1, 0, `":2" must be host:port`},
		{[]string{"a:1", "a:1"}, 1, 0, "a:1 is there twice"},
		{[]string{"a:1"}, 0, 0, "0 jobs at once"},
		{[]string{"a:1"}, 10_001, 0, "10001 jobs at once"},
		{[]string{"a:1"}, 1, -1, "must be more than 0"},
		{[]string{strings.Repeat("a", 255) + ":1"}, 1, 0, "at most 255"},
	} {
		m := &member.Member{Leaders: test.leaders, MaxParallel: test.parallel, KeepRunning: test.keep, Dir: t.TempDir()}
		if err := m.Open(t.Context()); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("leaders %q, %d jobs, %s: %v; want %q in it", test.leaders, test.parallel, test.keep, err, test.want)
		}
	}
}

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

func TestG15G34CreditsNeverExceedTheWindow(t *testing.T) {
	test(t, 1, func(r *rig) {
		l := r.leaders[0]
		r.start(func(_ context.Context, job jobs.Job) (jobs.Result, error) {
			time.Sleep(time.Duration(job.ID[len(job.ID)-1]%5) * 100 * time.Millisecond)
			return ok(job, "")
		})
		credit, inHand := 0, 0
		for n := 1; n <= 200; {
			synctest.Wait()
			for _, f := range l.take() {
				switch f.Type {
				case wire.Credit:
					if len(f.Payload) != 4 {
						r.Fatalf("a Credit of %d bytes", len(f.Payload))
					}
					var c int
					_, _ = fmt.Sscanf(text(f), "Credit %d", &c)
					credit += c
				case wire.AckJob:
					inHand--
				default:
				}
				if credit+inHand > 2 || inHand < 0 {
					r.Fatalf("after %s: %d credits, and %d jobs in hand; want 2 together at most", text(f), credit, inHand)
				}
			}
			for ; credit > 0 && n <= 200; n++ {
				credit--
				inHand++
				l.assign(n, n)
			}
			time.Sleep(50 * time.Millisecond)
		}
		time.Sleep(time.Second)
		if n := len(strings.Fields(r.started())); n != 200 {
			r.Errorf("%d jobs were started, want 200", n)
		}
	})
}

func TestG34AssignmentsWithoutCreditAreLimited(t *testing.T) {
	test(t, 1, func(r *rig) {
		l := r.leaders[0]
		r.start(untilStopped)
		var many []wire.Frame
		for n := range 102 {
			many = append(many, assignment(n, n))
		}
		l.send(many...)
		if n := l.connections(); n != 1 {
			r.Fatalf("%d connections, want the first one", n)
		}
		l.send(assignment(103, 103))
		time.Sleep(time.Second)
		if n := l.connections(); n != 2 || !strings.Contains(r.log.String(), "assigns jobs without credit") {
			r.Errorf("%d connections, want another one", n)
		}
	})
}

func TestG36RepeatedAssignmentReturnsItsCredit(t *testing.T) {
	test(t, 1, func(r *rig) {
		l := r.leaders[0]
		done := make(chan struct{})
		r.start(func(_ context.Context, job jobs.Job) (jobs.Result, error) {
			<-done
			return ok(job, "")
		})
		l.heard()
		l.assign(1, 11)
		l.assign(1, 12) // it took the first one for lost
		want(r, "while it runs", l.heard(wire.AckJob, wire.Credit), "")
		close(done)
		want(r, "after it", l.heard(wire.AckJob, wire.Credit), "AckJob 1 as 12 OK; Credit 2")
		want(r, "started", r.started(), "01")
	})
}

func TestG36HandedBackJobFreesPlaceAfterDelay(t *testing.T) {
	test(t, 1, func(r *rig) {
		l := r.leaders[0]
		r.start(func(context.Context, jobs.Job) (jobs.Result, error) {
			return jobs.Result{}, fmt.Errorf("%w: the cache is away", jobs.ErrUnavailable)
		})
		l.heard()
		l.assign(1, 11)
		want(r, "at once", l.heard(wire.AckJob, wire.Credit, wire.Cancel), "Cancel 1 as 11 busy")
		time.Sleep(time.Minute)
		want(r, "later", l.heard(wire.AckJob, wire.Credit), "Credit 1")
	})
}

func TestG40OnlyLongJobsAreAccepted(t *testing.T) {
	test(t, 1, func(r *rig) {
		l := r.leaders[0]
		r.start(func(_ context.Context, job jobs.Job) (jobs.Result, error) {
			time.Sleep(time.Duration(job.ID[len(job.ID)-1]-'0') * 100 * time.Millisecond)
			return ok(job, "")
		})
		l.heard()
		l.assign(2, 12) // 200 ms
		time.Sleep(time.Second)
		want(r, "a short job", l.heard(wire.Accept, wire.AckJob), "AckJob 2 as 12 OK")
		l.assign(3, 13)
		time.Sleep(249 * time.Millisecond)
		want(r, "before 250 ms", l.heard(wire.Accept), "")
		time.Sleep(time.Second)
		want(r, "a longer job", l.heard(wire.Accept, wire.AckJob), "Accept 3 as 13; AckJob 3 as 13 OK")
	})
}

func TestG40WaitingJobIsAccepted(t *testing.T) {
	test(t, 1, func(r *rig) {
		l := r.leaders[0]
		r.start(untilStopped)
		l.heard()
		l.assignEach(1, 2, 3)
		time.Sleep(time.Second)
		want(r, "accepts", l.heard(wire.Accept), "Accept 1 as 11; Accept 2 as 12; Accept 3 as 13")
		want(r, "started", r.started(), "01 02")
	})
}

func TestG40RenewListsJobsInHand(t *testing.T) {
	test(t, 1, func(r *rig) {
		l := r.leaders[0]
		r.start(untilStopped)
		l.assign(1, 11)
		l.assign(2, 12)
		l.heard()
		time.Sleep(30*time.Second + 5*time.Millisecond)
		want(r, "in 30 s", l.heard(wire.Renew), strings.TrimSuffix(strings.Repeat("Renew seen 2 limit 2 1 as 11 2 as 12; ", 3), "; "))
	})
}

func TestG44ResultHasNewestAttempt(t *testing.T) {
	test(t, 1, func(r *rig) {
		l := r.leaders[0]
		r.start(func(_ context.Context, job jobs.Job) (jobs.Result, error) {
			time.Sleep(time.Second)
			return ok(job, "")
		})
		l.heard()
		l.assign(1, 11)
		l.assign(1, 12)
		l.cancel(1, 11, wire.ReasonLost) // the first one, which is the other one by now
		time.Sleep(2 * time.Second)
		want(r, "result", l.heard(wire.AckJob), "AckJob 1 as 12 OK")
	})
}

func TestG44OriginalLeaderIsServed(t *testing.T) {
	test(t, 1, func(r *rig) {
		l := r.leaders[0]
		l.features = nil
		r.start(func(_ context.Context, job jobs.Job) (jobs.Result, error) {
			time.Sleep(time.Second)
			return ok(job, "")
		})
		l.assign(1, 0)
		time.Sleep(time.Hour)
		all := []wire.Type{wire.HelloWorker, wire.Credit, wire.AckJob, wire.Accept, wire.Renew, wire.Ping, wire.Drain, wire.Error}
		want(r, "it is told", l.heard(all...), "HelloWorker job.assign.* of 2; Credit 2; AckJob 1 as 0 OK; Credit 1")
		if n := l.connections(); n != 1 {
			r.Errorf("%d connections, want one", n)
		}
		want(r, "what is undelivered", r.undelivered(), "")
		l.assign(2, 0)
		r.stop()
		want(r, "the drain", l.heard(all...), "AckJob 2 as 0 OK")
	})
}

func TestCancelStopsAJob(t *testing.T) {
	tests := []struct {
		name, reason, want string
		slots              int
	}{
		{"one that runs", wire.ReasonCanceled, "AckJob 1 as 11 FAILED canceled; Credit 1", 1},
		{"one that waits for a loop that is not ready", wire.ReasonCanceled, "AckJob 1 as 11 FAILED canceled", 0},
		{"one that another worker has", wire.ReasonLost, "Credit 1", 1},
		{"one that waits for it and another worker has", wire.ReasonLost, "", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			test(t, 1, func(r *rig) {
				l := r.leaders[0]
				if tt.slots == 0 {
					r.worker.Checks = map[string]func(context.Context) error{"never": func(context.Context) error { return errors.New("not ready") }}
				}
				r.start(untilStopped)
				l.heard()
				l.assign(1, 11)
				l.cancel(1, 11, tt.reason)
				time.Sleep(2 * time.Second)
				want(r, "the leader is told", l.heard(wire.AckJob, wire.Credit), tt.want)
				l.cancel(1, 11, tt.reason) // it is over
				l.cancel(77, 0, tt.reason) // and this never was
				want(r, "and then", l.heard(wire.AckJob, wire.Credit), "")
			})
		})
	}
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

func TestG34JobsThatComeTogetherStartTogether(t *testing.T) {
	test(t, 1, func(r *rig) {
		l := r.leaders[0]
		r.start(func(_ context.Context, job jobs.Job) (jobs.Result, error) {
			time.Sleep(time.Second)
			return ok(job, "")
		})
		for round := range 50 {
			l.send(assignment(2*round, 1), assignment(2*round+1, 2))
			if n := len(strings.Fields(r.started())); n != 2*round+2 {
				r.Fatalf("round %d: %d jobs were started so far, want %d", round, n, 2*round+2)
			}
			time.Sleep(2 * time.Second)
		}
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
