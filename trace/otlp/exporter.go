package otlp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/batchfleet/batchfleet/httpd/client"
	"github.com/batchfleet/batchfleet/retry"
	"github.com/batchfleet/batchfleet/trace"
)

const (
	maxQueue   = 4096 // spans that wait
	maxBatch   = 512  // spans in a request
	batchDelay = 2 * time.Second
	callLimit  = 10 * time.Second // for one request
	maxAnswer  = 64 << 10
	// saidEvery is the shortest time between two lines of the log about lost spans.
	saidEvery = time.Minute
)

// resend is how a request that has failed is made again.
var resend = retry.Policy{First: time.Second, Max: 10 * time.Second, For: time.Minute}

// Exporter sends spans to a collector. Its goroutine begins with the first span, so that programs that
// make none have none. Export may be called concurrently.
type Exporter struct {
	Resource []trace.Attr // what is said of this process
	Version  string       // of the program
	Log      *slog.Logger

	client   *client.Client
	endpoint *url.URL
	header   http.Header

	begin   sync.Once
	begun   atomic.Bool
	queue   chan *trace.Span
	stop    chan struct{} // closed by Close
	done    chan struct{} // closed when the goroutine has ended
	dropped atomic.Int64
	ctx     context.Context // ends the request under way
	cancel  context.CancelFunc

	// Of the goroutine.
	said     time.Time
	counted  int64 // of dropped, in a line of the log
	lastFail error
}

// New returns an exporter. It sends nothing yet.
func New(s *Settings, version string, log *slog.Logger) (*Exporter, error) {
	c, err := client.New(client.Config{Base: s.Endpoint, Name: "the collector of traces", CAFile: s.CAFile, Version: version, Connections: 1})
	if err != nil {
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_CERTIFICATE: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	attrs := append([]trace.Attr{{Key: "service.name", Text: s.Service}}, s.Resource...)
	return &Exporter{
		Resource: attrs, Version: version, Log: log, client: c, endpoint: s.Endpoint, header: s.Header,
		queue: make(chan *trace.Span, maxQueue), stop: make(chan struct{}), done: make(chan struct{}), ctx: ctx, cancel: cancel,
	}, nil
}

// Export takes a span that has ended. It never waits: a span for which there is no room is dropped.
func (e *Exporter) Export(s *trace.Span) {
	e.begin.Do(func() {
		e.begun.Store(true)
		go e.run() // joined by Close
	})
	select {
	case e.queue <- s:
	default:
		e.dropped.Add(1)
	}
}

// Dropped returns how many spans were not delivered.
func (e *Exporter) Dropped() int64 { return e.dropped.Load() }

// Close sends what waits, as long as ctx lasts, and ends the goroutine. It is called once; spans that
// come later are dropped.
func (e *Exporter) Close(ctx context.Context) {
	late := false
	e.begin.Do(func() { late = true }) // none begins from now on
	defer e.client.Close()
	defer e.cancel()
	if late && !e.begun.Load() {
		return
	}
	close(e.stop)
	select {
	case <-e.done:
	case <-ctx.Done():
		e.cancel()
		<-e.done
	}
}

// run sends batches: one that is full, or what there is batchDelay after the first span of it.
func (e *Exporter) run() {
	defer close(e.done)
	var batch []*trace.Span
	delay := time.NewTimer(batchDelay)
	defer delay.Stop()
	for stopped := false; !stopped; {
		full := false
		select {
		case s := <-e.queue:
			if batch = append(batch, s); len(batch) == 1 {
				delay.Reset(batchDelay)
			}
			full = len(batch) >= maxBatch
		case <-delay.C:
			full = true
		case <-e.stop:
			stopped = true
		}
		if full {
			e.send(batch)
			batch = nil
		}
	}
	for e.ctx.Err() == nil && (len(batch) > 0 || len(e.queue) > 0) {
		for len(batch) < maxBatch && len(e.queue) > 0 {
			batch = append(batch, <-e.queue)
		}
		e.send(batch)
		batch = nil
	}
	e.lose(len(batch)+len(e.queue), nil)
	e.say(true)
}

// send delivers a batch or drops it.
func (e *Exporter) send(batch []*trace.Span) {
	if len(batch) == 0 {
		e.say(false)
		return
	}
	body, err := e.encode(batch)
	if err == nil {
		err = resend.Do(e.ctx, func() error { return e.call(body, len(batch)) })
	}
	if err != nil {
		e.lose(len(batch), err)
	}
	e.say(false)
}

// call makes one request.
func (e *Exporter) call(body []byte, spans int) error {
	resp, err := e.client.Do(e.ctx, &client.Request{
		Method: http.MethodPost, URL: e.endpoint, Header: e.header, Accept: "application/json", Body: body, Patience: callLimit, Limit: maxAnswer,
	})
	if errors.Is(err, client.ErrTooLong) { // it has answered
		return retry.Permanent(err)
	}
	if err != nil {
		return err
	}
	switch status := resp.Head.StatusCode; status {
	case http.StatusOK, http.StatusAccepted, http.StatusNoContent:
		e.rejected(resp.Text, spans)
		return nil
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		err := fmt.Errorf("the collector of traces answers with status %d", status)
		return retry.After(err, client.RetryAfter(resp.Head))
	default: // its text is not quoted: it may repeat what it was sent
		return retry.Permanent(fmt.Errorf("the collector of traces refuses spans with status %d", status))
	}
}

// rejected counts what the collector has not taken of a request that it has.
func (e *Exporter) rejected(answer []byte, spans int) {
	var a struct {
		Partial struct {
			Rejected json.Number `json:"rejectedSpans"`
		} `json:"partialSuccess"`
	}
	if json.Unmarshal(answer, &a) != nil {
		return
	}
	if n, err := a.Partial.Rejected.Int64(); err == nil && n > 0 {
		e.lose(int(min(n, int64(spans))), errors.New("the collector of traces has rejected some"))
	}
}

// lose counts spans that are not delivered.
func (e *Exporter) lose(spans int, err error) {
	e.dropped.Add(int64(spans))
	if err != nil && e.ctx.Err() == nil {
		e.lastFail = err
	}
}

// say logs what was lost, now and then.
func (e *Exporter) say(last bool) {
	lost := e.dropped.Load()
	if lost == e.counted || !last && time.Since(e.said) < saidEvery {
		return
	}
	e.Log.Warn("spans of traces were dropped", "spans", lost-e.counted, "err", e.lastFail)
	e.said, e.counted, e.lastFail = time.Now(), lost, nil
}
