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

// leaseSome leases up to so many jobs, which must be these.
func (r *rig) leaseSome(c queue.Caller, request string, most int, want ...jobs.ID) []queue.Grant {
	r.Helper()
	grants, _, err := r.LeaseJobs(r.ctx(), c, queue.LeaseRequest{Renews: true, RequestID: request}, most)
	if err != nil {
		r.Fatal(err)
	}
	var got []jobs.ID
	for _, g := range grants {
		got = append(got, g.Job)
	}
	if !slices.Equal(got, want) {
		r.Fatalf("leased %v, want %v", got, want)
	}
	return grants
}

func resultsOf(grants []queue.Grant) []queue.ResultOf {
	var all []queue.ResultOf
	for _, g := range grants {
		all = append(all, queue.ResultOf{Job: g.Job, Lease: g.LeaseID, Result: queue.Result{JSON: `{"of":"` + string(g.Job) + `"}`, Meta: "{}"}})
	}
	return all
}

func TestK18SixtyFourJobsComeInOneLease(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		var ids []jobs.ID
		for i := range queue.MaxBatch + 6 {
			ids = append(ids, jobs.ID(fmt.Sprintf("j%02d", i)))
		}
		r.submit(ids...)
		some := r.leaseSome(w1, "", queue.MaxBatch, ids[:queue.MaxBatch]...)
		leases := map[string]bool{}
		for _, g := range some {
			leases[g.LeaseID] = true
			r.status(g.Job, "started")
			if g.Payload != `{"of":"`+string(g.Job)+`"}` || g.TTL != r.LeaseTTL {
				r.Errorf("%+v", g)
			}
		}
		if len(leases) != len(some) {
			r.Errorf("%d leases have %d ids", len(some), len(leases))
		}
		r.sound()
		if _, _, err := r.LeaseJobs(r.ctx(), w1, queue.LeaseRequest{}, 2); !errors.Is(err, queue.ErrManyLeases) {
			r.Errorf("beyond what a worker may hold: %v", err)
		}
		for i, v := range r.FinishAll(r.ctx(), w1, resultsOf(some[1:])) {
			if v.Err != nil || v.Duplicate {
				r.Errorf("result of %s: %+v", some[i+1].Job, v)
			}
		}
		rest := r.leaseSome(w1, "", 10, ids[queue.MaxBatch:]...)
		r.FinishAll(r.ctx(), w1, append(resultsOf(rest), resultsOf(some[:1])...))
		if s := must(r.Stats(r.ctx()))(r); s != (queue.Stats{}) {
			r.Errorf("left over: %+v", s)
		}
		for _, id := range ids {
			if got := must(r.Result(r.ctx(), id))(r); got != `{"of":"`+string(id)+`"}` {
				r.Errorf("result of %s is %s", id, got)
			}
		}
		r.sound()
	})
}

// contents returns all keys and what they hold, with the n-th lease id written as LEASE n.
func (r *rig) contents(leases []string) map[string]string {
	r.Helper()
	all := map[string]string{}
	for _, name := range must(r.rdb.Keys(r.ctx(), "*").Result())(r) {
		var text string
		switch r.do("TYPE", name) {
		case "string":
			text = r.do("GET", name)
		case "hash":
			text = fmt.Sprint(r.rdb.HGetAll(r.ctx(), name).Val())
		case "zset":
			text = fmt.Sprint(r.rdb.ZRangeWithScores(r.ctx(), name, 0, -1).Val())
		case "set":
			text = fmt.Sprint(r.rdb.SMembers(r.ctx(), name).Val())
		case "list":
			text = r.do("LRANGE", name, 0, -1)
		}
		for n, lease := range leases {
			word := fmt.Sprint("LEASE ", n)
			name, text = strings.ReplaceAll(name, lease, word), strings.ReplaceAll(text, lease, word)
		}
		all[name] = text
	}
	return all
}

// A batch of one leaves in Redis what the call for one job leaves.
func TestK18BatchOfOneEqualsTheSingleForm(t *testing.T) {
	t.Parallel()
	single, batch := newRig(t), newRig(t)
	for _, r := range []*rig{single, batch} {
		r.submit("a")
		must(r.SubmitJob(r.ctx(), queue.Submission{ID: "b", Kind: "thumbnail", Payload: []byte("{}")}))(r)
	}
	leases := map[*rig][]string{}
	same := func(when string) {
		t.Helper()
		one, other := single.contents(leases[single]), batch.contents(leases[batch])
		if fmt.Sprint(one) != fmt.Sprint(other) {
			t.Errorf("after the %s:\n%v\nof the single form, and of a batch\n%v", when, one, other)
		}
	}
	for _, kind := range []jobs.Kind{"zpe", "thumbnail"} {
		ask := queue.LeaseRequest{Renews: true, Kinds: []jobs.Kind{kind}}
		g := must(single.Lease(t.Context(), w1, ask))(single)
		several, _, err := batch.LeaseJobs(t.Context(), w1, ask, 2)
		if err != nil || len(several) != 1 {
			t.Fatal(several, err)
		}
		h := several[0]
		leases[single], leases[batch] = append(leases[single], g.LeaseID), append(leases[batch], h.LeaseID)
		same("lease")
		w := w1
		w.Kind = g.Kind
		beat := queue.Beat{Message: "half", Done: 1, Total: 2}
		e := must(single.Extend(t.Context(), w, g.Job, g.LeaseID, beat))(single)
		extended, errs := batch.ExtendAll(t.Context(), w, []queue.Heartbeat{{Job: h.Job, Lease: h.LeaseID, Beat: beat}})
		if errs[0] != nil || extended[0] != e {
			t.Errorf("extended %+v, %v; want %+v", extended, errs, e)
		}
		same("heartbeat")
		result := resultsOf([]queue.Grant{h})[0]
		rec, _, err := single.Finish(t.Context(), w, g.Job, g.LeaseID, result.Result)
		if v := batch.FinishAll(t.Context(), w, []queue.ResultOf{result})[0]; v.Err != nil || err != nil || v.Recorded != rec {
			t.Errorf("recorded %+v; of the single form %+v, %v", v, rec, err)
		}
		same("result")
	}
}

func TestK18EachResultHasItsOwnVerdict(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		r.submit("new", "again", "other", "theirs", "broken", "late", "last")
		mine := r.leaseSome(w1, "", 3, "new", "again", "other")
		theirs := r.lease(w2, "theirs")
		rest := r.leaseSome(w1, "", 2, "broken", "late")
		r.clock.pass(r.LeaseTTL + r.Skew)
		last := r.lease(w1, "last")
		for _, g := range append(mine, rest[0], theirs) {
			r.do("ZREM", "zpe:lease:index", string(g.Job)) // the reaper does not see it
		}
		must(r.Reap(r.ctx()))(r) // takes back the lease on late
		must(r.finish(w1, mine[1], `{}`))(r)
		must(r.finish(w1, mine[2], `{}`))(r)
		r.do("DEL", "zpe:status:broken")
		r.do("SET", "zpe:status:broken", "of another program")

		all := resultsOf([]queue.Grant{mine[0], mine[1], mine[2], theirs, rest[0], rest[1], last, {Job: "unknown", LeaseID: last.LeaseID}, mine[0]})
		all[1].JSON, all[1].Summary, all[1].Freqs = `{}`, "s", "f"
		verdicts := r.FinishAll(r.ctx(), w1, all)
		want := []error{nil, nil, queue.ErrFinished, jobs.ErrLeaseLost, nil, jobs.ErrLeaseLost, nil, queue.ErrNoJob, nil}
		for i, v := range verdicts {
			switch job := all[i].Job; {
			case job == "broken":
				if v.Err == nil || !strings.Contains(v.Err.Error(), "WRONGTYPE") {
					r.Errorf("%s: %v, want the error of Redis", job, v.Err)
				}
			case !errors.Is(v.Err, want[i]) || (v.Err == nil) != (want[i] == nil):
				r.Errorf("%s: %v, want %v", job, v.Err, want[i])
			case v.Duplicate != (job == "again" || i == len(all)-1) || v.Late != (job == "late"):
				r.Errorf("%s: %+v", job, v)
			}
		}
		r.status("new", "finished")
		r.status("last", "finished")
		r.status("theirs", "started")
		for i, v := range r.FinishAll(r.ctx(), queue.Caller{TokenHash: queue.HashToken("zpw_none")}, all) {
			if !errors.Is(v.Err, queue.ErrTokenUnknown) {
				r.Errorf("%s, of a stranger: %v", all[i].Job, v.Err)
			}
		}
	})
}

func TestK18EachHeartbeatHasItsOwnAnswer(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		r.submit("a", "b", "c")
		some := r.leaseSome(w1, "", 2, "a", "b")
		theirs := r.lease(w2, "c")
		must(r.Cancel(r.ctx(), "b"))(r)
		r.clock.pass(time.Minute)
		var beats []queue.Heartbeat
		for _, g := range append(some, theirs, queue.Grant{Job: "unknown", LeaseID: "l"}) {
			beats = append(beats, queue.Heartbeat{Job: g.Job, Lease: g.LeaseID, Beat: queue.Beat{Message: "of " + string(g.Job)}})
		}
		extended, errs := r.ExtendAll(r.ctx(), w1, beats)
		for i, want := range []error{nil, nil, jobs.ErrLeaseLost, queue.ErrNoJob} {
			if !errors.Is(errs[i], want) || (errs[i] == nil) != (want == nil) {
				r.Errorf("%s: %v, want %v", beats[i].Job, errs[i], want)
			}
			if want == nil && (extended[i].TTL != r.LeaseTTL || extended[i].Cancel != (beats[i].Job == "b")) {
				r.Errorf("%s: %+v", beats[i].Job, extended[i])
			}
		}
		if j := r.status("a", "started"); j.Detail != "of a" {
			r.Errorf("%+v", j)
		}
		r.sound()
	})
}

// The answer may have been lost: the same request gets what is still held of it.
func TestK18RepeatedRequestGetsAllItsLeasesAgain(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		r.submit("a", "b", "c", "d", "e")
		first := r.leaseSome(w1, "r1", 3, "a", "b", "c")
		again := r.leaseSome(w1, "r1", 1, "a", "b", "c")
		for i := range first {
			if again[i].LeaseID != first[i].LeaseID {
				r.Errorf("again %+v, first %+v", again[i], first[i])
			}
		}
		must(r.finish(w1, first[0], `{}`))(r)
		r.leaseSome(w1, "r1", 2, "b", "c")
		must(r.finish(w1, first[1], `{}`))(r)
		must(r.finish(w1, first[2], `{}`))(r)
		r.leaseSome(w1, "r1", 1, "d")
		r.leaseSome(w1, "r1", 1, "d") // and no trace of the three
		r.leaseSome(w1, "r2", 9, "e")
		r.sound()
	})
}

// What jobs come to in bytes is bounded, and those that are too many stay where they are.
func TestK18LargePayloadsDoNotComeAllAtOnce(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		var ids []jobs.ID
		for i := range 20 {
			id := jobs.ID(fmt.Sprintf("j%02d", i))
			ids = append(ids, id)
			must(r.SubmitJob(r.ctx(), queue.Submission{ID: id, Kind: "thumbnail", Payload: []byte(`{"x":"` + strings.Repeat("x", 300_000) + `"}`)}))(r)
		}
		for len(ids) > 0 {
			n := min(4, len(ids))
			grants, _, err := r.LeaseJobs(r.ctx(), w1, queue.LeaseRequest{Renews: true, Kinds: []jobs.Kind{"thumbnail"}}, queue.MaxBatch)
			if err != nil || len(grants) != n || grants[0].Job != ids[0] {
				r.Fatalf("leased %d jobs, %v; want %v", len(grants), err, ids[:n])
			}
			ids = ids[n:]
		}
		r.is("[]", "SMEMBERS", "zpe:queue_kinds")
		r.sound()
	})
}
