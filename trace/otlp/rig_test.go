package otlp

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"testing"

	"github.com/batchfleet/batchfleet/internal/pipenet"
	"github.com/batchfleet/batchfleet/internal/testlog"
	"github.com/batchfleet/batchfleet/trace"
)

// collector is a receiver of OTLP that answers as a test says.
type collector struct {
	mu       sync.Mutex
	calls    int
	header   http.Header
	got      []exportRequest
	answer   func(w http.ResponseWriter, r *http.Request, call int) // 200 when nil
	exporter *Exporter
	log      testlog.Buffer
}

// with returns an exporter and its collector, both in this test's bubble.
func with(t *testing.T, answer func(w http.ResponseWriter, r *http.Request, call int)) *collector {
	t.Helper()
	c := &collector{answer: answer}
	pipes := pipenet.Listen()
	srv := &http.Server{Handler: c} //nolint:gosec // in memory
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.Serve(pipes) }()
	t.Cleanup(func() { _ = srv.Close(); _ = pipes.Close(); <-done })
	s := &Settings{
		Endpoint: &url.URL{Scheme: "http", Host: "collector:4318", Path: "/v1/traces", User: url.UserPassword("me", "letmein-please")},
		Header:   http.Header{"Api-Key": {"s3cr3t-value"}}, Service: "batchfleet-test",
		Resource: []trace.Attr{{Key: "deployment", Text: "test"}},
	}
	var err error
	if c.exporter, err = New(s, "v1", slog.New(slog.NewTextHandler(&c.log, nil))); err != nil {
		t.Fatal(err)
	}
	c.exporter.client.Transport.DialContext = pipes.Dial
	c.exporter.client.Transport.Proxy = nil
	return c
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var got exportRequest
	c.mu.Lock()
	c.calls++
	call := c.calls
	c.header = r.Header
	c.mu.Unlock()
	if err != nil || json.Unmarshal(body, &got) != nil || r.URL.Path != "/v1/traces" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	c.got = append(c.got, got)
	c.mu.Unlock()
	if c.answer != nil {
		c.answer(w, r, call)
	}
}

// spans returns how many spans the collector has been sent, those sent again included.
func (c *collector) spans() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.got {
		n += len(r.ResourceSpans[0].ScopeSpans[0].Spans)
	}
	return n
}

// make makes spans that have ended.
func (c *collector) make(t *testing.T, n int) {
	t.Helper()
	tracer := &trace.Tracer{Sampling: trace.Sampling{Ratio: 1}, Export: c.exporter.Export}
	ctx := tracer.Into(t.Context())
	for range n {
		_, s := trace.Start(ctx, "step", trace.Internal)
		s.Set("batchfleet.job.id", "a")
		s.SetNumber("batchfleet.attempt", 3)
		s.Fail("Bearer abcdefghijklmnop is refused")
		s.End()
	}
}
