package queue

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"time"

	"github.com/batchfleet/batchfleet/gateway/wire"
)

// The prefixes by which secret scanners know our tokens.
const (
	workerPrefix = "zpw_"
	enrollPrefix = "zpe_"
)

// HashToken returns what is stored of a token. Tokens are 32 random bytes, so a
// plain hash is enough, and a lookup by hash tells nothing by its timing.
func HashToken(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

func newToken(prefix string) string { return prefix + random(32) }

// newID returns 128 random bits as 22 characters.
func newID() string { return random(16) }

func random(size int) string {
	b := make([]byte, size)
	_, _ = rand.Read(b) // it never fails
	return base64.RawURLEncoding.EncodeToString(b)
}

// keepToken is how long the record of a token outlives it, so that a request
// with it is told that it has expired.
const keepToken = 30 * 24 * time.Hour

// maxTokens is how many tokens of a worker are on record: those of a month of
// renewals, and of an hour in which the answers to them get lost.
const maxTokens = 64

// Enroll makes a token that lets one worker register within ttl.
func (q *Queue) Enroll(ctx context.Context, label string, ttl time.Duration) (token string, expires time.Time, err error) {
	token, expires = newToken(enrollPrefix), q.Now().Add(ttl)
	ctx, cancel := q.bounded(ctx)
	defer cancel()
	key := enrollKey(HashToken(token))
	pipe := q.rdb.TxPipeline()
	pipe.HSet(ctx, key, "expires_at", unix(expires), "label", label)
	pipe.PExpire(ctx, key, ttl)
	if _, err := pipe.Exec(ctx); err != nil {
		return "", time.Time{}, unavailable("store token to enroll with", err)
	}
	return token, expires, nil
}

// Registration is what a worker asks for when it registers.
type Registration struct {
	EnrollToken string // may be empty with Token
	Token       string // the worker's own, when it wants a new one; empty for a new worker
	Name        string // the worker id, or the name it had, when empty
	Queue       string
	Meta        string // JSON
}

// Registered is a worker with its new token.
type Registered struct {
	Worker, Name, Token string
	At, Expires         time.Time
}

// Register gives a worker a token. With a token of its own the worker stays who
// it is, and its old tokens hold for [wire.RotationGrace] at most. The error is
// [ErrEnrollToken] or one of those of the worker's own token.
func (q *Queue) Register(ctx context.Context, r Registration) (Registered, error) {
	now := q.Now()
	token, own := newToken(workerPrefix), ""
	hash := HashToken(token)
	keys := []string{enrollKey(HashToken(r.EnrollToken)), tokenKey(hash), revokedKey}
	if r.Token != "" {
		own = HashToken(r.Token)
		keys = append(keys, tokenKey(own))
	}
	expires := now.Add(q.TokenTTL)
	a, err := q.run(ctx, "register worker", registerScript, keys,
		r.EnrollToken != "", hash, own, "w-"+newID(), unix(now), unix(expires), unix(now.Add(wire.RotationGrace)), r.Name, r.Meta, text(now),
		(q.TokenTTL + keepToken).Milliseconds(), r.Queue, maxTokens)
	if err != nil {
		return Registered{}, err
	}
	switch a.Text(0) {
	case "ok":
		return Registered{Worker: a.Text(1), Name: a.Text(2), Token: token, At: now, Expires: expires}, nil
	case "refused":
		return Registered{}, refusal(a.Text(1))
	case "enroll":
		return Registered{}, ErrEnrollToken
	}
	return Registered{}, unexpected("register worker", a)
}

// Authorize returns who the caller's token belongs to.
func (q *Queue) Authorize(ctx context.Context, c Caller) (worker string, err error) {
	a, err := q.runAs(ctx, c, "check token", authScript, nil)
	if err != nil {
		return "", err
	}
	return a.Text(1), nil
}

// Revoked counts what [Queue.Revoke] has ended that had not been ended before.
type Revoked struct{ Tokens, Leases int }

// Revoke makes all tokens of a worker worthless and ends its leases, so that the
// reaper takes them back and puts their jobs at the front of the queue. The error
// is [ErrNoWorker] if there is no such worker.
func (q *Queue) Revoke(ctx context.Context, worker string) (Revoked, error) {
	now := q.Now()
	a, err := q.run(ctx, "revoke worker", revokeScript, []string{workerTokensKey(worker), revokedKey, indexKey, workerKey(worker)},
		worker, text(now), unix(now.Add(-q.Skew)))
	if err != nil {
		return Revoked{}, err
	}
	if a.Number(0) < 0 {
		return Revoked{}, ErrNoWorker
	}
	return Revoked{int(a.Number(0)), int(a.Number(1))}, nil
}
