package status

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Look reports whether a repair round is due and, if so, reserves it for this caller
// for hold. A round is due at the time set by LookDone, and settle after Redis was
// restarted or failed over. Lost is when such a loss was noticed that no round has
// dealt with yet; zero if there was none.
func (s *Store) Look(ctx context.Context, hold, settle time.Duration) (mine bool, lost time.Time, err error) {
	runs, err := s.runs(ctx)
	if err != nil {
		return false, time.Time{}, err
	}
	got, err := s.run(ctx, "ask for a repair", dueScript, []string{repairKey}, hold.Milliseconds(), settle.Milliseconds(), ttlSeconds, runs)
	if ms := got.Number(1); ms > 0 {
		lost = time.UnixMilli(ms)
	}
	return got.Number(0) == 1, lost, err
}

// LookDone sets when the next repair round is due. With done the loss that this one
// has looked for, if any, is dealt with; otherwise it stays on record. Where Redis has
// lost something again since then, nothing changes: that round comes first.
func (s *Store) LookDone(ctx context.Context, next time.Duration, lost time.Time, done bool) error {
	ms := int64(0)
	if !lost.IsZero() {
		ms = lost.UnixMilli()
	}
	_, err := s.run(ctx, "schedule a repair", lookedScript, []string{repairKey}, next.Milliseconds(), ms, done)
	return err
}

// runs returns the ids that the servers, all primaries of a cluster, have had since
// they were started; empty for one that does not say.
func (s *Store) runs(ctx context.Context) (string, error) {
	nodes, err := s.primaries(ctx)
	if err != nil {
		return "", err
	}
	var runs []string
	for _, node := range nodes {
		info, err := node.Info(ctx, "server").Result()
		if err != nil && !errors.As(err, new(redis.Error)) {
			return "", unavailable("ask for the run of Redis", err)
		}
		_, id, _ := strings.Cut(info, "run_id:")
		id, _, _ = strings.Cut(id, "\r\n")
		runs = append(runs, id)
	}
	slices.Sort(runs)
	return strings.Join(runs, " "), nil
}

// primaries returns the server, or all primaries of a cluster.
func (s *Store) primaries(ctx context.Context) (nodes []redis.Cmdable, err error) {
	cluster, ok := s.rdb.(*redis.ClusterClient)
	if !ok {
		return []redis.Cmdable{s.rdb}, nil
	}
	var mu sync.Mutex // they are asked at once
	err = cluster.ForEachMaster(ctx, func(_ context.Context, node *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		nodes = append(nodes, node)
		return nil
	})
	if err != nil {
		return nil, unavailable("ask the nodes of the cluster", err)
	}
	return nodes, nil
}
