package member_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/grid/member"
	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/worker"
)

// disk is a check of the loop that the test lets fail.
type disk struct{ full atomic.Bool }

// check makes it one of the rig's worker. From then on a change is noticed within 20 s.
func (d *disk) check(r *rig, full bool) {
	d.full.Store(full)
	r.worker.Checks = map[string]func(context.Context) error{"disk": func(context.Context) error {
		if d.full.Load() {
			return errors.New("the disk is full")
		}
		return nil
	}}
}

func (d *disk) set(full bool) {
	d.full.Store(full)
	time.Sleep(20 * time.Second)
}

func TestG34CreditFollowsReadiness(t *testing.T) {
	test(t, 1, func(r *rig) {
		l, d := r.leaders[0], new(disk)
		d.check(r, true)
		r.start(answer)
		time.Sleep(time.Minute)
		want(r, "its limit before it is ready", text(l.lastSaid(wire.Renew)), "Renew seen 0 limit 0")
		want(r, "before it is ready", l.heard(wire.HelloWorker, wire.Credit), "HelloWorker job.assign.* of 2")
		d.set(false)
		want(r, "when it is", l.heard(wire.Credit), "Credit 2")
		l.assign(1, 11)
		want(r, "a job", l.heard(wire.AckJob, wire.Credit, wire.Accept), "AckJob 1 as 11 OK 4; Credit 1")
		d.set(true)
		want(r, "its limit when it is no more", text(l.lastSaid(wire.Renew)), "Renew seen 1 limit 1")
		l.heard()
		l.assign(2, 12) // before the leader knew
		time.Sleep(time.Second)
		want(r, "what was on its way", l.heard(wire.AckJob, wire.Credit, wire.Accept, wire.Cancel), "Cancel 2 as 12 busy")
		d.set(false)
		want(r, "its limit when it is again", text(l.lastSaid(wire.Renew)), "Renew seen 2 limit 4")
		l.heard()
		l.assign(2, 22)
		want(r, "another job", l.heard(wire.AckJob, wire.Credit), "AckJob 2 as 22 OK 4; Credit 1")
		want(r, "started", r.started(), "01 02")
	})
}

func TestG34JobCrossesLowerLimit(t *testing.T) {
	test(t, 1, func(r *rig) {
		d, b := new(disk), &books{leader: r.leaders[0]}
		d.check(r, false)
		r.start(answer)
		b.read()
		d.set(true)
		b.spend(1, 11) // the leader has not read the lower limit yet
		b.read()
		if b.credit != 0 {
			r.Errorf("an unready worker has credit %d", b.credit)
		}
		d.set(false)
		b.read()
		if b.credit != 2 {
			r.Errorf("when it is ready it has credit %d, want 2", b.credit)
		}
	})
}

func TestG34LateLeaderLearnsWorkerIsUnready(t *testing.T) {
	test(t, 1, func(r *rig) {
		l, d := r.leaders[0], new(disk)
		l.features = nil
		d.check(r, false)
		r.start(answer)
		d.set(true)
		want(r, "before its Welcome", l.heard(wire.Credit, wire.Renew), "Credit 2")
		l.send(wire.Frame{Type: wire.Welcome, Payload: must(wire.WelcomeInfo{Proto: 2, Features: features})})
		want(r, "after it", l.heard(wire.Credit, wire.Renew), "Renew seen 0 limit 0")
	})
}

func TestG64HeldCreditIsNotGivenWhileUnready(t *testing.T) {
	test(t, 1, func(r *rig) {
		l, d := r.leaders[0], new(disk)
		d.check(r, false)
		r.member.Gate = &member.Gate{Cap: 0.75, Cores: 1, Usage: member.UsageOf(busyMachine{new(atomic.Int64)})}
		r.start(func(_ context.Context, job jobs.Job) (jobs.Result, error) {
			time.Sleep(time.Duration(job.ID[len(job.ID)-1]-'0') * 10 * time.Second)
			return ok(job, "")
		})
		time.Sleep(5*time.Second + 10*time.Millisecond) // between two samples
		l.assign(1, 11)
		l.assign(6, 16)
		time.Sleep(11 * time.Second)
		want(r, "while it is ready", l.heard(wire.AckJob), "AckJob 1 as 11 OK")
		d.set(true)
		time.Sleep(20 * time.Second) // held for 30 s
		want(r, "its limit while it is not", text(l.lastSaid(wire.Renew)), "Renew seen 2 limit 2 6 as 16")
		want(r, "its credit", l.heard(wire.Credit), "")
		d.set(false)
		time.Sleep(40 * time.Second)
		want(r, "when it is again", l.heard(wire.AckJob, wire.Credit), "AckJob 6 as 16 OK; Credit 2")
	})
}

func TestG34OnlySlotsThatAskGetCredit(t *testing.T) {
	test(t, 1, func(r *rig) {
		l := r.leaders[0]
		r.worker.Pools = []worker.Pool{{Slots: 1}}
		r.start(answer)
		want(r, "one of two slots asks", l.heard(wire.HelloWorker, wire.Credit), "HelloWorker job.assign.* of 2; Credit 1")
		l.assign(1, 11)
		want(r, "again", sorted(l.heard(wire.AckJob, wire.Credit)), "AckJob 1 as 11 OK 4; Credit 1") // there is a place for the next one
	})
}

func TestG34JobThatWaitsForABusySlotStays(t *testing.T) {
	test(t, 3, func(r *rig) { // three leaders for two slots
		d, done := new(disk), make(chan struct{})
		d.check(r, false)
		r.start(func(_ context.Context, job jobs.Job) (jobs.Result, error) {
			<-done
			return ok(job, "4")
		})
		for n, l := range r.leaders {
			want(r, l.addr, l.heard(wire.Credit), "Credit 1")
			l.assign(n+1, n+11)
		}
		time.Sleep(20 * time.Second)
		third := r.leaders[2]
		want(r, "a job that waits for a slot", third.heard(wire.Accept, wire.Cancel), "Accept 3 as 13")
		d.set(true)
		want(r, "while the slots are taken", third.heard(wire.Cancel), "")
		close(done)
		time.Sleep(20 * time.Second)
		want(r, "when they are not, and do not ask", third.heard(wire.AckJob, wire.Cancel, wire.Credit), "Cancel 3 as 13 busy")
		want(r, "started", r.started(), "01 02")
		for _, l := range r.leaders[:2] {
			want(r, l.addr, l.heard(wire.AckJob, wire.Cancel, wire.Credit), map[string]string{
				r.leaders[0].addr: "AckJob 1 as 11 OK 4", r.leaders[1].addr: "AckJob 2 as 12 OK 4",
			}[l.addr])
		}
		d.set(false)
		for _, l := range r.leaders[:2] {
			want(r, "when it is ready, "+l.addr, l.heard(wire.Credit), "Credit 1")
		}
		if s := third.lastSaid(wire.Renew); text(s) != "Renew seen 1 limit 2" {
			r.Errorf("the last leader is told %s", text(s))
		}
	})
}

func TestG36WaitingJobGoesBackAfterReconnect(t *testing.T) {
	test(t, 1, func(r *rig) {
		l, d := r.leaders[0], new(disk)
		d.check(r, true)
		r.start(answer)
		l.assign(1, 11)
		l.goDown()
		time.Sleep(time.Second)
		l.heard()
		l.up()
		time.Sleep(20 * time.Second)
		want(r, "then", l.heard(wire.HelloWorker, wire.Cancel, wire.Credit, wire.AckJob), "HelloWorker job.assign.* of 2 1 as 11; Cancel 1 as 11 busy")
		time.Sleep(time.Minute)
		d.set(false)
		want(r, "when it is ready", l.heard(wire.Credit), "Credit 2")
		want(r, "started", r.started(), "")
	})
}

func TestG34OriginalLeaderKeepsCredit(t *testing.T) {
	test(t, 1, func(r *rig) {
		l, d := r.leaders[0], new(disk)
		l.features = nil
		d.check(r, true)
		all := []wire.Type{wire.HelloWorker, wire.Credit, wire.AckJob, wire.Cancel, wire.Renew, wire.Accept}
		r.start(answer)
		time.Sleep(time.Minute)
		want(r, "before it is ready", l.heard(all...), "HelloWorker job.assign.* of 2")
		d.set(false)
		want(r, "when it is", l.heard(all...), "Credit 2")
		d.set(true)
		l.assign(1, 0)
		time.Sleep(time.Minute)
		want(r, "when it is no more", l.heard(all...), "")
		d.set(false)
		want(r, "when it is again", l.heard(all...), "AckJob 1 as 0 OK 4; Credit 1")
	})
}

func TestP9UnreadyWorkerGivesNoCredit(t *testing.T) {
	test(t, 1, func(r *rig) {
		l, d := r.leaders[0], new(disk)
		d.check(r, true)
		r.member.Gate = &member.Gate{Cap: 0.75, Cores: 1, Usage: member.UsageOf(busyMachine{new(atomic.Int64)})}
		r.start(answer)
		time.Sleep(2 * time.Minute)
		want(r, "while it is not ready", l.heard(wire.Credit), "")
		d.full.Store(false)
		for r.worker.Ready() != nil {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(250 * time.Millisecond)
		want(r, "within a sample", l.heard(wire.Credit), "Credit 2")
	})
}
