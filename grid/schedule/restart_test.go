package schedule

import (
	"strings"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/grid/wire"
)

func TestG76ElementsStartInOrder(t *testing.T) {
	s := tell(t, Config{MaxAttempts: 1})
	s.client(1, "a", 2)
	s.legacy(9, 9) // knows no arrays
	id := s.submit(1, "a", "calc", wire.Options{Array: "0-2"})
	s.worker(2, 9)
	s.want("took 1 to 1", "assign 1[0] to 2", "assign 1[1] to 2")
	s.ends(2, wire.ElementID(id, 0), "")
	s.Accept(s.now, 2, wire.ElementID(id, 1), s.last[wire.ElementID(id, 1)])
	s.want("result 1[0] to 1", "kept 1[0] to 2", "assign 1[2] to 2")
	s.ends(2, wire.ElementID(id, 1), wire.ReasonExit)
	s.wait(5 * time.Second) // the last one is not accepted
	s.want("result 1[1] to 1", "kept 1[1] to 2", "cancel 1[2] to 2 lost", "result 1[2] to 1", "result 1 to 1")
	if i, _ := s.Get(id); i.Done != 3 || i.Failed != 2 || !strings.Contains(string(i.Body.Bytes), "1 of 3 have succeeded") {
		t.Errorf("it is %+v", i)
	}
	dead := wire.ElementID(id, 2)
	s.Gone(s.now, 2)
	s.Requeue(s.now, dead) // alone
	s.crash()
	s.client(1, "a", 2)
	s.Delivered(s.now, 1, []wire.GUID{id, wire.ElementID(id, 0), wire.ElementID(id, 1)})
	s.Take()
	s.legacy(9, 9)
	s.want()
	s.worker(3, 1)
	s.want("assign 1[2] to 3")
}

func TestG76CanceledArrayStops(t *testing.T) {
	s := tell(t, Config{})
	s.client(1, "a", 1)
	s.worker(2, 9)
	id := s.submit(1, "a", "calc", wire.Options{Array: "0-999999"})
	s.want("took 1 to 1", "assign 1[0] to 2")
	s.Cancel(s.now, "a", id)
	s.want("cancel 1[0] to 2 canceled")
	s.ends(2, wire.ElementID(id, 0), wire.ReasonCanceled)
	s.want("result 1[0] to 1", "result 1 to 1", "kept 1[0] to 2")
}

func TestG73EndsKeepTheirTimes(t *testing.T) {
	s := tell(t, Config{})
	s.client(1, "a", 9)
	array, canceled := s.submit(1, "a", "calc", wire.Options{Array: "0-0"}), s.submit(1, "a", "other", none)
	s.WorkerHello(s.now, 2, WorkerInfo{ID: wire.NewGUID(), Pattern: "job.assign.calc", Features: modern})
	s.Credit(s.now, 2, 1)
	s.want("took 1 to 1", "took 2 to 1", "assign 1[0] to 2")
	s.wait(time.Second)
	s.ends(2, wire.ElementID(array, 0), "")
	s.Cancel(s.now, "a", canceled)
	s.want("result 1[0] to 1", "result 1 to 1", "kept 1[0] to 2", "result 2 to 1")
	s.wait(time.Minute)
	s.crash()
	for _, id := range []wire.GUID{array, wire.ElementID(array, 0), canceled} {
		if i, ok := s.Get(id); !ok || i.Since-i.Born != time.Second {
			t.Errorf("%s has ended after %s, want 1s", s.names[id], i.Since-i.Born)
		}
	}
}

func TestG73AttemptsSurviveRestart(t *testing.T) {
	s := tell(t, Config{})
	s.client(1, "a", 9)
	s.worker(2, 9)
	for range 3 {
		s.submit(1, "a", "calc", none)
	}
	s.want("took 1 to 1", "took 2 to 1", "took 3 to 1", "assign 1 to 2", "assign 2 to 2", "assign 3 to 2")
	s.Cancel(s.now, "a", s.ids[1])
	s.want("cancel 2 to 2 canceled")
	s.crash()
	info := worker(4, modern...)
	info.ID = worker(2).ID
	for _, id := range s.ids[:2] {
		info.Running = append(info.Running, wire.Running{JobID: id, AttemptID: s.last[id]})
	}
	s.WorkerHello(s.now, 4, info)
	s.Credit(s.now, 4, 5)
	s.want("cancel 2 to 4 canceled") // again: the worker may not have been told
	s.wait(10 * time.Second)
	s.want("assign 3 to 4")
	if s.Counts.Adopted != 2 {
		t.Errorf("%d attempts have gone on, want 2", s.Counts.Adopted)
	}
}

func TestG73RecoveryWaitSpansRestarts(t *testing.T) {
	s := tell(t, Config{})
	s.client(1, "a", 9)
	s.worker(2, 2)
	gone, back := s.submit(1, "a", "calc", none), s.submit(1, "a", "calc", none)
	s.want("took 1 to 1", "took 2 to 1", "assign 1 to 2", "assign 2 to 2")
	begin := func(running ...wire.GUID) { // a leader, to which a worker comes back
		t.Helper()
		s.crash()
		info := worker(2, modern...)
		for _, id := range running {
			info.Running = append(info.Running, wire.Running{JobID: id, AttemptID: s.last[id]})
		}
		s.WorkerHello(s.now, 2, info)
		s.Credit(s.now, 2, 1)
	}
	begin(back)
	s.wait(4 * time.Second)
	s.want()
	s.log = records(s.Core) // the same over a checkpoint
	begin(back)
	s.wait(4 * time.Second)
	s.want()
	begin() // the second one is awaited for the first time
	s.wait(time.Second)
	s.want()
	if why := s.Query(s.now, "a", gone).Why; !strings.Contains(why, "within 1 s") {
		t.Errorf("it is said that %s", why)
	}
	s.wait(time.Second)
	s.want("assign 1 to 2")
	s.Accept(s.now, 2, gone, s.last[gone])
	s.worker(3, 1)
	s.wait(7 * time.Second)
	s.want()
	s.wait(2 * time.Second)
	s.want("assign 2 to 3")
}

func TestG56AttemptsSurviveReconnect(t *testing.T) {
	s := tell(t, Config{})
	s.client(1, "a", 9)
	s.worker(2, 2)
	one, two := s.submit(1, "a", "calc", none), s.submit(1, "a", "calc", none)
	s.want("took 1 to 1", "took 2 to 1", "assign 1 to 2", "assign 2 to 2")
	info := worker(3, modern...)
	info.ID, info.Running = worker(2).ID, []wire.Running{{JobID: one, AttemptID: s.last[one]}, {JobID: one, AttemptID: s.last[one]}}
	s.WorkerHello(s.now, 3, info) // before the end of the old one is known
	s.want()
	s.Gone(s.now, 2)
	s.Credit(s.now, 3, 1)
	s.want("assign 2 to 3")
	s.ends(3, two, "")
	s.ends(3, one, "")
	s.want("result 2 to 1", "kept 2 to 3", "result 1 to 1", "kept 1 to 3")
}

func TestG57DrainingWorkerHandsBack(t *testing.T) {
	s := tell(t, Config{MaxAttempts: 1})
	s.client(1, "a", 9)
	s.worker(2, 5)
	s.submit(1, "a", "calc", none)
	s.want("took 1 to 1", "assign 1 to 2")
	s.Drain(s.now, 2)
	s.submit(1, "a", "calc", none)
	s.want("took 2 to 1")
	s.Gone(s.now, 2)
	s.worker(3, 5)
	s.want("assign 1 to 3", "assign 2 to 3")
	if i, _ := s.Get(s.ids[0]); i.Attempts != 0 {
		t.Errorf("%d attempts count", i.Attempts)
	}
}

// A leader that was started again without its state meets workers that run what clients submit again.
func TestG46WorkerKeepsResubmittedJob(t *testing.T) {
	for _, test := range []struct {
		name  string
		first bool // the worker comes first, and renews later
	}{{"worker first", true}, {"client first", false}} {
		t.Run(test.name, func(t *testing.T) {
			s := tell(t, Config{})
			s.client(1, "a", 9)
			info := worker(2, modern...)
			attempt := wire.NewGUID()
			var id wire.GUID
			hello := func() { s.WorkerHello(s.now, 2, info) }
			if test.first {
				hello()
				id = s.submit(1, "a", "calc", none)
				s.Renew(s.now, 2, wire.RenewInfo{Running: []wire.Running{{JobID: id, AttemptID: attempt}}})
			} else {
				id = s.submit(1, "a", "calc", none)
				info.Running = []wire.Running{{JobID: id, AttemptID: attempt}}
				hello()
			}
			s.Credit(s.now, 2, 5)
			s.want("took 1 to 1")
			s.last[id] = attempt
			s.ends(2, id, "")
			s.want("result 1 to 1", "kept 1 to 2")
		})
	}
}

func TestG76EarlyElementResultCounts(t *testing.T) {
	s := tell(t, Config{})
	s.client(1, "a", 9)
	id := s.submit(1, "a", "calc", wire.Options{Array: "0-1"})
	s.WorkerHello(s.now, 2, worker(2, modern...))
	s.last[wire.ElementID(id, 0)] = wire.NewGUID() // of a leader before this one
	s.ends(2, wire.ElementID(id, 0), "")
	s.want("took 1 to 1", "result 1[0] to 1", "kept 1[0] to 2")
	s.Credit(s.now, 2, 5)
	s.want("assign 1[1] to 2")
	s.ends(2, wire.ElementID(id, 1), "")
	s.want("result 1[1] to 1", "result 1 to 1", "kept 1[1] to 2")
}

func TestG49TiedJobsWaitAfterRestart(t *testing.T) {
	s := tell(t, Config{})
	s.client(1, "a", 9)
	stays := s.submit(1, "a", "calc", wire.Options{OnDisconnect: "cancel"})
	goes := s.submit(1, "a", "calc", wire.Options{OnDisconnect: "cancel"})
	s.want("took 1 to 1", "took 2 to 1")
	s.crash()
	s.client(2, "a", 9)
	s.Submit(s.now, 2, Submission{ID: stays, Exec: "calc", Digest: 1})
	s.want("took 1 to 2")
	s.wait(10 * time.Second)
	s.want("result 2 to 2")
	if i, _ := s.Get(goes); i.State.String() != "canceled" {
		t.Errorf("it is %+v", i)
	}
}

// A client that takes only its own results takes those of an array's jobs when it submits the array again, also after a restart of the leader.
func TestG76SubmitAgainClaimsElementResults(t *testing.T) {
	for _, restart := range []bool{false, true} {
		s := tell(t, Config{})
		own := append([]string{wire.FeatureOwn}, modern...)
		s.ClientHello(s.now, 1, "a", 9, own)
		s.worker(2, 9)
		id := s.submit(1, "a", "calc", wire.Options{Array: "0-1"})
		s.want("took 1 to 1", "assign 1[0] to 2", "assign 1[1] to 2")
		s.Gone(s.now, 1)
		s.ends(2, wire.ElementID(id, 0), "")
		s.ends(2, wire.ElementID(id, 1), "")
		s.want("kept 1[0] to 2", "kept 1[1] to 2")
		if restart {
			s.log = records(s.Core)
			s.crash()
		}
		s.ClientHello(s.now, 3, "a", 9, own)
		s.want()
		s.Submit(s.now, 3, Submission{ID: id, Exec: "calc", Digest: 1, Options: wire.Options{Array: "0-1"}})
		s.want("took 1 to 3", "result 1[0] to 3", "result 1[1] to 3", "result 1 to 3")
	}
}
