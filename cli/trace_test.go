package cli

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/internal/testtrace"
	"github.com/batchfleet/batchfleet/jobs"
)

const (
	callerTrace = "0af7651916cd43dd8448eb211c80319c"
	callerSpan  = "00-" + callerTrace + "-b7ad6b7169203331-01"
)

// collected returns a collector of spans, and the settings of processes that send theirs to it.
func collected(t *testing.T) (spans *testtrace.Receiver, env []string) {
	t.Helper()
	spans = testtrace.Listen(t)
	return spans, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + spans.URL}
}

// linesHaveTrace checks that each line of a log about a job has its trace.
func linesHaveTrace(t *testing.T, log, job, id string) {
	t.Helper()
	found := 0
	for line := range strings.Lines(log) {
		var l struct {
			Job   string `json:"job"`
			Trace string `json:"trace_id"`
		}
		if json.Unmarshal([]byte(line), &l) != nil || l.Job != job {
			continue
		}
		found++
		if l.Trace != id {
			t.Errorf("a line of job %s without trace %s: %s", job, id, line)
		}
	}
	if found == 0 {
		t.Errorf("no line about job %s:\n%s", job, log)
	}
}

func TestD32SpansOfAFleet(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t)
	spans, to := collected(t)
	worker := f.start(append(to, "WORKER_NAME=w1")...)
	code, out, stderr := output(t, batchfleet(t, f.environment(append(to, "TRACEPARENT="+callerSpan)...), "submit", "--kind", "mock"))
	if code != 0 {
		t.Fatalf("submit: exit code %d: %s", code, stderr)
	}
	id := strings.TrimSpace(out)
	f.untilState(time.Minute, jobs.ID(id), "completed")
	spans.Await(t, callerTrace, "submit(lease(attempt(pages store) settle))")
	if got := spans.Services(callerTrace); !slices.Equal(got, []string{"batchfleet-submit", "batchfleet-worker"}) {
		t.Errorf("spans are from %q", got)
	}
	linesHaveTrace(t, worker.log.String(), id, callerTrace)
	code, out, _ = output(t, batchfleet(t, f.environment(), "get", "--json", id))
	if code != 0 || !strings.Contains(out, `"traceId":"`+callerTrace+`"`) && !strings.Contains(out, `"traceId": "`+callerTrace+`"`) {
		t.Errorf("get prints %s", out)
	}
}

func TestD32WithoutACollectorTheTraceIsPassedOn(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t)
	spans := testtrace.Listen(t)
	worker := f.start()
	send := func(env ...string) string {
		code, out, stderr := output(t, batchfleet(t, f.environment(env...), "submit", "--kind", "mock"))
		if code != 0 {
			t.Fatalf("submit: exit code %d: %s", code, stderr)
		}
		return strings.TrimSpace(out)
	}
	with, without, forged := send("TRACEPARENT="+callerSpan), send(), send("TRACEPARENT="+strings.Repeat(callerSpan, 1000))
	off := send("OTEL_EXPORTER_OTLP_ENDPOINT="+spans.URL, "OTEL_SDK_DISABLED=true")
	for _, id := range []string{with, without, forged, off} {
		f.untilState(time.Minute, jobs.ID(id), "completed")
	}
	for id, want := range map[string]string{with: callerSpan, without: "", forged: "", off: ""} {
		e, err := f.status.Get(t.Context(), jobs.ID(id))
		if err != nil || e.Detail.Trace != want {
			t.Errorf("trace %q, %v, want %q", e.Detail.Trace, err, want)
		}
	}
	linesHaveTrace(t, worker.log.String(), with, callerTrace)
	linesHaveTrace(t, worker.log.String(), without, "")
	if all := spans.All(""); len(all) > 0 {
		t.Errorf("%d spans were sent", len(all))
	}
}

func TestD32WrongSettingsOfTracesStopNoCommand(t *testing.T) {
	t.Parallel()
	code, out, stderr := output(t, batchfleet(t, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=me:letmein@host"}, "version"))
	if code != 0 || out == "" || !strings.Contains(stderr, "traces are off") || !strings.Contains(stderr, "OTEL_EXPORTER_OTLP_ENDPOINT") || strings.Contains(stderr, "letmein") {
		t.Errorf("exit code %d, %q, %q", code, out, stderr)
	}
}
