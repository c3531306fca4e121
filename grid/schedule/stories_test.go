package schedule

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/grid/wire"
)

// story is a Core with a clock, whose effects are texts: "assign 1 to 2".
type story struct {
	*testing.T
	*Core
	now   Moment
	names map[wire.GUID]string
	ids   []wire.GUID
	last  map[wire.GUID]wire.GUID // attempts
	log   [][]byte
}

var modern = []string{wire.FeatureAccept, wire.FeatureCancel, wire.FeatureResultAck, wire.FeatureSubmitAck, wire.FeatureArray}

func tell(t *testing.T, cfg Config) *story {
	t.Helper()
	cfg.Epoch, cfg.Random = time.Unix(1_800_000_000, 0), rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same each time
	s := &story{T: t, Core: New(cfg), names: map[wire.GUID]string{}, last: map[wire.GUID]wire.GUID{}}
	s.Recovered(0)
	return s
}

func (s *story) client(id PeerID, name string, maxRunning int) {
	s.ClientHello(s.now, id, name, maxRunning, modern)
}

// legacy connects a worker of the original protocol with credit.
func (s *story) legacy(id PeerID, credit int) {
	s.WorkerHello(s.now, id, worker(id))
	s.Credit(s.now, id, credit)
}

func (s *story) worker(id PeerID, credit int) {
	s.WorkerHello(s.now, id, worker(id, modern...))
	s.Credit(s.now, id, credit)
}

// submit submits the next job, which is called by its number.
func (s *story) submit(peer PeerID, client, exec string, o wire.Options) wire.GUID {
	s.Helper()
	r := Submission{ID: wire.NewGUID(), Exec: exec, Options: o, Digest: 1}
	text, err := wire.MarshalRequest(&wire.JobRequest{JobID: r.ID, ClientID: client, ExecName: exec, Options: o})
	if err != nil {
		s.Fatal(err)
	}
	r.Body = Body{Bytes: text, Size: len(text)}
	if o.NotAfter != nil {
		r.NotAfter = o.NotAfter.Sub(s.cfg.Epoch)
	}
	if o.Array != "" {
		if r.First, r.Last, err = wire.ParseArray(o.Array); err != nil {
			s.Fatal(err)
		}
	}
	s.ids = append(s.ids, r.ID)
	s.names[r.ID] = fmt.Sprint(len(s.ids))
	for i := r.First; o.Array != "" && i <= r.Last; i++ {
		s.names[wire.ElementID(r.ID, i)] = fmt.Sprintf("%d[%d]", len(s.ids), i)
	}
	s.Submit(s.now, peer, r)
	return r.ID
}

// ends sends the result of a job.
func (s *story) ends(peer PeerID, id wire.GUID, reason string) {
	text := fmt.Appendf(nil, `{"Reason":%q}`, reason)
	s.Ack(s.now, peer, id, s.last[id], Ended{Client: "a", Exec: "calc", OK: reason == "", Reason: reason, Body: Body{Bytes: text, Size: len(text)}})
}

func (s *story) wait(d Moment) {
	s.now += d
	s.Tick(s.now)
}

// want compares the effects since the last call.
func (s *story) want(texts ...string) {
	s.Helper()
	effects, records := s.Take()
	for _, r := range records {
		s.log = append(s.log, append([]byte(nil), r...))
	}
	var got []string
	for _, e := range effects {
		if e.Op == Assign {
			s.last[e.Job] = e.Attempt
		}
		text := map[Op]string{Assign: "assign", CancelRun: "cancel", SubmitAck: "took", Result: "result", ResultAck: "kept", ErrorTo: "error", CloseWith: "close"}[e.Op]
		got = append(got, strings.TrimSpace(fmt.Sprintf("%s %s to %d %s%s", text, s.names[e.Job], e.Peer, e.Code, e.Reason)))
	}
	if fmt.Sprint(got) != fmt.Sprint(texts) {
		s.Errorf("effects %q, want %q", got, texts)
	}
	audit(s.T, s.Core)
}

// crash starts the leader again from what it has written.
func (s *story) crash() {
	s.Helper()
	s.want()
	cfg := s.cfg
	cfg.Epoch = cfg.Epoch.Add(s.now)
	s.Core, s.now = New(cfg), 0
	for _, r := range s.log {
		if err := s.Replay(r); err != nil {
			s.Fatal(err)
		}
	}
	s.Recovered(0)
}

var none wire.Options

func TestG30ExecsAndClientsTakeTurns(t *testing.T) {
	s := tell(t, Config{})
	s.client(1, "a", 10)
	s.client(2, "b", 10)
	for range 2 {
		s.submit(1, "a", "calc", none) // 1, 3 … after the loop: 1 4
		s.submit(2, "b", "calc", none)
		s.submit(1, "a", "render", none)
	}
	s.want("took 1 to 1", "took 2 to 2", "took 3 to 1", "took 4 to 1", "took 5 to 2", "took 6 to 1")
	s.worker(3, 6)
	s.want("assign 1 to 3", "assign 3 to 3", "assign 2 to 3", "assign 6 to 3", "assign 4 to 3", "assign 5 to 3")
}

func TestG31LeastBusyWorkerThatMatchesGetsTheJob(t *testing.T) {
	s := tell(t, Config{})
	s.client(1, "a", 10)
	s.worker(2, 3)
	s.worker(3, 3)
	s.WorkerHello(0, 4, WorkerInfo{ID: wire.NewGUID(), Pattern: "job.assign.gpu.*"})
	s.Credit(0, 4, 9)
	for range 4 {
		s.submit(1, "a", "calc", none)
	}
	s.submit(1, "a", "gpu.train", none)
	s.want("took 1 to 1", "took 2 to 1", "took 3 to 1", "took 4 to 1", "took 5 to 1", "assign 1 to 2", "assign 5 to 4", "assign 2 to 3", "assign 3 to 2", "assign 4 to 3")
}

func TestG32CapHoldsOverConnectionsAndAttempts(t *testing.T) {
	s := tell(t, Config{})
	s.client(1, "a", 1)
	s.worker(3, 9)
	one := s.submit(1, "a", "calc", none)
	s.submit(1, "a", "render", none)
	s.want("took 1 to 1", "took 2 to 1", "assign 1 to 3")
	s.client(2, "a", 0) // another connection changes nothing
	s.want()
	s.ends(3, one, "")
	s.want("result 1 to 1", "kept 1 to 3", "assign 2 to 3")
	s.client(4, "a", 3) // the last one that tells a cap counts
	s.submit(4, "a", "calc", none)
	s.want("took 3 to 4", "assign 3 to 3")
}

func TestG33ResultsGoToWhoHasSubmittedOrTheNewest(t *testing.T) {
	s := tell(t, Config{})
	s.client(1, "a", 9)
	s.client(2, "a", 9)
	s.worker(3, 9)
	one, two := s.submit(1, "a", "calc", none), s.submit(2, "a", "calc", none)
	s.want("took 1 to 1", "took 2 to 2", "assign 1 to 3", "assign 2 to 3")
	s.Gone(s.now, 2)
	s.client(4, "a", 9)
	s.ends(3, one, "")
	s.ends(3, two, "")
	s.want("result 1 to 1", "kept 1 to 3", "result 2 to 4", "kept 2 to 3")
	s.Gone(s.now, 1) // before it has acknowledged
	s.want("result 1 to 4")
}

func TestG34CreditThatMakesNoSenseIsNotCounted(t *testing.T) {
	for _, test := range []struct {
		name   string
		grants []int
		want   int
	}{
		{"none", []int{0}, 0}, {"less than none", []int{2, -1}, 2}, {"more than the limit", []int{1 << 30}, 4}, {"more, later", []int{3, 3}, 4}, {"one by one", []int{1, 1, 1}, 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := tell(t, Config{})
			info := worker(2, modern...)
			info.Limit = 4
			s.WorkerHello(0, 2, info)
			for _, n := range test.grants {
				s.Credit(0, 2, n)
			}
			s.want()
			if got := s.Workers()[0].Credit; got != test.want {
				t.Errorf("credit %d, want %d", got, test.want)
			}
		})
	}
	s := tell(t, Config{})
	s.worker(2, 1)
	for range 40 {
		s.Offence(0, 2)
	}
	s.want("close  to 2 PROTOCOLcredits that make no sense")
}

func TestG34RenewHasTheCreditThatCounts(t *testing.T) {
	s := tell(t, Config{})
	s.client(1, "a", 9)
	s.worker(2, 1)
	s.submit(1, "a", "calc", none)
	s.submit(1, "a", "calc", none)
	s.want("took 1 to 1", "took 2 to 1", "assign 1 to 2")
	s.Renew(s.now, 2, wire.RenewInfo{Running: []wire.Running{{JobID: s.ids[0], AttemptID: s.last[s.ids[0]]}}, Seen: 1, Limit: 2}) // a Credit was lost
	s.want("assign 2 to 2")
}

func TestG36AttemptThatIsLostGivesNoCreditBack(t *testing.T) {
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

func TestG40AttemptsThatAreNotAcceptedBecomeADeadLetter(t *testing.T) {
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
		s.Renew(s.now, 2, wire.RenewInfo{Running: []wire.Running{{JobID: id, AttemptID: s.last[id]}}, Seen: 1, Limit: 1})
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

func TestG41FailureIsAResultUnlessTheJobWantsAnotherAttempt(t *testing.T) {
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

func TestG42DeadLetterIsQueuedAgainOrDropped(t *testing.T) {
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

func TestG43JobThatKillsItsWorkersBecomesADeadLetter(t *testing.T) { // S21
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
	s.Ack(s.now, 2, id, old, Ended{Reason: wire.ReasonExit, Body: body}) // an old failure does not
	s.want("kept 1 to 2")
	s.Ack(s.now, 2, id, old, Ended{OK: true, Body: body})
	s.want("cancel 1 to 3 lost", "result 1 to 1", "kept 1 to 2")
	s.ends(3, id, wire.ReasonExit) // P10
	s.want("kept 1 to 3")
	if i, _ := s.Get(id); i.Reason != "" || s.Counts.LateResults != 2 || s.Counts.DuplicateResults != 1 {
		t.Errorf("it is %+v, counts %+v", i, s.Counts)
	}
}

func TestG44ResultWithoutAnAttemptCountsOnlyFromItsWorker(t *testing.T) {
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

func TestG46ResultOfAnUnknownJobIsKeptForItsClient(t *testing.T) {
	s := tell(t, Config{})
	s.worker(2, 1)
	id := wire.NewGUID()
	s.names[id] = "x"
	s.ends(2, id, "")
	s.want("kept x to 2")
	s.client(1, "a", 1)
	s.want("result x to 1")
}

func TestG47SubmissionsOfOneJobAreOne(t *testing.T) {
	s := tell(t, Config{})
	s.client(1, "a", 1)
	s.worker(2, 1)
	id := s.submit(1, "a", "calc", none)
	again := Submission{ID: id, Exec: "calc", Digest: 1}
	s.Submit(s.now, 1, again)
	s.want("took 1 to 1", "took 1 to 1", "assign 1 to 2")
	s.ends(2, id, "")
	s.want("result 1 to 1", "kept 1 to 2")
	s.Delivered(s.now, 1, []wire.GUID{id})
	s.Submit(s.now, 1, again)
	s.want("took 1 to 1", "result 1 to 1")
	again.Digest = 2
	s.Submit(s.now, 1, again)
	s.want("error 1 to 1 CONFLICTanother job has this id: use a new one")
}

func TestG48ResultsWaitForTheirClient(t *testing.T) {
	s := tell(t, Config{ResultWindow: 1})
	s.client(1, "a", 9)
	s.worker(2, 9)
	one, two := s.submit(1, "a", "calc", none), s.submit(1, "a", "calc", none)
	s.want("took 1 to 1", "took 2 to 1", "assign 1 to 2", "assign 2 to 2")
	s.Gone(s.now, 1)
	s.ends(2, one, "")
	s.ends(2, two, "")
	s.want("kept 1 to 2", "kept 2 to 2")
	s.client(3, "a", 9)
	s.want("result 1 to 3")
	s.Delivered(s.now, 3, []wire.GUID{one})
	s.want("result 2 to 3")
	s.wait(25 * time.Hour)
	if _, ok := s.Get(two); ok || s.Counts.ResultsExpired != 1 {
		t.Error("a result that was not acknowledged in a day is still there")
	}
	s.want()
}

func TestG49JobsGoOnWithoutTheirClientUnlessTheyAreTied(t *testing.T) {
	s := tell(t, Config{})
	s.client(1, "a", 9)
	s.worker(2, 1)
	s.submit(1, "a", "calc", wire.Options{OnDisconnect: "cancel"})
	tied := s.submit(1, "a", "calc", wire.Options{OnDisconnect: "cancel"})
	s.submit(1, "a", "calc", none)
	s.want("took 1 to 1", "took 2 to 1", "took 3 to 1", "assign 1 to 2")
	s.client(3, "a", 9)
	s.Submit(s.now, 3, Submission{ID: tied, Exec: "calc", Digest: 1}) // now tied to this one
	s.Gone(s.now, 1)
	s.want("took 2 to 3", "cancel 1 to 2 canceled")
	s.ends(2, s.ids[0], wire.ReasonCanceled)
	s.Gone(s.now, 3)
	s.client(4, "a", 9)
	s.want("result 1 to 3", "kept 1 to 2", "result 1 to 4", "result 2 to 4")
}

func TestG23PriorityAndNotAfter(t *testing.T) {
	s := tell(t, Config{})
	s.client(1, "a", 9)
	soon := s.cfg.Epoch.Add(time.Second)
	s.submit(1, "a", "calc", wire.Options{Priority: -1})
	s.submit(1, "a", "calc", none)
	s.submit(1, "a", "calc", wire.Options{Priority: 5})
	s.submit(1, "a", "calc", wire.Options{NotAfter: &soon})
	s.want("took 1 to 1", "took 2 to 1", "took 3 to 1", "took 4 to 1")
	s.now = 2 * time.Second // no Tick yet
	s.worker(2, 9)
	s.want("assign 3 to 2", "assign 2 to 2", "result 4 to 1", "assign 1 to 2")
	if i, _ := s.Get(s.ids[3]); i.Reason != wire.ReasonExpired {
		t.Errorf("it is %+v", i)
	}
}

func TestG76ArrayMakesItsJobsInTurn(t *testing.T) {
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

func TestG76CanceledArrayMakesNoMoreJobs(t *testing.T) {
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

func TestG73AttemptsGoOnOverARestart(t *testing.T) {
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

func TestG56AttemptsGoOnOverANewConnection(t *testing.T) {
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

func TestG57WorkerThatDrainsHandsBack(t *testing.T) {
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

func TestG40MomentNeverGoesBack(t *testing.T) { // S18
	s := tell(t, Config{})
	s.client(1, "a", 9)
	s.worker(2, 1)
	s.submit(1, "a", "calc", none)
	s.want("took 1 to 1", "assign 1 to 2")
	s.Tick(500 * time.Millisecond)
	s.Tick(-time.Hour)
	if s.Core.now != 500*time.Millisecond {
		t.Errorf("it is %s", s.Core.now)
	}
	s.want()
}

// A client with a million jobs that it may not run costs others nothing.
func TestG30CappedClientCostsOthersNothing(t *testing.T) { // S22
	steps := func(n int) float64 {
		c := queue(n)
		c.ClientHello(1, 9, "a", 1, nil)
		c.ClientHello(1, 3, "b", 64, nil)
		c.WorkerHello(2, 2, worker(2))
		c.Credit(2, 2, 2)
		c.Take() // one of client a runs, and goes on
		s := request("b", "calc")
		return testing.AllocsPerRun(1000, func() {
			s.ID = wire.NewGUID()
			c.Submit(2, 3, s)
			if take(c, Assign) != s.ID {
				t.Fatal("it was not started at once")
			}
			c.Ack(2, 2, s.ID, wire.GUID{}, Ended{OK: true, Body: s.Body})
			c.Credit(2, 2, 1)
			c.Written(2, 3, []wire.GUID{s.ID})
			c.Take()
		})
	}
	if few, many := steps(10), steps(100_000); many > few {
		t.Errorf("%v allocations with 100 000 jobs queued, %v with 10", many, few)
	}
}

func TestG30PagesShowEachJobOnce(t *testing.T) {
	s := tell(t, Config{})
	s.client(1, "a", 9)
	for i := range 1000 {
		s.now = Moment(i/300) * time.Millisecond // many in the same millisecond
		s.submit(1, "a", "calc", none)
	}
	s.Take()
	seen := map[wire.GUID]bool{}
	var before Info
	for position := uint64(0); ; {
		n := 0
		position = s.Jobs(position, func(*Info) bool { return true }, func(i Info) bool {
			if seen[i.ID] || before.ID != (wire.GUID{}) && (i.Born > before.Born || i.Born == before.Born && i.ID.String() > before.ID.String()) {
				t.Errorf("%s after %s", i.ID, before.ID)
			}
			seen[i.ID], before = true, i
			n++
			return n < 7
		})
		if position == 0 {
			break
		}
	}
	if len(seen) != 1000 {
		t.Errorf("%d jobs were shown", len(seen))
	}
}
