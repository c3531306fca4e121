package schedule

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/grid/wire"
)

func TestG36LostAttemptReturnsNoCredit(t *testing.T) {
	s := tell(t, Config{})
	s.client(1, "a", 9)
	s.worker(2, 1)
	s.submit(1, "a", "calc", none)
	s.want("took 1 to 1", "assign 1 to 2")
	s.wait(2 * time.Second)
	s.want("cancel 1 to 2 lost")
	s.Credit(s.now, 2, 1)
	s.want("assign 1 to 2")
}

func TestG40UnacceptedAttemptsEndAsDeadLetter(t *testing.T) {
	s := tell(t, Config{MaxAttempts: 3})
	s.client(1, "a", 9)
	s.worker(2, 9)
	s.submit(1, "a", "calc", none)
	s.want("took 1 to 1", "assign 1 to 2")
	for _, most := range []Moment{time.Second, 2 * time.Second} {
		s.wait(most * 79 / 100)
		s.want()
		s.wait(most * 42 / 100)
		s.want("cancel 1 to 2 lost", "assign 1 to 2")
	}
	s.wait(5 * time.Second)
	s.want("cancel 1 to 2 lost", "result 1 to 1")
	i, _ := s.Get(s.ids[0])
	if !i.Dead || len(i.History) != 3 || !strings.Contains(i.Reason, "3 attempts have failed") || !strings.Contains(string(i.Body.Bytes), wire.ReasonDeadLetter) {
		t.Errorf("G42: the dead letter is %+v", i)
	}
}

func TestG40AcceptedAttemptRunsWhileItIsRenewed(t *testing.T) {
	s := tell(t, Config{})
	s.client(1, "a", 9)
	s.worker(2, 1)
	id := s.submit(1, "a", "calc", none)
	s.want("took 1 to 1", "assign 1 to 2")
	s.Accept(s.now, 2, id, s.last[id])
	for range 100 {
		s.wait(29 * time.Second)
		s.Renew(s.now, 2, wire.RenewInfo{Running: []wire.Running{{JobID: id, AttemptID: s.last[id]}}, Seen: 1, Limit: new(1)})
	}
	s.want()
	s.wait(31 * time.Second)
	s.want("cancel 1 to 2 lost")
}

func TestG40WorkerOfTheOriginalProtocolHasAnHour(t *testing.T) {
	s := tell(t, Config{})
	s.client(1, "a", 9)
	s.legacy(2, 3)
	s.submit(1, "a", "calc", none)
	s.submit(1, "a", "calc", wire.Options{TimeoutMs: 1000})
	s.want("took 1 to 1", "took 2 to 1", "assign 1 to 2", "assign 2 to 2")
	s.wait(30 * time.Second)
	s.want()
	s.wait(2 * time.Second) // the limit and a lease
	s.want("assign 2 to 2")
	s.wait(time.Hour)
	if s.Counts.LeaseExpired != 3 {
		t.Errorf("%d attempts have taken too long, want 3", s.Counts.LeaseExpired)
	}
}

func TestG41RetryOn(t *testing.T) {
	s := tell(t, Config{})
	s.client(1, "a", 9)
	s.worker(2, 9)
	plain, again := s.submit(1, "a", "calc", none), s.submit(1, "a", "calc", wire.Options{RetryOn: []string{wire.ReasonExit}, MaxAttempts: 2})
	s.want("took 1 to 1", "took 2 to 1", "assign 1 to 2", "assign 2 to 2")
	s.ends(2, plain, wire.ReasonExit)
	s.ends(2, again, wire.ReasonExit)
	s.want("result 1 to 1", "kept 1 to 2", "kept 2 to 2")
	s.wait(1200 * time.Millisecond)
	s.want("assign 2 to 2")
	s.ends(2, again, wire.ReasonExit)
	s.want("result 2 to 1", "kept 2 to 2")
}

func TestG42RequeueAndDrop(t *testing.T) {
	s := tell(t, Config{MaxAttempts: 1})
	s.client(1, "a", 9)
	s.worker(2, 9)
	one := s.submit(1, "a", "calc", none)
	s.want("took 1 to 1", "assign 1 to 2")
	s.wait(5 * time.Second)
	s.want("cancel 1 to 2 lost", "result 1 to 1")
	s.Delivered(s.now, 1, []wire.GUID{one})
	if !s.Requeue(s.now, one) || s.Requeue(s.now, one) {
		t.Fatal("it is queued again once")
	}
	s.want("assign 1 to 2")
	s.ends(2, one, "")
	s.want("result 1 to 1", "kept 1 to 2")
	two := s.submit(1, "a", "calc", none)
	s.want("took 2 to 1", "assign 2 to 2")
	s.wait(5 * time.Second)
	s.Delivered(s.now, 1, []wire.GUID{two})
	if !s.Drop(s.now, two) || s.Drop(s.now, two) {
		t.Error("it is dropped once")
	}
	if _, ok := s.Get(two); ok {
		t.Error("it is still known")
	}
}

func TestG43JobsOfALostWorkerGoFirstAndElsewhere(t *testing.T) {
	s := tell(t, Config{})
	s.client(1, "a", 2)
	s.worker(2, 2)
	for range 3 {
		s.submit(1, "a", "calc", none)
	}
	s.want("took 1 to 1", "took 2 to 1", "took 3 to 1", "assign 1 to 2", "assign 2 to 2")
	s.Gone(s.now, 2)
	s.worker(2, 9) // the same worker
	s.worker(3, 1)
	s.want("assign 1 to 3", "assign 2 to 2")
}

func TestG36JobThatIsHandedBackAgainAndAgainWaits(t *testing.T) {
	s := tell(t, Config{})
	s.client(1, "a", 1)
	one := s.submit(1, "a", "calc", none)
	two := s.submit(1, "a", "calc", none)
	s.worker(2, 10)
	s.want("took 1 to 1", "took 2 to 1", "assign 1 to 2")
	for range 3 {
		s.HandBack(s.now, 2, one, s.last[one])
		s.want("assign 1 to 2")
	}
	s.HandBack(s.now, 2, one, s.last[one])
	s.want("assign 2 to 2")
	s.ends(2, two, "")
	s.wait(3 * time.Second)
	s.want("result 2 to 1", "kept 2 to 2", "assign 1 to 2")
}

func TestG43ReturningWorkerIsNoCrash(t *testing.T) {
	s := tell(t, Config{})
	s.client(1, "a", 2)
	s.submit(1, "a", "calc", none)
	s.want("took 1 to 1")
	s.worker(2, 1)
	s.want("assign 1 to 2")
	has := PeerID(2)
	for next := PeerID(3); next < 23; next++ { // each time another worker is faster
		old := wire.Running{JobID: s.ids[0], AttemptID: s.last[s.ids[0]]}
		s.Accept(s.now, has, old.JobID, old.AttemptID)
		s.worker(next, 1)
		s.Gone(s.now, has)
		s.want(fmt.Sprintf("assign 1 to %d", next))
		info := worker(has, modern...)
		info.Running = []wire.Running{old}
		s.WorkerHello(s.now, has+100, info)
		s.want(fmt.Sprintf("cancel 1 to %d lost", has+100))
		if i, _ := s.Get(s.ids[0]); i.Crashes != 0 || i.Attempts != 0 {
			t.Fatalf("it has %d crashes and %d attempts, want none that counts", i.Crashes, i.Attempts)
		}
		has = next
	}
	s.crash()
	s.wait(11 * time.Second) // no worker comes back with it
	if i, _ := s.Get(s.ids[0]); i.Crashes != 0 || i.Attempts != 1 {
		t.Errorf("after a restart it has %d crashes and %d attempts, want one", i.Crashes, i.Attempts)
	}
}

func TestG43JobThatKillsWorkersIsDeadLetter(t *testing.T) { // S21
	s := tell(t, Config{})
	s.client(1, "a", 2)
	s.submit(1, "a", "calc", none)
	s.want("took 1 to 1")
	for id := PeerID(2); id < 6; id++ {
		s.worker(id, 1)
		s.want(fmt.Sprintf("assign 1 to %d", id))
		s.Gone(s.now, id)
		s.want()
	}
	s.worker(6, 1)
	s.want("assign 1 to 6")
	s.Gone(s.now, 6)
	s.want("result 1 to 1")
	if i, _ := s.Get(s.ids[0]); i.Crashes != 5 || !i.Dead {
		t.Errorf("it is %+v", i)
	}
}

// A result that names another client may be too large for a frame with the name of the one that has submitted the job. One that names another exec may
// come from a worker that may not run this one.
func TestG06ResultsForAnotherClientOrExecAreNotPassedOn(t *testing.T) {
	s := tell(t, Config{})
	s.client(1, "a", 9)
	s.worker(2, 1)
	id := s.submit(1, "a", "calc", none)
	s.want("took 1 to 1", "assign 1 to 2")
	body := Body{Bytes: []byte("{}"), Size: 2}
	s.Ack(s.now, 2, id, wire.NewGUID(), Ended{Client: "b", Exec: "calc", OK: true, Body: body}) // of no attempt that counts
	s.want(`error 1 to 2 INVALIDits worker has sent the result of a job of calc for the client "b"`, "kept 1 to 2")
	s.Ack(s.now, 2, id, wire.NewGUID(), Ended{Client: "a", Exec: "render", OK: true, Body: body})
	s.want(`error 1 to 2 INVALIDits worker has sent the result of a job of render for the client "a"`, "kept 1 to 2")
	s.Ack(s.now, 2, id, s.last[id], Ended{Client: "b", Exec: "calc", OK: true, Body: body})
	s.want(`error 1 to 2 INVALIDits worker has sent the result of a job of calc for the client "b"`, "result 1 to 1", "kept 1 to 2")
	i, _ := s.Get(id)
	if i.Reason != wire.ReasonError || !strings.Contains(string(i.Body.Bytes), `"ClientId":"a"`) || !strings.Contains(string(i.Body.Bytes), "for the client") {
		t.Errorf("it is %+v with %s", i, i.Body.Bytes)
	}
}

func TestG44FirstSuccessCounts(t *testing.T) {
	s := tell(t, Config{})
	s.client(1, "a", 9)
	s.worker(2, 1)
	s.worker(3, 1)
	id := s.submit(1, "a", "calc", none)
	s.want("took 1 to 1", "assign 1 to 2")
	old := s.last[id]
	s.wait(2 * time.Second)
	s.want("cancel 1 to 2 lost", "assign 1 to 3")
	body := Body{Bytes: []byte("{}"), Size: 2}
	s.Ack(s.now, 2, id, old, Ended{Client: "a", Exec: "calc", Reason: wire.ReasonExit, Body: body}) // an old failure does not
	s.want("kept 1 to 2")
	s.Ack(s.now, 2, id, old, Ended{Client: "a", Exec: "calc", OK: true, Body: body})
	s.want("cancel 1 to 3 lost", "result 1 to 1", "kept 1 to 2")
	s.ends(3, id, wire.ReasonExit) // P10
	s.want("kept 1 to 3")
	if i, _ := s.Get(id); i.Reason != "" || s.Counts.LateResults != 2 || s.Counts.DuplicateResults != 1 {
		t.Errorf("it is %+v, counts %+v", i, s.Counts)
	}
}

func TestG44ResultWithoutAttemptIDNeedsItsWorker(t *testing.T) {
	s := tell(t, Config{})
	s.client(1, "a", 9)
	s.legacy(2, 1)
	s.legacy(3, 0)
	id := s.submit(1, "a", "calc", none)
	s.want("took 1 to 1", "assign 1 to 2")
	s.ends(3, id, "")
	s.want()
	s.ends(2, id, "")
	s.ends(2, id, "") // G45
	s.want("result 1 to 1")
	if s.Counts.StrangerAcks != 1 || s.Counts.DuplicateResults != 1 {
		t.Errorf("counts %+v", s.Counts)
	}
}
