package cli

import (
	"context"
	"crypto/x509"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/batchfleet/batchfleet/grid/access"
)

// gridAccess lets a leader ask a file of rules, which may be read again meanwhile.
type gridAccess struct {
	file *access.File
	log  *slog.Logger
}

// Client implements leader.Access.
func (a gridAccess) Client(token string, cert *x509.Certificate, client string, desired int) (limit int, submit func(exec string) error, err error) {
	rules := a.file.ACL()
	who, err := rules.Principal(token, cert)
	if err == nil {
		limit, err = rules.Client(who, client, desired)
	}
	if err != nil {
		return 0, nil, a.forPeer(err)
	}
	return limit, func(exec string) error { return a.forPeer(a.file.ACL().Submit(who, client, exec)) }, nil
}

// Worker implements leader.Access.
func (a gridAccess) Worker(token string, cert *x509.Certificate, pattern string) error {
	rules := a.file.ACL()
	who, err := rules.Principal(token, cert)
	if err == nil {
		err = rules.Worker(who, pattern)
	}
	return a.forPeer(err)
}

// forPeer logs where the file refuses something, and returns what the peer is told of it.
func (a gridAccess) forPeer(err error) error {
	if denied, ok := errors.AsType[*access.DeniedError](err); ok {
		a.log.Warn("a peer is refused", "rule", denied.Where, "err", denied.Message)
		return errors.New(denied.Message)
	}
	return err
}

// rereadAtHangup has files read again at each SIGHUP, until ctx ends.
func rereadAtHangup(ctx context.Context, log *slog.Logger, read func() error) {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangups:
		}
		if err := read(); err != nil {
			log.ErrorContext(ctx, "what cannot be read stays as it was", "err", err)
			continue
		}
		log.InfoContext(ctx, "read the files of the flags again")
	}
}
