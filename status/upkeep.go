package status

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// upkeep knows when a process has last looked after a key, which need not happen with each write. The zero
// value is ready. Its methods may be called concurrently.
type upkeep struct {
	mu   sync.Mutex
	done map[string]time.Time
}

const (
	upkeepEvery = time.Minute
	maxUpkeep   = 10_000 // keys that are remembered
)

// due reports whether it is time to look after a key, and takes it that the caller does.
func (u *upkeep) due(key string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := time.Now()
	if last, ok := u.done[key]; ok && now.Sub(last) < upkeepEvery {
		return false
	}
	if u.done == nil || len(u.done) >= maxUpkeep {
		u.done = map[string]time.Time{}
	}
	u.done[key] = now
	return true
}

// after adds what an index needs now and then, once something was put into it.
func (u *upkeep) after(ctx context.Context, pipe redis.Pipeliner, key string) (cmds []redis.Cmder) {
	if !u.due(key) {
		return nil
	}
	cmds = append(cmds, trim(ctx, pipe, key))
	if kind, ok := strings.CutPrefix(key, kindIndexPrefix); ok {
		cmds = append(cmds, keepKind(ctx, pipe, kind)...)
	}
	return cmds
}
