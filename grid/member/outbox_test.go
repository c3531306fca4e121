package member_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/jobs"
)

func TestG56NextProcessDeliversResults(t *testing.T) {
	test(t, 2, func(r *rig) {
		one, two := r.leaders[0], r.leaders[1]
		one.keeps, two.keeps = true, true
		r.start(answer)
		one.assign(1, 11)
		two.assign(2, 22)
		r.stop()
		if n := strings.Count(r.undelivered(), "-"); n != 2 {
			r.Fatalf("%d results are on disk, want both", n)
		}
		one.heard()
		two.heard()
		one.keeps = false
		r.another(two.addr) // the first leader has another address now
		r.start(answer)
		want(r, "the leader that is left", sorted(two.heard(wire.HelloWorker, wire.AckJob)),
			"AckJob 1 as 11 OK 4; AckJob 2 as 22 OK 4; HelloWorker job.assign.* of 2 1 as 11 2 as 22")
		if n := strings.Count(r.undelivered(), "-"); n != 2 {
			r.Errorf("%d results are on disk before they are acknowledged, want both", n)
		}
		two.send(wire.Frame{Type: wire.ResultAck, Payload: wire.AppendGUIDs(nil, id(1), id(2))})
		want(r, "what is undelivered", r.undelivered(), "")
	})
}

func TestG56WrittenResultCountsForOriginalLeader(t *testing.T) {
	test(t, 1, func(r *rig) {
		l := r.leaders[0]
		l.features = nil
		done := make(chan struct{})
		r.start(func(_ context.Context, job jobs.Job) (jobs.Result, error) {
			<-done
			return ok(job, "4")
		})
		l.assign(1, 0)
		l.goDown()
		close(done)
		time.Sleep(time.Minute)
		if n := strings.Count(r.undelivered(), "-"); n != 1 {
			r.Fatalf("%d results are on disk, want one", n)
		}
		l.heard()
		l.up()
		time.Sleep(time.Minute)
		want(r, "it gets the result", l.heard(wire.HelloWorker, wire.Credit, wire.AckJob), "HelloWorker job.assign.* of 2 1 as 0; Credit 1; AckJob 1 as 0 OK 4; Credit 1")
		want(r, "what is undelivered", r.undelivered(), "")
	})
}

func TestFullDiskStopsLeasing(t *testing.T) {
	test(t, 1, func(r *rig) {
		l := r.leaders[0]
		r.start(answer)
		time.Sleep(time.Minute + time.Second) // between two checks, which write there
		if err := os.RemoveAll(filepath.Join(r.member.Dir, "journal")); err != nil {
			r.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		if err := r.member.Check(r.Context()); err == nil {
			r.Error("the check passes")
		}
		if err := r.worker.Ready(); err == nil {
			r.Error("the worker is ready")
		}
		l.heard()
		l.assign(1, 11)
		time.Sleep(time.Second)
		want(r, "it is not started", r.started(), "")
		want(r, "it goes back", l.heard(wire.Accept, wire.Cancel), "Cancel 1 as 11 busy")
	})
}

func TestTooManyUndeliveredResultsStopLeasing(t *testing.T) {
	test(t, 1, func(r *rig) {
		l := r.leaders[0]
		l.keeps = true
		r.start(func(_ context.Context, job jobs.Job) (jobs.Result, error) {
			text, err := json.Marshal(wire.JobResult{Stdout: strings.Repeat("x", 4<<20)})
			return jobs.Result{Text: string(text[:3<<20])}, err
		})
		n := 0
		for ; n < 100 && r.member.Check(r.Context()) == nil; n++ {
			l.assign(n, n)
			l.heard()
		}
		if n != 86 {
			r.Errorf("%d results of 3 MiB may wait, want 86", n)
		}
		if err := r.member.Check(r.Context()); err == nil || !strings.Contains(err.Error(), "86 results of 270532608 bytes wait") {
			r.Errorf("the check says %v", err)
		}
	})
}
