package queue_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/jobs"
)

// follow reads the changes after a place until so many have come.
func (r *rig) follow(others bool, after string, n int) (ids []string, next string) {
	r.Helper()
	for len(ids) < n {
		got, at, lost, err := r.Changes(r.ctx(), others, after, 200)
		if err != nil || lost {
			r.Fatalf("changes after %s: %v, lost %v", after, err, lost)
		}
		for _, id := range got {
			ids = append(ids, string(id))
		}
		after = at
	}
	return ids, after
}

func (r *rig) present(others bool) string {
	r.Helper()
	ids, at, lost, err := r.Changes(r.ctx(), others, "", 200)
	if err != nil || lost || len(ids) > 0 || at == "" {
		r.Fatalf("the present is %q, %v, lost %v, %v", at, ids, lost, err)
	}
	return at
}

func TestD09ChangesComeInTheirOrder(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		zpe, others := r.present(false), r.present(true)
		r.submit("a", "b")
		g := r.lease(w1, "a")
		r.comeKind("thumbnail", "t1", "t2")
		must(r.Cancel(r.ctx(), "a"))(r) // it is told before its worker has stopped
		r.fail(w1, g, queue.Retry)
		grants := r.leaseThumbnails(2)
		must(r.Cancel(r.ctx(), "b"))(r)
		if got, _ := r.follow(false, zpe, 6); strings.Join(got, " ") != "a b a a a b" {
			t.Errorf("changes of zpe: %v", got)
		}
		got, at := r.follow(true, others, 4)
		if strings.Join(got, " ") != "t1 t2 t1 t2" {
			t.Errorf("changes of the others: %v", got)
		}
		if at != r.present(true) {
			t.Errorf("%s is not the present, which is %s", at, r.present(true))
		}
		must(r.Extend(r.ctx(), queue.Caller{Worker: "w1", Kind: "thumbnail"}, "t1", grants[0].LeaseID, queue.Beat{Done: 1, Total: 2}))(r)
		if now := r.present(true); now != at {
			t.Error("progress is told as a change")
		}
	})
}

func TestD09ReaderWaitsForAChange(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		at := r.present(false)
		came := make(chan string)
		go func() {
			ids, _, _, err := r.Changes(r.ctx(), false, at, 200)
			came <- fmt.Sprint(ids, err)
		}()
		r.submit("a")
		if got := <-came; got != "[a] <nil>" {
			t.Errorf("got %s", got)
		}
		at = r.present(false)
		ctx, cancel := context.WithCancel(r.ctx())
		go func() {
			ids, next, lost, err := r.Changes(ctx, false, at, 200)
			came <- fmt.Sprint(len(ids), next == at, lost, err)
		}()
		cancel()
		if got := <-came; got != "0 true false <nil>" {
			t.Errorf("when its time is over: %s", got)
		}
	})
}

func TestD09ChangesThatAreNotKeptAreLost(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		start := r.present(false)
		r.submit("a")
		_, at := r.follow(false, start, 1)
		pipe := r.rdb.Pipeline()
		for i := range 9_000 {
			pipe.Do(r.ctx(), "XADD", "zpe:changes", "*", "ids", fmt.Sprint("j", i))
		}
		must(pipe.Exec(r.ctx()))(r)
		for _, after := range []string{start, at} {
			if ids, _, lost, err := r.Changes(r.ctx(), false, after, 200); lost || err != nil || len(ids) != 200 {
				t.Errorf("after %s with all kept: %d changes, lost %v, %v", after, len(ids), lost, err)
			}
		}
		pipe = r.rdb.Pipeline()
		for range 2_000 {
			pipe.Do(r.ctx(), "XADD", "zpe:changes", "*", "ids", "x")
		}
		must(pipe.Exec(r.ctx()))(r)
		for i := 0; r.rdb.XLen(r.ctx(), "zpe:changes").Val() > 10_200 && i < 60_000; i++ { // a script trims now and then
			r.submit(jobs.ID(fmt.Sprint("b", i)))
		}
		for _, after := range []string{start, at, "nonsense"} {
			ids, next, lost, err := r.Changes(r.ctx(), false, after, 200)
			if !lost || err != nil || len(ids) > 0 || next != r.present(false) {
				t.Errorf("after %s: %d changes until %s, lost %v, %v; want them to be lost", after, len(ids), next, lost, err)
			}
		}
		if n := r.rdb.XLen(r.ctx(), "zpe:changes").Val(); n < 10_000 || n > 10_200 {
			t.Errorf("%d entries are kept", n)
		}
	})
}

func TestD09EachCallHasWholeEntries(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		at := r.present(true)
		var all []jobs.ID
		for i := range 9 {
			all = append(all, jobs.ID(fmt.Sprint("t", i)))
		}
		r.comeKind("thumbnail", all...)
		_, at = r.follow(true, at, 9)
		for range 3 {
			r.leaseThumbnails(3) // one entry each
		}
		ids, at, _, err := r.Changes(r.ctx(), true, at, 7)
		if err != nil || fmt.Sprint(ids) != "[t0 t1 t2 t3 t4 t5]" {
			t.Errorf("%v, %v", ids, err)
		}
		if ids, _, _, err = r.Changes(r.ctx(), true, at, 1); err != nil || fmt.Sprint(ids) != "[t6 t7 t8]" {
			t.Errorf("%v, %v", ids, err)
		}
	})
}
