package otlp

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// within closes the exporter, which may take as long as limit.
func within(t *testing.T, c *collector, limit time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	c.exporter.Close(ctx)
}

func TestD32SpansAreSentInJSON(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := with(t, nil)
		c.make(t, 1)
		time.Sleep(batchDelay + time.Second) // in a bubble
		if c.spans() != 1 {
			t.Fatalf("%d spans after the delay, want 1", c.spans())
		}
		c.make(t, 2)
		within(t, c, time.Second)
		if c.spans() != 3 || c.exporter.Dropped() != 0 {
			t.Errorf("%d spans sent, %d dropped, want 3 and none", c.spans(), c.exporter.Dropped())
		}
		if got := c.header.Get("Api-Key"); got != "s3cr3t-value" {
			t.Errorf("header %q", got)
		}
		if user, password, _ := (&http.Request{Header: c.header}).BasicAuth(); user != "me" || password != "letmein-please" {
			t.Errorf("user %q, password %q", user, password)
		}
		r := c.got[0].ResourceSpans[0]
		s := r.ScopeSpans[0].Spans[0]
		if *r.Resource.Attributes[0].Value.Text != "batchfleet-test" || len(r.Resource.Attributes) != 2 {
			t.Errorf("resource %+v", r.Resource)
		}
		if len(s.Trace) != 32 || len(s.Span) != 16 || s.Parent != "" || s.Name != "step" || s.Kind != 1 || s.Status.Code != 2 {
			t.Errorf("span %+v", s)
		}
		if _, err := strconv.ParseUint(s.Began, 10, 64); err != nil || s.Ended < s.Began {
			t.Errorf("times %q and %q", s.Began, s.Ended)
		}
		if strings.Contains(s.Status.Message, "abcdefgh") || *s.Attributes[0].Value.Text != "a" || *s.Attributes[1].Value.Number != "3" {
			t.Errorf("status %q, attributes %+v", s.Status.Message, s.Attributes)
		}
	})
}

func TestD32WithoutSpansNoExporterRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := with(t, nil)
		if c.exporter.begun.Load() {
			t.Error("its goroutine runs")
		}
		within(t, c, time.Second)
		c.make(t, 1) // too late
		synctest.Wait()
		if c.calls != 0 || c.exporter.begun.Load() {
			t.Errorf("%d calls", c.calls)
		}
	})
}

func TestD32CollectorsThatFail(t *testing.T) {
	status := func(first, then int) func(http.ResponseWriter, *http.Request, int) {
		return func(w http.ResponseWriter, _ *http.Request, call int) {
			w.Header().Set("Retry-After", "7")
			if call == 1 {
				w.WriteHeader(first)
				return
			}
			w.WriteHeader(then)
		}
	}
	tests := []struct {
		name    string
		answer  func(http.ResponseWriter, *http.Request, int)
		calls   int // at least
		dropped int64
	}{
		{"busy once", status(503, 200), 2, 0},
		{"too many requests once", status(429, 200), 2, 0},
		{"a proxy without it, once", status(502, 200), 2, 0},
		{"away for long", status(503, 503), 5, 10},
		{"a bad request", status(400, 200), 1, 10},
		{"not for us", status(401, 200), 1, 10},
		{"a mistake of its own", status(500, 200), 1, 10},
		{"elsewhere", func(w http.ResponseWriter, r *http.Request, _ int) {
			http.Redirect(w, r, "http://elsewhere/", http.StatusTemporaryRedirect)
		}, 1, 10},
		{"some are rejected", func(w http.ResponseWriter, _ *http.Request, _ int) {
			_, _ = w.Write([]byte(`{"partialSuccess":{"rejectedSpans":"3","errorMessage":"no"}}`))
		}, 1, 3},
		{"more are rejected than were sent", func(w http.ResponseWriter, _ *http.Request, _ int) {
			_, _ = w.Write([]byte(`{"partialSuccess":{"rejectedSpans":99999999999999}}`))
		}, 1, 10},
		{"an answer that is no JSON", func(w http.ResponseWriter, _ *http.Request, _ int) { _, _ = w.Write([]byte("ok")) }, 1, 0},
		{"an answer without end", func(w http.ResponseWriter, _ *http.Request, _ int) { _, _ = w.Write(make([]byte, 2*maxAnswer)) }, 1, 10},
		{"it closes the connection once", func(_ http.ResponseWriter, _ *http.Request, call int) {
			if call == 1 {
				panic(http.ErrAbortHandler)
			}
		}, 2, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := with(t, tt.answer)
				c.make(t, 10)
				time.Sleep(5 * time.Minute) // in a bubble
				within(t, c, time.Second)
				if got := c.exporter.Dropped(); got != tt.dropped || c.calls < tt.calls || tt.calls == 1 && c.calls > 1 {
					t.Errorf("%d calls, %d spans dropped, want %d and %d", c.calls, got, tt.calls, tt.dropped)
				}
				text := c.log.String()
				if (tt.dropped > 0) != strings.Contains(text, "spans of traces were dropped") {
					t.Errorf("logged: %s", text)
				}
				for _, secret := range []string{"letmein", "s3cr3t", "v1/traces"} {
					if strings.Contains(text, secret) {
						t.Errorf("the log has %q: %s", secret, text)
					}
				}
			})
		})
	}
}

func TestD32CollectorThatIsAwayKeepsNoProgram(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := with(t, nil)
		c.exporter.client.Transport.DialContext = func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("refused") }
		c.make(t, 3)
		began := time.Now()
		within(t, c, 3*time.Second)
		if took := time.Since(began); took > 3*time.Second || c.exporter.Dropped() != 3 {
			t.Errorf("it took %s, and %d were dropped", took, c.exporter.Dropped())
		}
	})
}

func TestD32SlowCollectorCostsSpansAndNoTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := with(t, func(_ http.ResponseWriter, r *http.Request, _ int) { <-r.Context().Done() })
		began := time.Now()
		c.make(t, maxBatch)
		synctest.Wait() // the first batch is on its way
		c.make(t, 3*maxQueue)
		if time.Since(began) > 0 {
			t.Error("to make spans has waited")
		}
		if got := c.exporter.Dropped(); got != 2*maxQueue {
			t.Errorf("%d spans dropped, want %d", got, 2*maxQueue)
		}
		within(t, c, 3*time.Second)
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("the end took %s", took)
		}
		if got := c.exporter.Dropped(); got != 3*maxQueue+maxBatch {
			t.Errorf("%d spans dropped, want %d", got, 3*maxQueue+maxBatch)
		}
	})
}

func TestD32ManySpansAreSentInBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := with(t, nil)
		c.make(t, 3*maxBatch+7)
		within(t, c, 3*time.Second)
		if c.spans() != 3*maxBatch+7 || c.calls != 4 || c.exporter.Dropped() != 0 {
			t.Errorf("%d spans in %d calls, %d dropped", c.spans(), c.calls, c.exporter.Dropped())
		}
	})
}
