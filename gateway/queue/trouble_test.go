package queue_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/redisdb"
)

// everyCall is every method that asks Redis.
func (r *rig) everyCall() map[string]func() error {
	ctx := r.ctx()
	return map[string]func() error{
		"submit": func() error { _, err := r.Submit(ctx, "new", []byte("{}"), ""); return err },
		"lease":  func() error { _, err := r.Lease(ctx, w1, queue.LeaseRequest{}); return err },
		"extend": func() error { _, err := r.Extend(ctx, w1, "a", "l", queue.Beat{}); return err },
		"finish": func() error { _, _, err := r.Finish(ctx, w1, "a", "l", queue.Result{}); return err },
		"fail": func() error {
			_, err := r.Queue.Fail(ctx, w1, "a", "l", queue.Failure{RetryPolicy: queue.Retry})
			return err
		},
		"reap":          func() error { _, err := r.Reap(ctx); return err },
		"promote":       func() error { _, err := r.Promote(ctx); return err },
		"forget":        func() error { _, err := r.ForgetRevoked(ctx); return err },
		"enroll":        func() error { _, _, err := r.Enroll(ctx, "l", time.Hour); return err },
		"register":      func() error { _, err := r.Register(ctx, queue.Registration{EnrollToken: "t"}); return err },
		"revoke":        func() error { _, err := r.Revoke(ctx, "w"); return err },
		"authorize":     func() error { _, err := r.Authorize(ctx, w1); return err },
		"job":           func() error { _, err := r.Job(ctx, "a"); return err },
		"result":        func() error { _, err := r.Result(ctx, "a"); return err },
		"cancel":        func() error { _, err := r.Cancel(ctx, "a"); return err },
		"ops":           func() error { _, err := r.Ops(ctx); return err },
		"set ops":       func() error { on := true; _, err := r.SetOps(ctx, &on, &on); return err },
		"dead letters":  func() error { _, _, err := r.DeadLetters(ctx, 0, 9); return err },
		"requeue":       func() error { return r.Requeue(ctx, "a") },
		"drop":          func() error { return r.Drop(ctx, "a") },
		"late":          func() error { _, err := r.Late(ctx, "a"); return err },
		"accept":        func() error { return r.AcceptLate(ctx, "a") },
		"next end":      func() error { _, err := r.NextEnd(ctx); return err },
		"runnable":      func() error { _, err := r.Runnable(ctx); return err },
		"servers":       func() error { _, _, err := r.Servers(ctx, 0, 9); return err },
		"summary":       func() error { _, err := r.Summary(ctx, "a"); return err },
		"freqs":         func() error { _, err := r.Freqs(ctx, "a"); return err },
		"sizes":         func() error { _, _, _, err := r.Sizes(ctx, "a"); return err },
		"stats":         func() error { _, err := r.Stats(ctx); return err },
		"check":         func() error { return r.Check(ctx) },
		"fsck":          func() error { _, err := r.Fsck(ctx, false); return err },
		"fsck, repairs": func() error { _, err := r.Fsck(ctx, true); return err },
	}
}

func (r *rig) unavailable(when string, names ...string) {
	r.Helper()
	calls := r.everyCall()
	if len(names) == 0 {
		names = slices.Collect(maps.Keys(calls))
	}
	for _, name := range names {
		if err := calls[name](); !errors.Is(err, jobs.ErrUnavailable) {
			r.Errorf("%s, %s: %v, want that Redis is unavailable", name, when, err)
		}
	}
}

func TestZ07RedisThatCannotServeIsUnavailable(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.submit("a")
	r.is("OK", "CONFIG", "SET", "maxmemory", "1")
	r.unavailable("out of memory", "submit", "enroll", "set ops", "check")
	r.lease(w1, "a") // what frees memory goes on
	r.is("OK", "CONFIG", "SET", "maxmemory", "0")
	r.sound()

	r.submit("b")
	r.is("OK", "CONFIG", "SET", "min-replicas-to-write", "3")
	r.unavailable("too few replicas", "submit", "lease", "enroll", "check")
	r.is("OK", "CONFIG", "SET", "min-replicas-to-write", "0")
	r.sound()
	r.is("OK", "REPLICAOF", "127.0.0.1", "1")
	r.unavailable("a replica", "submit", "lease", "enroll", "check")
	r.is("OK", "REPLICAOF", "NO", "ONE")
	r.lease(w1, "b")
	r.sound()

	busy := r.srv.Client()
	r.is("OK", "CONFIG", "SET", "busy-reply-threshold", "1")
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = busy.Eval(context.WithoutCancel(r.ctx()), "while true do end", nil).Err()
	}()
	for !strings.HasPrefix(r.do("PING"), "BUSY") {
		<-time.After(time.Millisecond)
	}
	quick := rigOn(t, redis.NewClient(&redis.Options{Addr: r.srv.Addr(), MaxRetries: -1, DisableIdentity: true}))
	defer quick.rdb.Close()
	quick.unavailable("busy")
	r.is("OK", "SCRIPT", "KILL")
	<-done
	r.sound()
}

func TestZ07AbsentRedisIsUnavailable(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	gone := rigOn(t, redisdb.Connect(redisdb.Options{Host: r.srv.Host, Port: r.srv.Port}).(*redis.Client))
	defer gone.rdb.Close()
	r.srv.Kill()
	gone.unavailable("gone")
	r.srv.Start()
}

func TestZ07FrozenRedisCostsNoMoreThanTheDeadline(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	frozen := rigOn(t, redisdb.Connect(redisdb.Options{Host: r.srv.Host, Port: r.srv.Port, Pool: 1}).(*redis.Client))
	defer frozen.rdb.Close()
	frozen.submit("a")
	r.srv.Freeze()
	defer r.srv.Resume()
	ctx, cancel := context.WithTimeout(r.ctx(), 100*time.Millisecond)
	defer cancel()
	// One connection, ten callers: the others wait for the pool.
	errs := make(chan error, 10)
	for range cap(errs) {
		go func() {
			_, err := frozen.Lease(ctx, w1, queue.LeaseRequest{})
			errs <- err
		}()
	}
	for range cap(errs) {
		if err := <-errs; !errors.Is(err, jobs.ErrUnavailable) {
			r.Error(err)
		}
	}
}

func TestForeignKeyIsAMistakeAndNotAnAbsence(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.do("SET", "zpe:status:a", "x")
	r.do("SET", "zpe:ops", "x")
	calls := r.everyCall()
	for _, name := range []string{"job", "submit", "ops", "cancel"} {
		if err := calls[name](); err == nil || errors.Is(err, jobs.ErrUnavailable) || !strings.Contains(err.Error(), "WRONGTYPE") {
			r.Errorf("%s: %v, want the wrong type named", name, err)
		}
	}
}

func TestIDsAndTextsOfAnyLegalShapeComeBackAsTheyWere(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		odd := "\x00 \xff\xfe \r\n $5\r\n 'x' \"y\" ]] %d %s ü 漢"
		for _, s := range []string{"1", "0", "1e5", "0x10", "9007199254740993", "-", "a-b_c.d", "index2", "nil", "false", strings.Repeat("z", 128)} {
			id, err := queue.ParseID(s)
			if err != nil {
				if s != "-" {
					r.Error(err)
				}
				continue
			}
			must(r.Submit(r.ctx(), id, []byte(odd), odd+s))(r)
			g := r.lease(queue.Caller{Worker: "a:b"}, id)
			if g.Payload != odd {
				r.Errorf("payload %q", g.Payload)
			}
			c := queue.Caller{Worker: "a:b"}
			if _, err := r.Extend(r.ctx(), c, id, g.LeaseID, queue.Beat{Message: odd, Done: 1 << 53, Total: 1 << 53}); err != nil {
				r.Error(err)
			}
			if j := r.status(id, "started"); j.Detail != odd || j.Done != 1<<53 {
				r.Errorf("%+v", j)
			}
			if _, _, err := r.Finish(r.ctx(), c, id, g.LeaseID, queue.Result{JSON: odd, Summary: "", Freqs: "1.0\n"}); err != nil {
				r.Error(err)
			}
			for want, read := range map[string]func(context.Context, jobs.ID) (string, error){odd: r.Result, "": r.Summary, "1.0\n": r.Freqs} {
				if got, err := read(r.ctx(), id); got != want || err != nil {
					r.Errorf("%q, %v; want %q", got, err, want)
				}
			}
		}
		for _, s := range []string{"index", "a:b", "", "a b", "../x", strings.Repeat("z", 129)} {
			if id, err := queue.ParseID(s); err == nil {
				r.Errorf("ParseID(%q) = %q", s, id)
			}
		}
		r.sound()
	})
}

func TestPayloadsAndResultsOfTheProtocolsSizePass(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	payload, result := strings.Repeat("p", 1<<20), strings.Repeat("r", 32<<20)
	must(r.Submit(r.ctx(), "a", []byte(payload), ""))(r)
	g := r.lease(w1, "a")
	if g.Payload != payload {
		r.Errorf("payload of %d bytes", len(g.Payload))
	}
	must(r.finish(w1, g, result))(r)
	if got := must(r.Result(r.ctx(), "a"))(r); got != result {
		r.Errorf("result of %d bytes", len(got))
	}
}

func TestZ07RedisThatRefusesUsIsUnavailable(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.submit("a")
	as := func(user string) *rig {
		t.Helper()
		rdb := redisdb.Connect(redisdb.Options{Host: r.srv.Host, Port: r.srv.Port, Username: user, Password: strings.Repeat("p", len(user))}).(*redis.Client)
		t.Cleanup(func() { _ = rdb.Close() })
		return rigOn(t, rdb)
	}
	refused := func(when string, o *rig, names ...string) {
		t.Helper()
		o.unavailable(when, names...)
		for _, name := range append(names, "check") {
			if err := o.everyCall()[name](); !errors.Is(err, queue.ErrRefuses) {
				t.Errorf("%s, %s: %v, want that Redis refuses", name, when, err)
			}
		}
	}
	for _, tt := range []struct{ name, rules string }{
		{"scripts", "~* +@all -@scripting"},
		{"EVALSHA", "~* +@all -evalsha"},
		{"what scripts do", "~* +@all -@write"},
		{"our keys", "~other:* +@all"},
	} {
		args := []any{"ACL", "SETUSER", "u", "reset", "on", ">p"}
		for rule := range strings.FieldsSeq(tt.rules) {
			args = append(args, rule)
		}
		r.is("OK", args...)
		refused(tt.name, as("u"), "lease")
	}
	r.is("OK", "ACL", "SETUSER", "u", "reset", "on", ">p", "~*", "+@all", "-info")
	if err := as("u").Check(r.ctx()); err != nil {
		t.Errorf("a server that keeps INFO to itself: %v", err)
	}
	r.is("OK", "CONFIG", "SET", "requirepass", "secret")
	refused("no password", as(""), "submit", "lease")
	refused("a wrong user", as("nobody"), "submit", "lease", "job")
}

func TestZ07RedisThatMayEvictIsNotReady(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, policy := range []string{"allkeys-lru", "volatile-ttl", "noeviction"} {
		r.is("OK", "CONFIG", "SET", "maxmemory-policy", policy)
		if err := r.Check(r.ctx()); errors.Is(err, queue.ErrEvicts) != (policy != "noeviction") || err != nil && policy == "noeviction" {
			t.Errorf("policy %s: %v", policy, err)
		}
	}
}
