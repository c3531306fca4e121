package queue_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/internal/testrun"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/status/redistest"
)

// waits returns how many WAIT a server has had.
func (r *rig) waits() int {
	r.Helper()
	info := must(r.rdb.Info(r.ctx(), "commandstats").Result())(r)
	_, rest, found := strings.Cut(info, "cmdstat_wait:calls=")
	if !found {
		return 0
	}
	text, _, _ := strings.Cut(rest, ",")
	return must(strconv.Atoi(text))(r)
}

// TestF28AnswersWaitForAReplica: a submission, a result and a registration are on a
// replica when they are answered, where there is one, and a replica that hangs costs
// one call a second and no answer.
func TestF28AnswersWaitForAReplica(t *testing.T) {
	t.Parallel()
	testrun.Long(t, "it waits for seconds")
	r := newRig(t)
	alone := 0
	r.OnUnreplicated, r.ReplicaWait = func() { alone++ }, 30*time.Second
	r.submit("a")
	if n := r.waits(); n != 0 {
		t.Fatalf("without a replica there were %d WAIT", n)
	}

	replica := redistest.New(t, "--replicaof", fmt.Sprintf("127.0.0.1 %d", r.srv.Port))
	copied := replica.Client()
	eventually(t, "the replica has confirmed all", func() bool {
		return copied.Exists(t.Context(), "zpe:status:a").Val() == 1 && r.rdb.Do(t.Context(), "WAIT", 1, 100).Val() == int64(1)
	})
	before := r.waits()
	r.clock.pass(time.Minute) // it is asked again whether there is one
	has := func(what, key string) {
		t.Helper()
		if r.waits() <= before {
			t.Errorf("%s does not wait", what)
		}
		before = r.waits()
		if copied.Exists(t.Context(), key).Val() != 1 {
			t.Errorf("%s is not on the replica when it is answered", what)
		}
	}
	for i := range 20 {
		id := jobs.ID(fmt.Sprint("c", i))
		r.submit(id)
		has("a submission", "zpe:status:"+string(id))
	}
	g := r.lease(w1, "a")
	must(r.finish(w1, g, `{"n":1}`))(r)
	has("a result", "zpe:result:a")
	enroll := r.enroll()
	reg := must(r.Register(t.Context(), queue.Registration{EnrollToken: enroll, Name: "n", Meta: "{}"}))(r)
	has("a registration", "zpe:token:"+queue.HashToken(reg.Token))
	r.rdb.ScriptFlush(t.Context())
	r.submit("flushed")
	has("a submission after SCRIPT FLUSH", "zpe:status:flushed")

	replica.Freeze()
	r.ReplicaWait = time.Second
	r.submit("hung")
	if alone != 1 {
		t.Errorf("a replica that hangs was told of %d times, want 1", alone)
	}
	before = r.waits()
	r.submit("next")
	if r.waits() != before || alone != 1 {
		t.Error("the next call waits for the replica that hangs, too")
	}
	r.clock.pass(6 * time.Second)
	replica.Resume()
	r.ReplicaWait = 30 * time.Second
	r.submit("again")
	if has("a submission after a pause", "zpe:status:again"); alone != 1 {
		t.Error("a replica that is back is not heard")
	}
}

// pipelines notes the commands of each pipeline with a WAIT, and lets ask replace ROLE.
type pipelines struct {
	ask  func() error // of ROLE; nil lets it pass
	sent [][]string
}

func (p *pipelines) DialHook(next redis.DialHook) redis.DialHook { return next }

func (p *pipelines) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "role" && p.ask != nil {
			if err := p.ask(); err != nil {
				cmd.SetErr(err)
				return err
			}
		}
		return next(ctx, cmd)
	}
}

func (p *pipelines) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		var names []string
		for _, cmd := range cmds {
			names = append(names, cmd.Name())
		}
		p.sent = append(p.sent, names)
		return next(ctx, cmds)
	}
}

// replicated returns a queue on a server with a replica that has all so far, which the
// queue does not know yet.
func replicated(t *testing.T) *rig {
	t.Helper()
	r := newRig(t)
	r.ReplicaWait = 30 * time.Second
	redistest.New(t, "--replicaof", fmt.Sprintf("127.0.0.1 %d", r.srv.Port))
	eventually(t, "the replica says that it has all", func() bool {
		return r.rdb.Set(t.Context(), "x", "", 0).Err() == nil && r.rdb.Do(t.Context(), "WAIT", 1, 100).Val() == int64(1)
	})
	return r
}

// TestF28ARepeatedCallWaitsForAReplica: its script writes nothing, and from Redis 7.2 on
// WAIT covers only what comes before the last write of its own connection.
func TestF28ARepeatedCallWaitsForAReplica(t *testing.T) {
	t.Parallel()
	testrun.Long(t, "it waits for seconds")
	r := replicated(t)
	r.submit("a")
	p := &pipelines{}
	r.rdb.AddHook(p)
	r.submit("a")
	if got, want := fmt.Sprint(p.sent), "[[evalsha set wait]]"; got != want {
		t.Errorf("a repeated submission sends %s, want %s", got, want)
	}
}

// TestF28NoAnswerWithoutAReplicaThatIsNotKnownYet: nothing is taken for "no replicas"
// but the server's word.
func TestF28NoAnswerWithoutAReplicaThatIsNotKnownYet(t *testing.T) {
	t.Parallel()
	testrun.Long(t, "it waits for seconds")
	r := replicated(t)
	before := r.waits()
	asked, answer := make(chan bool), make(chan bool)
	var later atomic.Bool
	r.rdb.AddHook(&pipelines{ask: func() error {
		if !later.Swap(true) {
			close(asked)
			<-answer
		}
		return nil
	}})
	var slow sync.WaitGroup
	slow.Go(func() { r.submit("slow") })
	<-asked
	r.submit("meanwhile")
	between := r.waits()
	if between == before {
		t.Error("a submission while the server is asked for replicas does not wait for them")
	}
	close(answer)
	slow.Wait()
	if r.waits() == between {
		t.Error("the submission that asked does not wait")
	}
}

func TestF28LostAnswerOfRoleIsNoAnswer(t *testing.T) {
	t.Parallel()
	testrun.Long(t, "it waits for seconds")
	r := replicated(t)
	p := &pipelines{ask: func() error { return io.EOF }}
	r.rdb.AddHook(p)
	if _, err := r.Submit(r.ctx(), "a", []byte("{}"), ""); !errors.Is(err, jobs.ErrUnavailable) {
		t.Errorf("unknown whether there is a replica: %v, want that Redis is unavailable", err)
	}
	p.ask = nil
	r.submit("a")
	p.ask = func() error { return io.EOF }
	before := r.waits()
	r.clock.pass(time.Minute)
	r.submit("b")
	if r.waits() == before {
		t.Error("a lost answer of ROLE makes the known replica forgotten")
	}
}

func TestF28ACLThatRefusesRoleOrWaitShows(t *testing.T) {
	t.Parallel()
	testrun.Long(t, "it waits for seconds")
	r := replicated(t)
	as := func(rules ...any) (o *rig, hidden *int) {
		t.Helper()
		r.is("OK", append([]any{"ACL", "SETUSER", "u", "reset", "on", ">p", "~*", "&*", "+@all"}, rules...)...)
		rdb := redis.NewClient(&redis.Options{Addr: r.srv.Addr(), Username: "u", Password: "p", DisableIdentity: true})
		t.Cleanup(func() { _ = rdb.Close() })
		o, hidden = rigOn(t, rdb), new(int)
		o.OnReplicasUnknown = func() { *hidden++ }
		return o, hidden
	}
	o, hidden := as("-role")
	for range 2 {
		if err := o.Check(o.ctx()); err != nil {
			t.Error(err)
		}
		o.submit("a")
		o.clock.pass(time.Minute)
	}
	if *hidden != 1 {
		t.Errorf("that ROLE is refused was told %d times, want 1", *hidden)
	}
	o, _ = as("-wait")
	if err := o.Check(o.ctx()); !errors.Is(err, queue.ErrRefuses) {
		t.Errorf("WAIT is refused: %v, want %v", err, queue.ErrRefuses)
	}
	o, _ = as()
	if err := o.Check(o.ctx()); err != nil {
		t.Error(err)
	}
}

// eventually waits for something that other processes bring about.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !cond(); <-time.After(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}
