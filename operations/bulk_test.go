package operations

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchfleet/batchfleet/internal/testrun"
	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobapi/engine"
	"github.com/batchfleet/batchfleet/jobs"
)

func TestD31CancelActsOnWhatTheFilterSelects(t *testing.T) {
	for name, test := range map[string]struct {
		body, want string
	}{
		"a kind":                {`"kind":"a"`, "5 canceled"},
		"a worker":              {`"worker":"w1"`, "3 canceled"},
		"ids":                   {`"id_prefix":"job-000000"`, "10 canceled"},
		"one id":                {`"id_prefix":"job-0000007"`, "1 canceled"},
		"a text of the request": {`"q":"IN/3"`, "1 canceled"},
		"since":                 {`"since":"3500ms"`, "3 canceled"},
		"until":                 {`"until":"8s"`, "2 canceled"},
		"all":                   {`"all":true`, "10 canceled"},
		"at most":               {`"all":true,"maxJobs":4`, "4 canceled; more match: maxJobs is 4"},
		"kind and worker":       {`"kind":"b","worker":"w0"`, "2 canceled"},
		"another state":         {`"status":"running"`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &made{n: 10, state: jobs.Queued, born: time.Now().Add(-10 * time.Second)}
				j := bulked(t, m, "cancel", `{"scope":"fleet",`+test.body+`}`)
				want := []string{"count", "cancel skipped: no job matches"}
				if test.want != "" {
					want[1] = "cancel succeeded: " + test.want
				}
				if j.err != nil || len(j.lines) != 2 || !strings.HasPrefix(j.lines[0], want[0]) || j.lines[1] != want[1] {
					t.Errorf("%q, %v; want %q", j.lines, j.err, want)
				}
			})
		})
	}
}

func TestD31DryRunCountsFirst(t *testing.T) {
	m := &made{n: 30_000, state: jobs.Failed, born: time.Now().Add(-24 * time.Hour)}
	for body, want := range map[string]string{
		`"kind":"a","id_prefix":"job-00000"`: "run 50 jobs: job-0000098, job-0000096, job-0000094, job-0000092, job-0000090, …",
		`"id_prefix":"job-0000007"`:          "run 1 job: job-0000007",
		`"status":"failed"`:                  "run at least 10000 jobs: job-0029999, job-0029998, job-0029997, job-0029996, job-0029995, …",
		`"kind":"none"`:                      "skip no job matches",
	} {
		req, err := bulkOf(t, again{m}, "retry", `{"scope":"fleet","dryRun":true,"ratePerSecond":2.5,`+body+`}`)
		if err != nil {
			t.Fatal(err)
		}
		e := &engine.Engine{Scope: "utils", Supported: Bulk(map[string]jobapi.Jobs{"fleet": again{m}})}
		plan, err := e.Plan(t.Context(), "retry", req)
		if err != nil || len(plan) != 2 {
			t.Fatalf("%s: %v, %v", body, plan, err)
		}
		if got := plan[0].Action + " " + plan[0].Reason; got != want {
			t.Errorf("%s: %s, want %s", body, got, want)
		}
		action, reason, _ := strings.Cut(want, " ")
		if action == "run" {
			reason = "retry them, newest first, at most 2.5 a second and 1000000 jobs"
		}
		if plan[1].Action != action || plan[1].Reason != reason {
			t.Errorf("%s: %+v, want %s %s", body, plan[1], action, reason)
		}
	}
	if len(m.changed) > 0 {
		t.Errorf("a dry run has changed %d jobs", len(m.changed))
	}
	m.away = 1
	req, err := bulkOf(t, again{m}, "retry", `{"scope":"fleet","all":true,"dryRun":true}`)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := req.Steps()[0].AlreadyDone(t.Context()); !errors.Is(err, jobs.ErrUnavailable) {
		t.Errorf("a store that is away: %v", err)
	}
}

func TestD31FilterIsChecked(t *testing.T) {
	m := &made{n: 1, state: jobs.Failed}
	for body, field := range map[string]string{
		`"scope":"fleet"`:                                             "all", // nothing else
		`"scope":"fleet","all":false`:                                 "all",
		`"scope":"zpe","all":true`:                                    "scope",
		`"all":true`:                                                  "scope",
		`"scope":"fleet","status":"running"`:                          "status", // of retry
		`"scope":"fleet","status":"dead"`:                             "status",
		`"scope":"fleet","kind":"a b"`:                                "kind",
		`"scope":"fleet","id_prefix":"../x"`:                          "id_prefix",
		`"scope":"fleet","error":"12"`:                                "error",
		`"scope":"fleet","since":"yesterday"`:                         "since",
		`"scope":"fleet","since":"-5m"`:                               "since",
		`"scope":"fleet","until":"9999d"`:                             "until",
		`"scope":"fleet","worker":"` + strings.Repeat("x", 257) + `"`: "worker",
		`"scope":"fleet","q":"` + strings.Repeat("ä", 201) + `"`:      "q",
		`"scope":"fleet","all":true,"ratePerSecond":0`:                "ratePerSecond",
		`"scope":"fleet","all":true,"ratePerSecond":1001`:             "ratePerSecond",
		`"scope":"fleet","all":true,"maxJobs":0`:                      "maxJobs",
		`"scope":"fleet","all":true,"maxJobs":1000001`:                "maxJobs",
		`"scope":"fleet","all":true,"stopAfterErrors":0`:              "stopAfterErrors",
	} {
		_, err := bulkOf(t, again{m}, "retry", "{"+body+"}")
		if wrong, ok := errors.AsType[*jobapi.FieldError](err); !ok || wrong.Field != field {
			t.Errorf("%s: %v, want a problem with %s", body, err, field)
		}
	}
	_, err := bulkOf(t, m, "retry", `{"scope":"fleet","all":true}`)
	if wrong, ok := errors.AsType[*jobapi.FieldError](err); !ok || wrong.Field != "scope" {
		t.Errorf("retry of jobs that cannot: %v", err)
	}
	for _, body := range []string{`"since":"2026-01-31T12:00:00Z"`, `"since":"7d"`, `"until":"1h30m"`, `"status":"failed"`, `"error":"0123456789abcdef"`} {
		if _, err := bulkOf(t, again{m}, "retry", `{"scope":"fleet",`+body+`}`); err != nil {
			t.Errorf("%s: %v", body, err)
		}
	}
}

func TestD31StopsAfterErrorsInARow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &made{n: 100, state: jobs.Queued, born: time.Now().Add(-time.Hour), fail: func(number int) error {
			if number < 50 || number%2 == 0 { // from 50 on every other one
				return errors.New("wrong type of key")
			}
			return nil
		}}
		j := bulked(t, m, "cancel", `{"scope":"fleet","all":true,"stopAfterErrors":3}`)
		stop, ok := errors.AsType[*engine.Failure](j.err)
		if !ok || stop.Code != "REPEATED_ERRORS" || stop.Details["done"] != 25 || stop.Details["errors"] != 27 { // 50 and 49 are in a row, and 48
			t.Errorf("%v, %+v", j.err, stop)
		}
		if want := "3 errors in a row, the last: wrong type of key"; !strings.Contains(j.err.Error(), want) {
			t.Errorf("%v, want %s", j.err, want)
		}
		if n := strings.Count(j.log.String(), "wrong type of key"); n != 27 || !strings.Contains(j.log.String(), "job job-0000048: wrong") {
			t.Errorf("%d lines in the log:\n%s", n, j.log.String())
		}
	})
}

func TestD31RetryStopsWhenJobsFailAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &made{n: 1000, state: jobs.Failed, born: time.Now().Add(-time.Hour), ends: func(int) jobs.State { return jobs.Failed }}
		j := bulked(t, again{m}, "retry", `{"scope":"fleet","all":true,"ratePerSecond":10,"stopAfterErrors":5}`)
		stop, ok := errors.AsType[*engine.Failure](j.err)
		if !ok || stop.Code != "REPEATED_ERRORS" || stop.Details["done"].(int) > 25 || stop.Details["failedAgain"].(int) < 5 {
			t.Errorf("%v, %+v", j.err, stop)
		}
		if want := "failed again: FAILED: no space for page 999"; !strings.Contains(j.log.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, j.log.String())
		}
		// Every other one succeeds: none are in a row.
		m = &made{n: 100, state: jobs.Failed, born: time.Now().Add(-time.Hour), ends: func(n int) jobs.State {
			return map[int]jobs.State{0: jobs.Failed, 1: jobs.Succeeded}[n%2]
		}}
		j = bulked(t, again{m}, "retry", `{"scope":"fleet","status":"failed","ratePerSecond":10,"stopAfterErrors":2}`)
		if j.err != nil || !strings.HasPrefix(j.lines[1], "retry succeeded: 100 queued again, ") {
			t.Errorf("%v, %q", j.err, j.lines)
		}
	})
}

func TestD31JobsThatHaveEndedMeanwhileAreNoErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := &jobapi.Refusal{Status: http.StatusConflict, Code: jobapi.CodeConflict, Message: "Submit it again"}
		m := &made{n: 9, state: jobs.Failed, born: time.Now().Add(-time.Hour), fail: func(number int) error {
			return map[int]error{0: jobapi.NoJob("x"), 1: jobapi.ErrNotFailed, 2: refused, 3: fmt.Errorf("odd: %w", fs.ErrNotExist)}[number%4]
		}}
		j := bulked(t, again{m}, "retry", `{"scope":"fleet","all":true,"stopAfterErrors":1}`)
		if want := `{"matched":9,"done":0,"skipped":7,"refused":2,"errors":0,"stopping":0,"failedAgain":0,"more":false}`; j.err != nil || j.text() != want {
			t.Errorf("%v, %s, want %s", j.err, j.text(), want)
		}
		if want := "job job-0000006: Submit it again\njob job-0000002: Submit it again\n"; j.log.String() != want {
			t.Errorf("log %q, want %q", j.log.String(), want)
		}
	})
}

func TestD31JobsThatAreMadeLaterAreNotMet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &made{n: 300, state: jobs.Queued, born: time.Now().Add(-300 * time.Second)}
		m.after = func(int) { // for each job another that runs at once, and is canceled too if nothing bounds it
			m.n++
			m.changed[m.n-1] = jobs.Running
		}
		j := bulked(t, m, "cancel", `{"scope":"fleet","all":true}`)
		if want := "cancel succeeded: 300 canceled"; j.err != nil || j.lines[1] != want {
			t.Errorf("%v, %q, want %q", j.err, j.lines, want)
		}
	})
}

func TestD31WaitsWhileTheStoreIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &made{n: 10, state: jobs.Queued, born: time.Now().Add(-time.Hour)}
		m.after = func(number int) {
			if number == 5 {
				m.away = 4
			}
		}
		j := bulked(t, m, "cancel", `{"scope":"fleet","all":true,"stopAfterErrors":1}`)
		if j.err != nil || j.lines[1] != "cancel succeeded: 10 canceled" || strings.Count(j.log.String(), "asking again") != 1 {
			t.Errorf("%v, %q, log %s", j.err, j.lines, j.log.String())
		}
		m.away, m.changed = 1_000_000, nil
		j = bulked(t, m, "cancel", `{"scope":"fleet","all":true}`)
		if !errors.Is(j.err, jobs.ErrUnavailable) {
			t.Errorf("a store that stays away: %v", j.err)
		}
	})
}

func TestD31CanBeCanceledItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &made{n: 100, state: jobs.Queued, born: time.Now().Add(-time.Hour)}
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("canceled by somebody")
		m.after = func(number int) {
			if number == 90 {
				cancel(why)
			}
		}
		req, err := bulkOf(t, m, "cancel", `{"scope":"fleet","all":true,"ratePerSecond":1}`)
		if err != nil {
			t.Fatal(err)
		}
		j := &ran{changed: make(chan struct{}, 1)}
		j.run(ctx, req)
		if !errors.Is(j.err, why) || len(m.changed) != 10 || j.now != "10 of 100 jobs: 10 canceled" {
			t.Errorf("%v, %d canceled, message %q", j.err, len(m.changed), j.now)
		}
	})
}

func TestD31RateIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &made{n: 101, state: jobs.Queued, born: time.Now().Add(-time.Hour)}
		began := time.Now()
		bulked(t, m, "cancel", `{"scope":"fleet","all":true,"ratePerSecond":20}`)
		if took := time.Since(began); took != 5*time.Second { // by the clock of the test, which nothing delays
			t.Errorf("101 jobs at 20 a second: %s", took)
		}
	})
}

func TestD31RetryOfAnErrorGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &made{n: 10, state: jobs.Failed, born: time.Now().Add(-time.Hour)}
		group := jobapi.Fingerprint("fleet.a", &jobapi.Error{Code: "FAILED", Message: "no space for page 17"})
		j := bulked(t, again{m}, "retry", `{"scope":"fleet","error":"`+group+`"}`)
		if want := "retry succeeded: 5 queued again"; j.err != nil || j.lines[1] != want || m.changed[0] != jobs.Queued || m.changed[1] != 0 {
			t.Errorf("%v, %q, want %q", j.err, j.lines, want)
		}
	})
}

func TestD31MillionJobsAtFlatMemory(t *testing.T) {
	testrun.Long(t, "it looks at a million jobs twice")
	synctest.Test(t, func(t *testing.T) {
		m := &made{n: 1_000_000, state: jobs.Queued, born: time.Now().Add(-20 * 24 * time.Hour), fail: func(int) error { return jobapi.ErrEnded }}
		j := bulked(t, m, "cancel", `{"scope":"fleet","q":"in/","ratePerSecond":1000}`)
		if want := "cancel succeeded: 1000000 changed meanwhile"; j.err != nil || j.lines[1] != want {
			t.Errorf("%v, %q, want %q", j.err, j.lines, want)
		}
		if m.largest > jobapi.MaxGet {
			t.Errorf("%d jobs at once", m.largest)
		}
	})
}
