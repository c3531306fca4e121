package redisdb

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// ScanCount is how many names one command of a walk reads, about.
	ScanCount = 1000
	// scanTimeout bounds it.
	scanTimeout = 5 * time.Second
)

// Scan yields what a command reads of one cursor after the other, up to its first error.
func Scan(ctx context.Context, read func(ctx context.Context, cursor uint64) *redis.ScanCmd) iter.Seq2[[]string, error] {
	return func(yield func([]string, error) bool) {
		for cursor := uint64(0); ; {
			call, cancel := context.WithTimeout(ctx, scanTimeout)
			page, next, err := read(call, cursor).Result()
			cancel()
			if !yield(page, err) || err != nil || next == 0 {
				return
			}
			cursor = next
		}
	}
}

// Members yields the members of a sorted set, up to the first error: at most ScanCount
// at a time, some perhaps twice, none left out that were there all the time.
func Members(ctx context.Context, c redis.Cmdable, key string) iter.Seq2[[]string, error] {
	return func(yield func([]string, error) bool) {
		for pairs, err := range Scan(ctx, func(ctx context.Context, cursor uint64) *redis.ScanCmd {
			return c.ZScan(ctx, key, cursor, "", ScanCount)
		}) {
			if err != nil {
				yield(nil, err)
				return
			}
			// A small set comes as a whole, whatever its size is set to.
			for page := range slices.Chunk(pairs, 2*ScanCount) {
				members := page[:0]
				for pair := range slices.Chunk(page, 2) {
					members = append(members, pair[0])
				}
				if !yield(members, nil) {
					return
				}
			}
		}
	}
}

// Exec sends the commands of a pipeline, which read, and returns their first error or
// that of the connection. That one finds nothing at its key, or something of another
// type, is no error here.
func Exec(ctx context.Context, pipe redis.Pipeliner) error {
	cmds, err := pipe.Exec(ctx)
	fine := func() bool { return err == nil || errors.Is(err, redis.Nil) || redis.HasErrorPrefix(err, "WRONGTYPE") }
	for i := 0; fine() && i < len(cmds); i++ {
		err = cmds[i].Err()
	}
	if fine() {
		return nil
	}
	return err
}
