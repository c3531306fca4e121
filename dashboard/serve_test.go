package dashboard_test

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/dashboard"
	"github.com/batchfleet/batchfleet/dashboard/dashboardtest"
	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/jobapi"
)

// TestServe serves the pages over a made-up fleet, for people who change them: DASHBOARD_ADDR=127.0.0.1:8099 go test ./dashboard -run TestServe -timeout 0
func TestServe(t *testing.T) {
	addr := os.Getenv("DASHBOARD_ADDR")
	if addr == "" {
		t.Skip("DASHBOARD_ADDR does not say where")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	api, _ := dashboardtest.Server(dashboardtest.Sample(time.Now()), jobapi.Loopback, log)
	go api.Run(ctx)
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	d := &dashboard.Dashboard{API: api.Handler(), Log: log, Version: "0.0.0-test"}
	if err := (&httpd.Server{Handler: d.Beside(http.NotFoundHandler()), Log: log}).Serve(ctx, l); err != nil {
		t.Fatal(err)
	}
}
