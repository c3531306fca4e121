package queue_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/jobs"
)

const week = 7 * 24 * time.Hour

func TestZ10QueueIsAListInOrder(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		r.submit("a", "b", "c")
		r.is("list", "TYPE", "zpe:queue")
		r.is("[c b a]", "LRANGE", "zpe:queue", 0, -1)
		r.lease(w1, "a")
		r.lease(w2, "b")
		r.lease(w1, "c")
		r.lease(w1, "")
		r.sound()
	})
}

func TestZ11PayloadKeepsItsTimeToLiveFreshWhileTheJobMoves(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		r.submit("a")
		fresh := func(after string) {
			r.Helper()
			r.is("string", "TYPE", "zpe:payload:a")
			for _, key := range []string{"zpe:payload:a", "zpe:status:a"} {
				r.keepsFor(key, week)
			}
			if r.Failed() {
				r.Fatalf("after %s", after)
			}
			for _, key := range []string{"zpe:payload:a", "zpe:status:a", "zpe:retry_count:a"} {
				r.rdb.PExpire(r.ctx(), key, time.Hour)
			}
		}
		fresh("submission")
		g := r.lease(w1, "a")
		fresh("lease")
		must(r.Extend(r.ctx(), w1, "a", g.LeaseID, queue.Beat{}))(r)
		fresh("extension")
		r.fail(w1, g, queue.Retry)
		r.keepsFor("zpe:retry_count:a", week)
		fresh("retry")
		r.clock.pass(20 * time.Second)
		g = r.lease(w1, "a")
		r.keepsFor("zpe:retry_count:a", week)
		fresh("second lease")
		r.fail(w1, g, queue.ReturnUncounted)
		r.keepsFor("zpe:retry_count:a", week)
		fresh("return")
		g = r.lease(w1, "a")
		r.fail(w1, g, queue.Final)
		fresh("burial")
		if err := r.Requeue(r.ctx(), "a"); err != nil {
			r.Fatal(err)
		}
		fresh("requeue")
		r.lease(w1, "a")
		r.clock.pass(time.Hour)
		must(r.Reap(r.ctx()))(r)
		fresh("reaping")
	})
}

func TestZ11MissingPayloadBuriesTheJobAndTheNextIsTried(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		r.submit("a", "b", "gone", "c")
		r.do("DEL", "zpe:payload:a", "zpe:payload:b", "zpe:payload:gone", "zpe:status:gone")
		r.lease(w1, "c")
		for _, id := range []jobs.ID{"a", "b", "gone"} {
			if j := r.status(id, "failed"); j.Detail != "payload missing" {
				r.Errorf("detail of %s: %q", id, j.Detail)
			}
			r.keepsFor("zpe:status:"+string(id), week)
		}
		r.is("[gone b a]", "LRANGE", "zpe:dlq", 0, -1)
		r.sound()
	})
}

func TestZ12StatusSaysWhereTheJobStands(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		r.submit("a")
		r.is("hash", "TYPE", "zpe:status:a")
		r.status("a", "queued")
		g := r.lease(w1, "a")
		j := r.status("a", "started")
		if at, err := time.Parse(time.RFC3339Nano, j.UpdatedAt); err != nil || !at.Equal(r.clock.Now()) || j.Worker != "w1" {
			r.Errorf("%+v, %v", j, err)
		}
		must(r.finish(w1, g, `{}`))(r)
		r.status("a", "finished")
	})
}

func TestZ13LeaseHashHasNoTTL(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		r.submit("a")
		g := r.lease(w1, "a")
		check := func() {
			r.Helper()
			r.is("hash", "TYPE", "zpe:lease:a")
			r.is("-1", "PTTL", "zpe:lease:a")
			r.is("w1", "HGET", "zpe:lease:a", "worker_id")
			r.is(g.LeaseID, "HGET", "zpe:lease:a", "lease_id")
		}
		check()
		must(r.Extend(r.ctx(), w1, "a", g.LeaseID, queue.Beat{}))(r)
		check()
		r.clock.pass(time.Hour)
		check()
	})
}

func TestZ14IndexEqualsTheLease(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		r.submit("a")
		g := r.lease(w1, "a")
		for i := range 20 {
			r.is("zset", "TYPE", "zpe:lease:index")
			ends, err := r.rdb.HGet(r.ctx(), "zpe:lease:a", "expires_at").Float64()
			score := r.rdb.ZScore(r.ctx(), "zpe:lease:index", "a").Val()
			want := float64(r.clock.Now().Add(r.LeaseTTL).UnixMilli()) / 1000
			if err != nil || ends != score || ends != want {
				r.Fatalf("after %d extensions the hash ends at %v, the index at %v; want %v, %v", i, ends, score, want, err)
			}
			r.clock.pass(37*time.Second + 7*time.Millisecond)
			e, err := r.Extend(r.ctx(), w1, "a", g.LeaseID, queue.Beat{})
			if err != nil || !e.Until.Equal(r.clock.Now().Add(r.LeaseTTL)) || e.TTL != r.LeaseTTL {
				r.Fatalf("extended %+v, %v", e, err)
			}
		}
	})
}

func TestZ15RetryCountIsANumberAndGoesWithTheJob(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		r.submit("a", "b")
		r.fail(w1, r.lease(w1, "a"), queue.Retry)
		r.is("string", "TYPE", "zpe:retry_count:a")
		r.is("1", "GET", "zpe:retry_count:a")
		r.fail(w1, r.lease(w1, "b"), queue.Final)
		r.keepsFor("zpe:retry_count:b", week)
		r.clock.pass(time.Minute)
		must(r.finish(w1, r.lease(w1, "a"), `{}`))(r)
		r.is("0", "EXISTS", "zpe:retry_count:a", "zpe:payload:a", "zpe:lease:a")
	})
}

func TestZ16DelayAndDeadLetters(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		r.submit("a", "b")
		r.fail(w1, r.lease(w1, "a"), queue.Retry)
		r.fail(w1, r.lease(w1, "b"), queue.Final)
		r.is("zset", "TYPE", "zpe:delay")
		if got, want := r.rdb.ZScore(r.ctx(), "zpe:delay", "a").Val(), float64(r.clock.Now().Add(20*time.Second).UnixMilli())/1000; got != want {
			r.Errorf("a runs again at %v, want %v", got, want)
		}
		r.is("list", "TYPE", "zpe:dlq")
		r.is("[b]", "LRANGE", "zpe:dlq", 0, -1)
	})
}

func TestZ17ResultsAreKeptForTheirTime(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		r.ResultTTL = 2 * time.Hour
		r.submit("a")
		must(r.finish(w1, r.lease(w1, "a"), `{"zpe":1e-17}`))(r)
		for key, want := range map[string]string{"zpe:result:a": `{"zpe":1e-17}`, "zpe:summary:a": "s", "zpe:freqs:a": "f"} {
			r.is("string", "TYPE", key)
			r.is(want, "GET", key)
			r.keepsFor(key, 2*time.Hour)
		}
		r.keepsFor("zpe:status:a", 2*time.Hour)
		for _, read := range []func() (string, error){
			func() (string, error) { return r.Result(r.ctx(), "a") },
			func() (string, error) { return r.Summary(r.ctx(), "a") },
			func() (string, error) { return r.Freqs(r.ctx(), "a") },
		} {
			if s, err := read(); s == "" || err != nil {
				r.Errorf("%q, %v", s, err)
			}
		}
		r.submit("b")
		if _, err := r.Result(r.ctx(), "b"); !errors.Is(err, queue.ErrNotEnded) || !strings.Contains(err.Error(), "queued") {
			r.Errorf("result of a queued job: %v", err)
		}
		if _, err := r.Result(r.ctx(), "none"); !errors.Is(err, queue.ErrNoJob) {
			r.Errorf("result of no job: %v", err)
		}
	})
}

func TestZ19NoKeyAndNoValueHoldsAToken(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		enroll := r.enroll()
		holds := func(secret string) bool { return strings.Contains(r.dump(), secret) }
		if holds(enroll) || holds(strings.TrimPrefix(enroll, "zpe_")) {
			r.Error("the enroll token is in Redis")
		}
		reg := must(r.Register(r.ctx(), queue.Registration{EnrollToken: enroll, Name: "n", Meta: "{}"}))(r)
		c := queue.Caller{TokenHash: queue.HashToken(reg.Token)}
		r.submit("a", "b")
		must(r.finish(c, r.lease(c, "a"), `{}`))(r)
		r.fail(c, r.lease(c, "b"), queue.Retry)
		must(r.Revoke(r.ctx(), reg.Worker))(r)
		for _, secret := range []string{enroll, reg.Token} {
			if holds(secret[4:]) {
				r.Errorf("token %s… is in Redis", secret[:8])
			}
		}
		if !holds(queue.HashToken(reg.Token)) {
			r.Error("the dump does not even hold the hash: it is no dump")
		}
	})
}

// dump returns all keys and values.
func (r *rig) dump() string {
	r.Helper()
	var all strings.Builder
	keys := must(r.rdb.Keys(r.ctx(), "*").Result())(r)
	slices.Sort(keys)
	for _, key := range keys {
		read := map[string][]any{
			"string": {"GET", key},
			"hash":   {"HGETALL", key},
			"list":   {"LRANGE", key, 0, -1},
			"set":    {"SMEMBERS", key},
			"zset":   {"ZRANGE", key, 0, -1, "WITHSCORES"},
			"stream": {"XRANGE", key, "-", "+"},
		}[r.rdb.Type(r.ctx(), key).Val()]
		fmt.Fprintln(&all, key, r.do(read...))
	}
	return all.String()
}

func TestZ18Z20TokensAreHashedAndForgottenInTime(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		w := r.worker()
		token := "zpe:token:" + w.TokenHash
		r.is("hash", "TYPE", token)
		for _, field := range []string{"worker_id", "expires_at", "revoked_at", "label"} {
			r.is("1", "HEXISTS", token, field)
		}
		r.keepsFor(token, week+30*24*time.Hour)
		id := must(r.Authorize(r.ctx(), w))(r)
		must(r.Revoke(r.ctx(), id))(r)
		r.is("set", "TYPE", "zpe:revoked_tokens")
		r.is("1", "SISMEMBER", "zpe:revoked_tokens", w.TokenHash)
		if n := must(r.ForgetRevoked(r.ctx()))(r); n != 0 {
			r.Errorf("forgot %d tokens whose record is there", n)
		}
		for i := range 3000 {
			r.do("SADD", "zpe:revoked_tokens", fmt.Sprintf("%064x", i))
		}
		r.do("DEL", token)
		forgot := 0
		for n := 1; n > 0; forgot += n { // on miniredis a walk misses some of a set that shrinks
			n = must(r.ForgetRevoked(r.ctx()))(r)
			if r.srv != nil && forgot == 0 && n != 3001 {
				r.Errorf("forgot %d tokens at once, want 3001", n)
			}
		}
		if forgot != 3001 {
			r.Errorf("forgot %d tokens, want 3001", forgot)
		}
		r.is("0", "EXISTS", "zpe:revoked_tokens")
	})
}

func TestZ21EveryOtherKeyHasATimeToLive(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		c := r.worker()
		r.enroll()
		for _, id := range []jobs.ID{"a", "b", "c", "d", "e"} {
			must(r.Submit(r.ctx(), id, []byte("{}"), "key "+string(id)))(r)
		}
		must(r.finish(c, r.lease(c, "a"), `{}`))(r)
		r.fail(c, r.lease(c, "b"), queue.Retry)
		r.fail(c, r.lease(c, "c"), queue.Final)
		silent := r.lease(c, "d")
		r.clock.pass(r.LeaseTTL + r.Skew)
		must(r.Reap(r.ctx()))(r)
		if late, _ := r.finish(c, silent, `{}`); !late {
			r.Error("no late result")
		}
		r.lease(c, "e")
		if err := r.Check(r.ctx()); err != nil {
			r.Error(err)
		}
		forever := map[string]bool{
			"zpe:queue": true, "zpe:delay": true, "zpe:dlq": true, "zpe:lease:index": true, "zpe:revoked_tokens": true, "zpe:ops": true,
			"zpe:lease:e": true, "zpe:changes": true, "zpe:counts": true, // the last two are bounded
		}
		for _, state := range queue.States {
			forever["zpe:jobs:"+state] = true
		}
		prefixes := map[string]bool{}
		for _, key := range must(r.rdb.Keys(r.ctx(), "*").Result())(r) {
			if ttl := r.rdb.PTTL(r.ctx(), key).Val(); (ttl < 0) != forever[key] {
				r.Errorf("%s has a time to live of %v", key, ttl)
			}
			prefixes[strings.Join(strings.Split(key, ":")[:2], ":")] = true
		}
		for _, p := range []string{
			"enroll", "worker", "workers", "worker_tokens", "worker_leases", "failed_ack", "lease_req", "late", "reaped", "idempotency", "token", "check",
		} {
			if !prefixes["zpe:"+p] {
				r.Errorf("no key zpe:%s:… was made: the test does not test it", p)
			}
		}
	})
}
