package redisdb

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Script is a Lua script.
type Script struct{ load func() *redis.Script }

// NewScript joins the named files of lua/ into one script, when it is first called: a
// program calls few of them. A file that is missing panics then: they are part of the
// binary.
func NewScript(lua fs.ReadFileFS, files ...string) Script {
	return Script{sync.OnceValue(func() *redis.Script {
		var b strings.Builder
		for _, f := range files {
			part, err := lua.ReadFile("lua/" + f + ".lua")
			if err != nil {
				panic(err)
			}
			b.Write(part)
		}
		return redis.NewScript(b.String())
	})}
}

// Run calls the script by its hash; a server that does not have it (it was restarted or
// flushed) is sent the text.
func (s Script) Run(ctx context.Context, c redis.Scripter, keys []string, args ...any) (Reply, error) {
	return reply(s.load().Run(ctx, c, keys, args...))
}

// reply reads the answer of a script.
func reply(cmd *redis.Cmd) (Reply, error) {
	v, err := cmd.Result()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	if list, ok := v.([]any); ok || err != nil {
		return list, err
	}
	return Reply{v}, nil
}

// Reply is a script's list of strings and numbers; absent ones read as "" and 0. What
// is no list is a list of one, and nothing an empty one.
type Reply []any

// Text returns the string at place i.
func (r Reply) Text(i int) string {
	if i >= len(r) {
		return ""
	}
	s, _ := r[i].(string)
	return s
}

// Number returns the whole number at place i.
func (r Reply) Number(i int) int64 {
	if i >= len(r) {
		return 0
	}
	n, _ := r[i].(int64)
	return n
}

// Unexpected is the error of a reply that is none of its script's.
func (r Reply) Unexpected() error {
	return fmt.Errorf("redis answered %.100q, which is no answer of the script", fmt.Sprint(r...))
}
