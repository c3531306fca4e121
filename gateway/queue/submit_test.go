package queue_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/redisdb"
	"github.com/batchfleet/batchfleet/status/redistest"
)

func TestZ25SubmissionIsOneScript(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		r.submit("a")
		r.is("1", "LLEN", "zpe:queue")
		r.is(`{"of":"a"}`, "GET", "zpe:payload:a")
		r.status("a", "queued")
		r.submit("a") // the same call again
		r.is("1", "LLEN", "zpe:queue")
		g := r.lease(w1, "a")
		r.submit("a")
		r.status("a", "started")
		must(r.finish(w1, g, `{}`))(r)
		r.submit("a")
		r.status("a", "finished")
		r.is("0", "LLEN", "zpe:queue")
		r.MaxQueued = 1
		r.submit("b")
		if _, err := r.Submit(r.ctx(), "c", []byte("{}"), ""); !errors.Is(err, queue.ErrFull) {
			r.Error(err)
		}
		r.is("0", "EXISTS", "zpe:payload:c", "zpe:status:c")
	})
}

func TestZ25SubmitterThatIsCutOffLeavesNoPartOfAJob(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var wg sync.WaitGroup
	// Each submitter is cut off in the middle of its calls, again and again.
	for i := range 4 {
		wg.Go(func() {
			for n := range 60 {
				rdb := r.srv.Client()
				q := queue.New(rdb, queue.DefaultRules)
				id := jobs.ID(fmt.Sprintf("j-%d-%d", i, n))
				done := make(chan struct{})
				go func() {
					defer close(done)
					_, _ = q.Submit(r.ctx(), id, make([]byte, 100_000), "")
				}()
				if n%3 > 0 {
					r.rdb.ClientKillByFilter(r.ctx(), "TYPE", "normal", "SKIPME", "yes")
				}
				<-done
				_ = rdb.Close()
			}
		})
	}
	wg.Wait()
	r.sound()
	queued := must(r.Stats(r.ctx()))(r).Queued
	for _, kind := range []string{"payload", "status"} {
		if n := len(must(r.rdb.Keys(r.ctx(), "zpe:"+kind+":*").Result())(r)); n != queued {
			r.Errorf("%d jobs in the queue, but %d keys zpe:%s", queued, n, kind)
		}
	}
}

func TestZ25KilledRedisKeepsEveryJobInOnePlace(t *testing.T) {
	t.Parallel()
	srv := redistest.New(t)
	for round := range 3 {
		// A pool that has met a dead server does not try at once.
		r := rigOn(t, redisdb.Connect(redisdb.Options{Host: srv.Host, Port: srv.Port}).(*redis.Client))
		r.MaxLeases = 1 << 20 // every fifth lease is kept, and a fast machine takes hundreds
		var wg sync.WaitGroup
		var mu sync.Mutex
		finished := map[jobs.ID]bool{}
		killed := make(chan struct{})
		for i := range 4 {
			c := queue.Caller{Worker: fmt.Sprint("w", i)}
			wg.Go(func() {
				// An error before the kill is a Redis that has stalled: the next move may pass.
				for n := 0; ; n++ {
					select {
					case <-killed:
						return
					default:
					}
					if _, err := r.Submit(r.ctx(), jobs.ID(fmt.Sprintf("j-%d-%d-%d", round, i, n)), []byte("{}"), ""); err != nil {
						continue
					}
					g, err := r.Lease(r.ctx(), c, queue.LeaseRequest{Renews: true})
					if err != nil || g.Job == "" || n%5 == 0 {
						continue
					}
					if _, err := r.finish(c, g, `{}`); err != nil {
						continue
					}
					mu.Lock()
					finished[g.Job] = true
					mu.Unlock()
				}
			})
		}
		<-time.After(150 * time.Millisecond) // for other processes there is no other clock
		for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); <-time.After(time.Millisecond) {
			mu.Lock()
			n := len(finished)
			mu.Unlock()
			if n >= 10 {
				break
			}
		}
		srv.Kill()
		close(killed)
		wg.Wait()
		srv.Start()
		_ = r.rdb.Close()
		r = rigOn(t, srv.Client())
		r.sound()
		for id := range finished {
			r.status(id, "finished")
		}
		if len(finished) == 0 {
			r.Error("nothing had finished: the test tests nothing")
		}
	}
}

func TestZ28IdempotencyKeyNamesOneJob(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		submit := func(id jobs.ID, payload, key string) (jobs.ID, error) {
			return r.Submit(r.ctx(), id, []byte(payload), key)
		}
		if id, err := submit("a", "{}", "k"); id != "a" || err != nil {
			r.Fatal(id, err)
		}
		if id, err := submit("b", "{}", "k"); id != "a" || err != nil {
			r.Errorf("the same key and payload: %s, %v", id, err)
		}
		if _, err := submit("c", `{"x":1}`, "k"); !errors.Is(err, queue.ErrKeyReused) {
			r.Errorf("the same key, another payload: %v", err)
		}
		if id, err := submit("d", "{}", "k2"); id != "d" || err != nil {
			r.Errorf("another key: %s, %v", id, err)
		}
		off := false
		must(r.SetOps(r.ctx(), &off, nil))(r)
		if id, err := submit("e", "{}", "k"); id != "a" || err != nil {
			r.Errorf("the same key while submission is off: %s, %v", id, err)
		}
		r.is("[d a]", "LRANGE", "zpe:queue", 0, -1)
		for _, key := range must(r.rdb.Keys(r.ctx(), "zpe:idempotency:*").Result())(r) {
			r.keepsFor(key, 24*time.Hour)
		}
	})
}

func TestZ28IdempotencyKeyUsedAtOnceMakesOneJob(t *testing.T) {
	t.Parallel()
	r := rigOn(t, redistest.New(t).Client())
	var wg sync.WaitGroup
	ids := make([]jobs.ID, 30)
	for i := range ids {
		wg.Go(func() {
			var err error
			if ids[i], err = r.Submit(r.ctx(), jobs.ID(fmt.Sprint("j", i)), []byte("{}"), "k"); err != nil {
				r.Error(err)
			}
		})
	}
	wg.Wait()
	for _, id := range ids {
		if id != ids[0] {
			r.Errorf("jobs %s and %s of one key", id, ids[0])
		}
	}
	r.is("1", "LLEN", "zpe:queue")
}
