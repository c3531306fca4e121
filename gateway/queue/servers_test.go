package queue_test

import (
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/internal/testrun"
	"github.com/batchfleet/batchfleet/jobs"
)

func TestServersListsWorkersWithTheirGoodTokensAndLeases(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		register := func(name, own string) queue.Registered {
			enroll := r.enroll()
			r.clock.pass(time.Second)
			return must(r.Register(r.ctx(), queue.Registration{EnrollToken: enroll, Token: own, Name: name}))(r)
		}
		servers := func(offset, limit, wantTotal int) []queue.Server {
			r.Helper()
			list, total, err := r.Servers(r.ctx(), offset, limit)
			if err != nil || total != wantTotal {
				r.Fatalf("%+v, %d, %v; want %d in all", list, total, err, wantTotal)
			}
			return list
		}
		if list := servers(0, 10, 0); len(list) != 0 {
			r.Errorf("%+v", list)
		}
		a, b, c := register("a", ""), register("b", ""), register("c", "")
		second := register("a", a.Token) // two tokens for a moment
		for _, id := range []string{"1", "2", "3"} {
			r.submit(jobs.ID(id))
		}
		r.lease(queue.Caller{TokenHash: queue.HashToken(b.Token)}, "1")
		r.lease(queue.Caller{TokenHash: queue.HashToken(b.Token)}, "2")
		must(r.Revoke(r.ctx(), c.Worker))(r)
		list := servers(0, 10, 3)
		want := []queue.Server{
			{a.Worker, "a", second.At.UTC().Format(time.RFC3339Nano), 2, 0},
			{c.Worker, "c", c.At.UTC().Format(time.RFC3339Nano), 0, 0},
			{b.Worker, "b", b.At.UTC().Format(time.RFC3339Nano), 1, 2},
		}
		for i, w := range want {
			if list[i] != w {
				r.Errorf("number %d is %+v, want %+v", i, list[i], w)
			}
		}
		if list := servers(1, 1, 3); len(list) != 1 || list[0] != want[1] {
			r.Errorf("the second: %+v", list)
		}
		if list := servers(3, 10, 3); len(list) != 0 {
			r.Errorf("beyond the end: %+v", list)
		}
		if _, _, err := r.Servers(r.ctx(), 0, 0); err == nil {
			r.Error("a limit of 0 lists all")
		}
		r.clock.pass(11 * time.Minute)
		if list := servers(0, 1, 3); list[0].Tokens != 1 {
			r.Errorf("after the grace %+v", list[0])
		}
		r.clock.pass(r.TokenTTL)
		if list := servers(0, 1, 3); list[0].Tokens != 0 {
			r.Errorf("after the last token %+v", list[0])
		}
		r.clock.pass(30 * 24 * time.Hour)
		servers(0, 10, 0)
	})
}

func TestServersCountsMoreLeasesThanAPage(t *testing.T) {
	t.Parallel()
	testrun.Long(t, "it takes much CPU")
	r := newRig(t)
	c := r.worker()
	const n = 2100
	r.MaxLeases = n
	for i := range n {
		r.submit(jobs.ID("j" + string(rune('a'+i%26)) + time.Duration(i).String()))
	}
	for range n {
		if g, err := r.Lease(r.ctx(), c, queue.LeaseRequest{Renews: true}); err != nil || g.Job == "" {
			t.Fatal(g, err)
		}
	}
	if list, _, err := r.Servers(r.ctx(), 0, 1); err != nil || list[0].Leases != n {
		t.Errorf("%+v, %v; want %d leases", list, err, n)
	}
}
