package status

import (
	"context"
	"crypto/sha1" //nolint:gosec // the name Redis gives a script, not a secret
	"embed"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed lua/*.lua
var lua embed.FS

// Each script says in its header what it takes and returns.
var (
	submitScript  = newScript("job", "submit")
	claimScript   = newScript("job", "log", "claim")
	reportScript  = newScript("job", "log", "report")
	finishScript  = newScript("job", "log", "finish")
	releaseScript = newScript("job", "log", "release")
	cancelScript  = newScript("job", "cancel")
	lapseScript   = newScript("job", "lapse")
	watchScript   = newScript("job", "watch")
	pulseScript   = newScript("job", "pulse")
	requeueScript = newScript("job", "log", "requeue")
	pageScript    = newScript("page")
	linesScript   = newScript("job", "log", "lines")
	recordScript  = newScript("queue")
	dueScript     = newScript("job", "due")
	lookedScript  = newScript("job", "looked")
)

type script struct{ text, sha string }

// newScript joins the named files into one script.
func newScript(files ...string) script {
	var text strings.Builder
	for _, f := range files {
		b, err := lua.ReadFile("lua/" + f + ".lua")
		if err != nil {
			panic(err) // the files are part of the binary
		}
		text.Write(b)
	}
	sum := sha1.Sum([]byte(text.String())) //nolint:gosec // see above
	return script{text.String(), hex.EncodeToString(sum[:])}
}

// run runs a script, and in the same round trip whatever beside adds to the
// pipeline; beside may be nil. A server that does not have the script (it was
// restarted or flushed) is sent the text.
func (s *Store) run(ctx context.Context, sc script, keys []string, args []any, beside func(redis.Pipeliner)) (any, error) {
	var cmd *redis.Cmd
	if beside == nil {
		cmd = s.rdb.EvalSha(ctx, sc.sha, keys, args...)
	} else {
		// The error of a pipeline is that of its first failed command; the
		// script's own counts, the others are looked at by nobody.
		_, _ = s.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			cmd = pipe.EvalSha(ctx, sc.sha, keys, args...)
			beside(pipe)
			return nil
		})
	}
	if err := cmd.Err(); err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") {
		cmd = s.rdb.Eval(ctx, sc.text, keys, args...)
	}
	v, err := cmd.Result()
	if errors.Is(err, redis.Nil) {
		return nil, nil //nolint:nilnil // a script may return nothing
	}
	return v, err
}

// ttlSeconds is TTL for EXPIRE.
const ttlSeconds = int64(TTL / time.Second)

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
