package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/worker"
)

// writing is a handler whose jobs write lines.
type writing struct {
	handler
	write func(ctx context.Context, log func(string)) error
}

func (w writing) RunAttempt(ctx context.Context, a jobs.Attempt) (jobs.Result, error) {
	if err := w.write(ctx, a.Log); err != nil {
		return jobs.Result{}, err
	}
	return w.handler(ctx, a.Job, a.Report)
}

func TestK17LinesOfAJobReachTheLogOfTheGateway(t *testing.T) {
	lines := func(n int) func(context.Context, func(string)) error {
		return func(_ context.Context, log func(string)) error {
			for i := range n {
				log(fmt.Sprintf("line %d", i))
			}
			return nil
		}
	}
	all := func(n int) (want []string) {
		_ = lines(n)(context.Background(), func(line string) { want = append(want, line) })
		return want
	}
	tests := []struct {
		name  string
		write func(context.Context, func(string)) error
		fault func(route string, n int) string
		want  []string
	}{
		{"those of a short job, with its result", lines(3), nil, all(3)},
		{"all that the worker passes on in one report", lines(200), nil, all(200)},
		{"a line of a heartbeat whose answer is lost is there once", lines(3), func(route string, n int) string {
			if route == "heartbeat" && n > 1 && n < 8 {
				return "lost"
			}
			return ""
		}, all(3)},
		{"what a job wrote before it failed, and why", func(_ context.Context, log func(string)) error {
			log("last words")
			return &jobs.Failure{Code: "EXIT_3", Final: true, Err: errors.New("exit 3: no such thing")}
		}, nil, []string{"last words", "attempt 1 failed: exit 3: no such thing"}},
		{"a long line is cut", func(_ context.Context, log func(string)) error {
			log(strings.Repeat("a, ", wire.MaxLogLine))
			return nil
		}, nil, []string{strings.Repeat("a, ", 400)[:wire.MaxLogLine-len(" … (line cut)")] + " … (line cut)"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			test(t, func(t *testing.T, r *rig) {
				none := jobs.Kind("")
				r.kind, r.kinds, r.plane.kinds, r.plane.fault = &none, []jobs.Kind{"tally"}, []string{"tally"}, tt.fault
				r.plane.submitTally("j1")
				r.adjust = func(w *worker.Worker) {
					w.Handlers = map[jobs.Kind]worker.Handler{"tally": writing{r.handler, tt.write}}
				}
				_ = r.work(func() { time.Sleep(10 * time.Minute) })
				if got := r.plane.job("j1").log; !slices.Equal(got, tt.want) {
					t.Errorf("the log is %q\nwant %q", got, tt.want)
				}
			})
		})
	}
}

// TestK17AJobThatWritesMuchCostsFewHeartbeats and the log says how many lines it lacks.
func TestK17AJobThatWritesMuchCostsFewHeartbeats(t *testing.T) {
	test(t, func(t *testing.T, r *rig) {
		none := jobs.Kind("")
		r.kind, r.kinds, r.plane.kinds = &none, []jobs.Kind{"tally"}, []string{"tally"}
		r.plane.submitTally("j1")
		const n = 100_000
		r.adjust = func(w *worker.Worker) {
			w.Handlers = map[jobs.Kind]worker.Handler{"tally": writing{r.handler, func(_ context.Context, log func(string)) error {
				for i := range n { // 16 minutes
					log(fmt.Sprintf("line %d", i))
					time.Sleep(10 * time.Millisecond)
				}
				return nil
			}}}
		}
		_ = r.work(func() { time.Sleep(time.Hour) })
		log, told := r.plane.job("j1").log, 0
		for _, line := range log {
			told += jobs.LinesIn(line)
		}
		if told != n || log[len(log)-1] != fmt.Sprintf("line %d", n-1) {
			t.Errorf("the log has %d lines, which stand for %d, and ends with %q; want %d", len(log), told, log[len(log)-1], n)
		}
		if beats := len(r.plane.times("beat j1")); beats > 16*6+20 {
			t.Errorf("there were %d heartbeats, want one in 10 s", beats)
		}
	})
}
