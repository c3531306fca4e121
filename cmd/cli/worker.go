package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/worker"
)

// ServeWorker answers /healthz, /readyz and /metrics of a worker on addr, which
// HTTP_ADDR has named, until the returned stop is called; without an address it
// does nothing.
func ServeWorker(ctx context.Context, addr string, w *worker.Worker) (stop func(), err error) {
	if addr == "" {
		return func() {}, nil
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, Exit(Usage, fmt.Errorf("HTTP_ADDR: %w", err))
	}
	mux := httpd.Health(w.Ready)
	mux.Handle("GET /metrics", promhttp.HandlerFor(w.Metrics.Registry, promhttp.HandlerOpts{}))
	// Health is answered while jobs drain, so not until ctx ends but until told.
	serving, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	go func() { done <- (&httpd.Server{Handler: mux, Log: w.Log}).Serve(serving, l) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			w.Log.WarnContext(ctx, "http ended", "err", err)
		}
	}, nil
}

// WorkerName is what people see of who runs a job: name, or the host's name and
// the process id when it is empty.
func WorkerName(name string) string {
	if name != "" {
		return name
	}
	host, err := os.Hostname()
	if err != nil {
		host = "worker"
	}
	return fmt.Sprintf("%s-%d", host, os.Getpid())
}

// Writable returns why no file can be made in dir, the system's place for
// temporary files when empty.
func Writable(dir string) error {
	f, err := os.CreateTemp(dir, "batchfleet-check-")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}
