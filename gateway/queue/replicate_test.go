package queue_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/gateway/queue"
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
	r := newRig(t)
	alone := 0
	r.Alone, r.ReplicaWait = func() { alone++ }, 30*time.Second
	r.submit("a")
	if n := r.waits(); n != 0 {
		t.Fatalf("without a replica there were %d WAIT", n)
	}

	replica := redistest.New(t, "--replicaof", fmt.Sprintf("127.0.0.1 %d", r.srv.Port))
	copied := replica.Client()
	eventually(t, "the replica has all and says so", func() bool {
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
	if _, err := r.finish(w1, g, `{"n":1}`); err != nil {
		t.Fatal(err)
	}
	has("a result", "zpe:result:a")
	enroll, _, err := r.Enroll(t.Context(), "e", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	reg, err := r.Register(t.Context(), queue.Registration{EnrollToken: enroll, Name: "n", Meta: "{}"})
	if err != nil {
		t.Fatal(err)
	}
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

// eventually waits for something that other processes bring about.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !cond(); <-time.After(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}
