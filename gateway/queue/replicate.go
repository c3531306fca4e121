package queue

import (
	"context"
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
	looked time.Time // when it was last asked whether there are any; zero if never
	some   bool
	late   time.Time // when one last did not answer in time
}

// plan says whether a call is to wait for a replica, as far as is known, and whether it
// is to ask for them first: one call at a time is.
func (r *replicas) plan(now time.Time) (wait, look bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if look = r.looked.IsZero() || now.Sub(r.looked) >= replicaLook; look {
		r.looked = now
	}
	return r.some && (r.late.IsZero() || now.Sub(r.late) >= replicaPause), look
}

// learn takes note of what the server says of itself. One that keeps its role to
// itself counts as one without replicas.
func (r *replicas) learn(role *redis.Cmd) {
	list, _ := role.Val().([]any)
	some := false
	if len(list) == 3 {
		each, _ := list[2].([]any)
		some = list[0] == "master" && len(each) > 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.some = some
}

func (r *replicas) missed(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.late = now
}

// keep runs a script and returns when a replica has what it wrote, where there is one:
// a primary that dies before takes with it what nothing else remembers. WAIT counts
// what its own connection has written, so both go in one pipeline.
//
// When no replica answers within ReplicaWait the call succeeds all the same, as it
// does where there is none: a replica that hangs must not stop the gateway. Alone is
// told. When the connection breaks meanwhile the call has failed; it may be repeated.
func (q *Queue) keep(ctx context.Context, run func(redis.Cmdable) *redis.Cmd) (*redis.Cmd, error) {
	wait, look := q.replicas.plan(q.Now())
	if look {
		q.replicas.learn(q.rdb.Do(ctx, "ROLE"))
		wait, _ = q.replicas.plan(q.Now())
	}
	if !wait {
		return run(q.rdb), nil
	}
	var script, waited *redis.Cmd
	_, _ = q.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		script = run(pipe)
		waited = pipe.Do(ctx, "WAIT", 1, q.ReplicaWait.Milliseconds())
		return nil
	}) // each command has its own error
	if script.Err() != nil {
		return script, nil //nolint:nilerr // it carries its error
	}
	if err := waited.Err(); err != nil {
		return script, fmt.Errorf("wait for a replica: %w", err)
	}
	if waited.Val() == int64(0) {
		q.replicas.missed(q.Now())
		if q.Alone != nil {
			q.Alone()
		}
	}
	return script, nil
}
