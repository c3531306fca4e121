package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// replicaPause is how long no answer waits after a replica has not answered in time:
	// one that hangs must not make each call slower until Redis drops it.
	replicaPause = 5 * time.Second
	// replicaLook is how often it is asked whether there is a replica.
	replicaLook = time.Second
)

// replicas is what is known of the server's replicas.
type replicas struct {
	mu     sync.Mutex
	known  bool      // the server has said whether there are any, or that it does not tell
	looked time.Time // when it was last asked
	some   bool
	late   time.Time // when one last did not answer in time
	hidden bool      // Queue.OnReplicasUnknown was called
}

// plan says whether a call is to wait for a replica, as far as is known, and whether it
// is to ask for them first: one call at a time is, or each while nothing is known.
func (r *replicas) plan(now time.Time) (wait, look bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if look = !r.known || now.Sub(r.looked) >= replicaLook; look {
		r.looked = now
	}
	return r.some && (r.late.IsZero() || now.Sub(r.late) >= replicaPause), look
}

// learn takes note of what the server says of itself. One that refuses to counts as
// one without replicas; one that cannot be asked leaves what is known, and its error
// is returned while that is nothing.
func (q *Queue) learn(role *redis.Cmd) error {
	err := role.Err()
	reply, ok := errors.AsType[redis.Error](err)
	r := &q.replicas
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil && (!ok || says(reply, away)) {
		if r.known {
			return nil
		}
		return err
	}
	list, _ := role.Val().([]any)
	r.known, r.some = true, false
	if len(list) == 3 {
		each, _ := list[2].([]any)
		r.some = list[0] == "master" && len(each) > 0
	}
	if redis.HasErrorPrefix(err, "NOPERM") && !r.hidden && q.OnReplicasUnknown != nil {
		r.hidden = true
		q.OnReplicasUnknown()
	}
	return nil
}

func (r *replicas) missed(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.late = now
}

// keep runs a script and returns when a replica has what it wrote, where there is one:
// a primary that dies before takes with it what nothing else remembers. WAIT covers
// what was written before the last write of its own connection. A script that comes
// again on another one, after the first broke, writes nothing, so both go in one
// pipeline with a write between them.
//
// When no replica answers within ReplicaWait the call succeeds all the same, as it
// does where there is none: a replica that hangs must not stop the gateway. OnUnreplicated is
// told. When the connection breaks meanwhile the call has failed; it may be repeated.
func (q *Queue) keep(ctx context.Context, run func(redis.Scripter) *redis.Cmd) *redis.Cmd {
	wait, look := q.replicas.plan(q.Now())
	if look {
		role := q.rdb.Do(ctx, "ROLE")
		if err := q.learn(role); err != nil {
			role.SetErr(fmt.Errorf("ask for replicas: %w", err))
			return role
		}
		wait, _ = q.replicas.plan(q.Now())
	}
	if !wait {
		return run(q.rdb)
	}
	var script, waited *redis.Cmd
	var write *redis.StatusCmd
	_, _ = q.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		script = run(pipe)
		write = pipe.Set(ctx, checkKey, "1", time.Minute)
		waited = pipe.Do(ctx, "WAIT", 1, q.ReplicaWait.Milliseconds())
		return nil
	}) // each command has its own error
	if script.Err() != nil {
		return script
	}
	if err := cmp.Or(write.Err(), waited.Err()); err != nil {
		script.SetErr(fmt.Errorf("wait for a replica: %w", err))
	} else if waited.Val() == int64(0) {
		q.replicas.missed(q.Now())
		if q.OnUnreplicated != nil {
			q.OnUnreplicated()
		}
	}
	return script
}

// keeper runs scripts by keep.
type keeper struct {
	redis.UniversalClient
	q *Queue
}

func (k keeper) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	return k.q.keep(ctx, func(c redis.Scripter) *redis.Cmd { return c.EvalSha(ctx, sha, keys, args...) })
}

func (k keeper) Eval(ctx context.Context, text string, keys []string, args ...any) *redis.Cmd {
	return k.q.keep(ctx, func(c redis.Scripter) *redis.Cmd { return c.Eval(ctx, text, keys, args...) })
}
