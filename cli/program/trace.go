package program

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/trace"
	"github.com/batchfleet/batchfleet/trace/otlp"
)

// lastSpans is how long a program that ends may take to send its last spans.
const lastSpans = 3 * time.Second

// traced returns a context in which spans are recorded, if the environment says where to send them, and
// what sends the last of them. A mistake in the settings costs the traces and not the command: other
// programs on this machine read the same variables.
func traced(ctx context.Context, root *cobra.Command, args []string) (_ context.Context, end func()) {
	nothing := func() {}
	settings, err := otlp.Read(os.Getenv)
	if settings == nil && err == nil {
		return ctx, nothing
	}
	log := NewLog(os.Stderr, slog.LevelWarn)
	var e *otlp.Exporter
	if err == nil {
		settings.Service = cmp.Or(settings.Service, serviceOf(root, args))
		e, err = otlp.New(settings, root.Version, log)
	}
	if err != nil {
		log.WarnContext(ctx, "traces are off", "err", err)
		return ctx, nothing
	}
	tracer := &trace.Tracer{Sampling: settings.Sampling, Export: e.Export}
	return tracer.Into(ctx), func() {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastSpans)
		defer cancel()
		e.Close(last)
	}
}

// serviceOf returns the name of a command as a service: batchfleet-grid-leader.
func serviceOf(root *cobra.Command, args []string) string {
	cmd, _, err := root.Find(args)
	if err != nil {
		cmd = root
	}
	return strings.ReplaceAll(cmd.CommandPath(), " ", "-")
}
