package cli

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
)

// rereadAtHangup calls all functions, which read files again, at each SIGHUP, until ctx ends.
func rereadAtHangup(ctx context.Context, log *slog.Logger, reread []func() error) {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangups:
		}
		var err error
		for _, read := range reread {
			err = errors.Join(err, read())
		}
		if err != nil {
			log.ErrorContext(ctx, "cannot read files again, their earlier contents stay in use", "err", err)
			continue
		}
		log.InfoContext(ctx, "certificates and rules were read again")
	}
}
