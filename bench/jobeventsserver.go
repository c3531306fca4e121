package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobapi/access"
	"github.com/batchfleet/batchfleet/jobs"
)

// busyJob is a Jobs of one job that changes ten times a second. It is a Notifier.
type busyJob struct {
	jobapi.Jobs // what is not asked for here

	mu      sync.Mutex
	job     jobapi.Job
	event   []byte // the job as an event
	calls   int64
	changed chan struct{}
}

func (b *busyJob) Get(_ context.Context, ids []string) ([]jobapi.Job, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls++
	found := make([]jobapi.Job, 0, len(ids))
	for range ids {
		found = append(found, b.job)
	}
	return found, nil
}

func (b *busyJob) Changed() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.changed
}

// change makes the job the nth of its states.
func (b *busyJob) change(n int, state jobs.State) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.job.Status.Terminal() {
		return
	}
	now := jobapi.At(time.Now())
	b.job.Status, b.job.Version = state, strconv.Itoa(n)
	b.job.Steps = []jobapi.Step{
		{Name: "fetch", Status: jobapi.Succeeded, StartedAt: now, FinishedAt: now, Message: "231 KiB"},
		{Name: "pages", Status: jobapi.Running, StartedAt: now, Message: fmt.Sprintf("page %d of 9000", n)},
		{Name: "store", Status: jobapi.Pending},
	}
	b.job.Progress = jobapi.ProgressOf(b.job.Steps)
	text, err := json.Marshal(b.job)
	if err != nil {
		panic(err)
	}
	b.event = fmt.Appendf(nil, "event: job\ndata: %s\n\n", text)
	close(b.changed)
	b.changed = make(chan struct{})
}

// serveJobEvents serves the job through the Job API, and through the shortest
// handler that sends the same events.
func serveJobEvents(ctx context.Context) error {
	b := &busyJob{changed: make(chan struct{})}
	b.job = jobapi.Job{ID: "j", Scope: "fleet", Type: "fleet.pdf", CreatedAt: jobapi.At(time.Now()), Request: json.RawMessage(`{}`)}
	b.change(1, jobs.Running)
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	api := &jobapi.Server{
		Scopes: []jobapi.Scope{{Name: "fleet", Jobs: b, Cancel: access.Operate}}, Log: log,
		Metrics: jobapi.NewMetrics(prometheus.NewRegistry()), Guard: jobapi.Loopback,
	}
	mux := http.NewServeMux()
	mux.Handle("/api/v1/", api.Handler())
	mux.HandleFunc("/bare", b.bare)
	mux.HandleFunc("/calls", func(w http.ResponseWriter, _ *http.Request) {
		b.mu.Lock()
		defer b.mu.Unlock()
		_, _ = fmt.Fprintln(w, b.calls)
	})
	mux.HandleFunc("/end", func(w http.ResponseWriter, _ *http.Request) {
		b.change(1_000_000_000, jobs.Succeeded)
		_, _ = fmt.Fprintln(w, 0)
	})
	l, err := listen(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("http://%s\n", l.Addr())
	var all sync.WaitGroup
	all.Go(func() { api.Run(ctx) })
	all.Go(func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for n := 2; ctx.Err() == nil; n++ {
			<-tick.C
			b.change(n, jobs.Running)
		}
	})
	err = (&httpd.Server{Handler: mux, Log: log}).Serve(ctx, l)
	all.Wait()
	return err
}

// bare sends the job whenever it has changed, and nothing else.
func (b *busyJob) bare(w http.ResponseWriter, r *http.Request) {
	conn := http.NewResponseController(w)
	_ = conn.SetWriteDeadline(time.Time{})
	w.Header().Set("Content-Type", "text/event-stream")
	for {
		b.mu.Lock()
		event, changed := b.event, b.changed
		b.mu.Unlock()
		if _, err := w.Write(event); err != nil || conn.Flush() != nil {
			return
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		case <-httpd.Stopping(r.Context()):
			return
		}
	}
}
