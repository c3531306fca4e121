package queue_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/status/redistest"
)

// Scripts touch keys in any slot, also such as they learn from the queue and so
// cannot declare. One server runs them.
func TestZ22ScriptsTouchKeysThatAreNotDeclared(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		r.submit("a", "b")
		r.lease(w1, "a")
		r.is("1", "EXISTS", "zpe:lease:a")
		r.is("0", "EXISTS", "zpe:lease:b")
	})
	srv := redistest.New(t, "--cluster-enabled", "yes")
	slots := []any{"CLUSTER", "ADDSLOTS"}
	for i := range 16384 {
		slots = append(slots, i)
	}
	if err := srv.Client().Do(t.Context(), slots...).Err(); err != nil {
		t.Fatal(err)
	}
	q := queue.New(srv.Client(), queue.DefaultRules)
	for deadline := time.Now().Add(20 * time.Second); ; <-time.After(10 * time.Millisecond) { // it takes a moment to open
		_, err := q.Submit(t.Context(), "a", []byte("{}"), "")
		if errors.Is(err, jobs.ErrUnavailable) && time.Now().Before(deadline) {
			continue
		}
		if !redis.HasErrorPrefix(errors.Unwrap(err), "CROSSSLOT") {
			t.Errorf("a cluster answers a submission with %v; if it takes jobs, Check need not refuse it", err)
		}
		return
	}
}

func TestZ22ClusterIsRefusedInPlainWords(t *testing.T) {
	t.Parallel()
	srv := redistest.New(t, "--cluster-enabled", "yes")
	q := queue.New(srv.Client(), queue.DefaultRules)
	err := q.Check(t.Context())
	if !errors.Is(err, queue.ErrCluster) || errors.Is(err, jobs.ErrUnavailable) || !strings.Contains(err.Error(), "needs one server") {
		t.Errorf("check of a cluster: %v", err)
	}
	if err := newRig(t).Check(t.Context()); err != nil {
		t.Errorf("check of one server: %v", err)
	}
}

func TestNextEndIsThatOfTheLeaseThatEndsFirst(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		if end := must(r.NextEnd(r.ctx()))(r); !end.IsZero() {
			r.Errorf("without a lease it is %v", end)
		}
		r.submit("a", "b")
		first := r.lease(w1, "a")
		r.clock.pass(time.Minute)
		r.lease(w1, "b")
		if end := must(r.NextEnd(r.ctx()))(r); !end.Equal(first.Until) {
			r.Errorf("%v, want %v", end, first.Until)
		}
	})
}

func TestZ07ConnectionThatRedisRefusesIsNoGoodOne(t *testing.T) {
	t.Parallel()
	srv := redistest.New(t)
	check := func(o redis.Options) error {
		o.Addr = srv.Addr()
		rdb := redis.NewClient(&o)
		defer rdb.Close()
		return queue.New(rdb, queue.DefaultRules).Check(t.Context())
	}
	if err := check(redis.Options{DB: 99}); err == nil || !strings.Contains(err.Error(), "out of range") {
		t.Errorf("no such database: got %v", err)
	}
	if err := srv.Client().ConfigSet(t.Context(), "requirepass", "right").Err(); err != nil {
		t.Fatal(err)
	}
	if err := check(redis.Options{Password: "wrong"}); err == nil || !strings.Contains(err.Error(), "WRONGPASS") {
		t.Errorf("wrong password: got %v", err)
	}
	if err := check(redis.Options{}); err == nil || !strings.Contains(err.Error(), "NOAUTH") {
		t.Errorf("no password: got %v", err)
	}
	if err := check(redis.Options{Password: "right"}); err != nil {
		t.Errorf("the right password: got %v", err)
	}
}
