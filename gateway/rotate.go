package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/retry"
)

// Register makes this machine a worker, in exchange for an enroll token, and
// returns what it is to keep with [SaveToken]. A client that has a token gets a
// new one for the same worker; then the enroll token may be empty. An empty name
// leaves the choice to the gateway.
func Register(ctx context.Context, c *Client, enroll, name string) (Token, error) {
	asked := time.Now().UTC().Truncate(time.Second)
	a, err := c.register(ctx, wire.RegisterRequest{Token: enroll, Name: name, Meta: json.RawMessage(`{}`)})
	if err != nil {
		return Token{}, err
	}
	return Token{
		Gateway: c.http.Base().String(), WorkerID: a.WorkerID, Name: a.Name, Token: a.WorkerToken, IssuedAt: asked,
		// From its life and not its end, so that a clock that is wrong does not matter.
		ExpiresAt: asked.Add(time.Duration(min(a.TokenTTLSeconds, maxTokenTTL)) * time.Second),
	}, nil
}

// maxTokenTTL is ten years, in seconds.
const maxTokenTTL = 10 * 365 * 24 * 3600

// How KeepToken goes about it.
const (
	saveRetry    = 5 * time.Second // at most
	savePatience = wire.RotationGrace / 2
	tokenLook    = time.Hour // how often to look at the clock: timers stand still while a machine sleeps
)

// rotations is how a new token is asked for again: several times within
// [wire.RotationGrace], for responses may be lost.
var rotations = retry.Policy{First: 30 * time.Second, Max: 90 * time.Second}

// KeepToken gets a new token whenever three quarters of the life of the one in
// the client's file have passed, until ctx ends. A token without a known end is left
// alone. [Agent.Run] calls it.
//
// The old token stays in use until the new one is on disk, or could not be written
// for five minutes. So a worker that is killed in between still has a valid one, by the
// protocol for 10 minutes.
func (c *Client) KeepToken(ctx context.Context, log *slog.Logger) {
	if c.tokens == nil {
		return
	}
	wait := rotations.Delays()
	for {
		t := c.tokens.Token()
		pause := tokenLook
		if at := t.rotateAt(); !at.IsZero() {
			pause = min(pause, time.Until(at.Round(0)))
		}
		if pause > 0 {
			if jobs.Sleep(ctx, pause) != nil {
				return
			}
			continue
		}
		err := c.rotate(ctx, log)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			wait.Reset()
			continue
		}
		delay := wait.Next()
		level := slog.LevelWarn
		if e := (*Error)(nil); errors.As(err, &e) && e.decided() {
			level = slog.LevelError
		}
		log.Log(ctx, level, "cannot get a new token, the old one stays in use", "worker", t.WorkerID, "expires_at", t.ExpiresAt, "retry_in", delay, "err", err)
		if jobs.Sleep(ctx, delay) != nil {
			return
		}
	}
}

// rotate gets a new token and puts it into the file.
func (c *Client) rotate(ctx context.Context, log *slog.Logger) error {
	old := c.tokens.Token()
	// An older token in the file is one that could not be overwritten.
	if t, err := LoadToken(c.tokens.path); err == nil && t.Token != old.Token && !t.olderThan(old) && t.mayGoTo(c.http.Base()) == nil {
		c.tokens.use(t) // another process was faster
		return nil
	}
	fresh, err := Register(ctx, c, "", old.Name)
	if err != nil {
		return err
	}
	if old.WorkerID != "" && fresh.WorkerID != old.WorkerID {
		return fmt.Errorf("the gateway takes worker %s for another, %s", old.WorkerID, fresh.WorkerID)
	}
	if err := c.save(ctx, fresh, log); err != nil {
		log.ErrorContext(ctx, "the new token could not be written, it is used all the same and lost when this process ends", "worker", fresh.WorkerID, "err", err)
	}
	c.tokens.use(fresh)
	log.InfoContext(ctx, "got a new token", "worker", fresh.WorkerID, "expires_at", fresh.ExpiresAt)
	return nil
}

// save writes a token, and retries for savePatience: the disk may be full for a moment.
func (c *Client) save(ctx context.Context, t Token, log *slog.Logger) error {
	policy := retry.Policy{First: saveRetry, Max: saveRetry, For: savePatience, Retrying: func(err error, wait time.Duration) {
		log.WarnContext(ctx, "cannot write the new token, trying again", "retry_in", wait, "err", err)
	}}
	return policy.Do(ctx, func() error { return SaveToken(c.tokens.path, t) })
}
