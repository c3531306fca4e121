package status

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/batch"
	"github.com/batchfleet/batchfleet/redisdb"
)

// together sends what several jobs have to say at the same time in one round trip. Each script has
// its own keys and its own answer; one that fails does not fail the others. The zero value is ready.
type together struct {
	upkeep

	mu     sync.Mutex
	groups map[string]*group // by the address of the server in a cluster; "" where there is no cluster
}

type group = batch.Group[request, redisdb.Reply]

// request is a script, or else a move in the index.
type request struct {
	call redisdb.Call
	move *move
}

const (
	// maxTogether is how many scripts at most one round trip waits for.
	maxTogether = 128
	// slowTogether is how long a script waits for a round trip that hangs before it goes with another.
	slowTogether = 100 * time.Millisecond
)

// runTogether is run in a round trip that calls for other jobs may share.
func (s *Store) runTogether(ctx context.Context, what string, sc redisdb.Script, keys []string, args ...any) (redisdb.Reply, error) {
	got, err := s.together.of(ctx, s.rdb, keys[0]).Do(ctx, request{call: redisdb.Call{Script: sc, Keys: keys, Args: args}})
	return got, unavailable(what, own(ctx, err))
}

// own returns err, or ctx.Err() in place of ctx's cause: a cause such as a lost lease would say about the job
// what Redis has not said.
func own(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		return ctx.Err()
	}
	return err
}

// of returns the group for a key. Each server of a cluster has its own, so that one that does not answer
// keeps nothing waiting that is for another.
func (t *together) of(ctx context.Context, rdb redis.UniversalClient, key string) *group {
	server := ""
	if cluster, ok := rdb.(*redis.ClusterClient); ok {
		if node, err := cluster.MasterForKey(ctx, key); err == nil {
			server = node.Options().Addr
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	g := t.groups[server]
	if g == nil {
		g = &group{Max: maxTogether, Slow: slowTogether, Send: func(ctx context.Context, all []request) []batch.Answer[redisdb.Reply] {
			return t.send(ctx, rdb, all)
		}}
		if t.groups == nil {
			t.groups = map[string]*group{}
		}
		t.groups[server] = g
	}
	return g
}

// send sends requests in one round trip.
func (t *together) send(ctx context.Context, rdb redis.UniversalClient, all []request) []batch.Answer[redisdb.Reply] {
	var calls []redisdb.Call
	var moves []move
	for _, r := range all {
		if r.move != nil {
			moves = append(moves, *r.move)
		} else {
			calls = append(calls, r.call)
		}
	}
	var indexing []redis.Cmder
	results := redisdb.RunAll(ctx, rdb, calls, func(pipe redis.Pipeliner) { indexing = t.enter(ctx, pipe, moves...) })
	var moved error
	for _, cmd := range indexing {
		moved = errors.Join(moved, cmd.Err())
	}
	answers := make([]batch.Answer[redisdb.Reply], len(all))
	for i, r := range all {
		if r.move != nil {
			answers[i].Err = moved
		} else {
			answers[i].Value, answers[i].Err = results[0].Reply, results[0].Err
			results = results[1:]
		}
	}
	return answers
}
