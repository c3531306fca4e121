package program

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/worker"
)

// ServeWorker is [ServeMetrics] of a worker, on what HTTP_ADDR says.
func ServeWorker(ctx context.Context, addr string, w *worker.Worker) (stop func(), err error) {
	if stop, err = ServeMetrics(ctx, addr, w.Ready, w.Metrics.Registry, w.Log); err != nil {
		return nil, Exit(Usage, fmt.Errorf("HTTP_ADDR: %w", err))
	}
	return stop, nil
}

// WorkerEnded gives what ended a worker, nil for a signal, its exit code.
func WorkerEnded(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, worker.ErrRefused): // what it asks for is not there, or not for it
		return Exit(Usage, err)
	}
	return Exit(Unavailable, err)
}

// ServeMetrics answers /healthz, /readyz and /metrics on addr until the returned
// stop is called; without an address it does nothing.
func ServeMetrics(ctx context.Context, addr string, ready func() error, metrics prometheus.Gatherer, log *slog.Logger) (stop func(), err error) {
	if addr == "" {
		return func() {}, nil
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	mux := httpd.Health(ready)
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	// Health is answered while jobs drain, so not until ctx ends but until told.
	serving, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	go func() { done <- (&httpd.Server{Handler: mux, Log: log, MaxConns: 64}).Serve(serving, l) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			log.WarnContext(ctx, "http ended", "err", err)
		}
	}, nil
}
