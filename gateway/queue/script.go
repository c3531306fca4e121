package queue

import (
	"context"
	"crypto/sha1" //nolint:gosec // the name Redis gives a script, not a secret
	"embed"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/jobs"
)

//go:embed lua/*.lua
var lua embed.FS

// Each script says in its header what it takes and returns.
var (
	submitScript    = kept(newScript("list", "submit"))
	leaseScript     = newScript("caller", "list", "bury", "promote", "lease")
	heartbeatScript = newScript("caller", "list", "heartbeat")
	finishScript    = kept(newScript("caller", "list", "finish"))
	failScript      = newScript("caller", "list", "bury", "fail")
	authScript      = newScript("caller", "auth")
	reapScript      = newScript("list", "bury", "reap")
	promoteScript   = newScript("promote", "promoteonly")
	cancelScript    = newScript("list", "bury", "cancel")
	registerScript  = kept(newScript("register"))
	revokeScript    = newScript("revoke")
	forgetScript    = newScript("forget")
	requeueScript   = newScript("list", "requeue")
	dropScript      = newScript("drop")
	acceptScript    = newScript("list", "accept")
	pageScript      = newScript("page")
	unlistScript    = newScript("list", "unlist")
	unburyScript    = newScript("unbury")
	checkScript     = newScript("check")
	fsckScript      = newScript("list", "bury", "fsck")
)

type script struct {
	text, sha string
	kept      bool // its answer waits for a replica: see Queue.keep
}

func kept(sc script) script {
	sc.kept = true
	return sc
}

// newScript joins the named files into one script, behind key.lua.
func newScript(files ...string) script {
	var text strings.Builder
	for _, f := range append([]string{"key"}, files...) {
		b, err := lua.ReadFile("lua/" + f + ".lua")
		if err != nil {
			panic(err) // the files are part of the binary
		}
		text.Write(b)
	}
	sum := sha1.Sum([]byte(text.String())) //nolint:gosec // see above
	return script{text: text.String(), sha: hex.EncodeToString(sum[:])}
}

// run runs a script in one round trip. A server that does not have it (it was
// restarted or flushed) is sent the text.
func (q *Queue) run(ctx context.Context, what string, sc script, keys []string, args ...any) (answer, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	call := func(run func(redis.Cmdable) *redis.Cmd) (any, error) {
		if !sc.kept {
			return run(q.rdb).Result()
		}
		cmd, err := q.keep(ctx, run)
		if err != nil {
			return nil, err
		}
		return cmd.Result()
	}
	v, err := call(func(c redis.Cmdable) *redis.Cmd { return c.EvalSha(ctx, sc.sha, keys, args...) })
	if err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") {
		v, err = call(func(c redis.Cmdable) *redis.Cmd { return c.Eval(ctx, sc.text, keys, args...) })
	}
	if err != nil {
		return nil, unavailable(what, err)
	}
	if list, ok := v.([]any); ok {
		return list, nil
	}
	return answer{v}, nil
}

// runAs runs a script that begins with caller.lua.
func (q *Queue) runAs(ctx context.Context, c Caller, what string, sc script, keys []string, args ...any) (answer, error) {
	if c.TokenHash == "" && c.Worker == "" {
		return nil, ErrTokenUnknown // a caller that nobody has looked at
	}
	keys = append([]string{tokenKey(c.TokenHash), revokedKey}, keys...)
	args = append([]any{c.TokenHash, c.Worker, unix(q.Now()), c.Claimed}, args...)
	a, err := q.run(ctx, what, sc, keys, args...)
	if err != nil {
		return nil, err
	}
	switch a.text(0) {
	case "refused":
		return nil, refusal(a.text(1))
	case "unknown":
		return nil, ErrNoJob
	case "lost":
		return nil, fmt.Errorf("%s: %w", what, jobs.ErrLeaseLost)
	}
	return a, nil
}

func refusal(word string) error {
	switch word {
	case "revoked":
		return ErrTokenRevoked
	case "expired":
		return ErrTokenExpired
	case "mismatch":
		return ErrOtherWorker
	default:
		return ErrTokenUnknown
	}
}

// answer is a script's list of strings and numbers; absent ones read as "" and 0.
type answer []any

func (a answer) text(i int) string {
	if i >= len(a) {
		return ""
	}
	s, _ := a[i].(string)
	return s
}

func (a answer) number(i int) int64 {
	if i >= len(a) {
		return 0
	}
	n, _ := a[i].(int64)
	return n
}
