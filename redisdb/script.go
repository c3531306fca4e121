package redisdb

import (
	"context"
	"crypto/sha1" //nolint:gosec // the name Redis gives a script, not a secret
	"encoding/hex"
	"io/fs"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Script is a Lua script. It is called by its hash; a server that does not have it (it
// was restarted or flushed) answers an error of [NoScript] and is sent the text.
type Script struct{ load func() (text, sha string) }

// NewScript joins the named files of lua/ into one script, when it is first called: a
// program calls few of them. A file that is missing panics then: they are part of the
// binary.
func NewScript(lua fs.ReadFileFS, files ...string) Script {
	return Script{sync.OnceValues(func() (text, sha string) {
		var b strings.Builder
		for _, f := range files {
			part, err := lua.ReadFile("lua/" + f + ".lua")
			if err != nil {
				panic(err)
			}
			b.Write(part)
		}
		sum := sha1.Sum([]byte(b.String())) //nolint:gosec // see above
		return b.String(), hex.EncodeToString(sum[:])
	})}
}

// EvalSha calls the script by its hash.
func (s Script) EvalSha(ctx context.Context, c redis.Cmdable, keys []string, args ...any) *redis.Cmd {
	_, sha := s.load()
	return c.EvalSha(ctx, sha, keys, args...)
}

// Eval calls the script by its text.
func (s Script) Eval(ctx context.Context, c redis.Cmdable, keys []string, args ...any) *redis.Cmd {
	text, _ := s.load()
	return c.Eval(ctx, text, keys, args...)
}

// NoScript reports whether a server does not have the script that was called.
func NoScript(err error) bool { return err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") }

// Answer is a script's list of strings and numbers; absent ones read as "" and 0.
type Answer []any

// Text returns the string at place i.
func (a Answer) Text(i int) string {
	if i >= len(a) {
		return ""
	}
	s, _ := a[i].(string)
	return s
}

// Number returns the whole number at place i.
func (a Answer) Number(i int) int64 {
	if i >= len(a) {
		return 0
	}
	n, _ := a[i].(int64)
	return n
}
