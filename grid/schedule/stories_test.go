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

func TestG31LeastBusyWorkerGetsJob(t *testing.T) {
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

func TestG34InvalidCreditIsNotCounted(t *testing.T) {
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
		s.Credit(0, 2, 0)
	}
	s.want("close  to 2 PROTOCOLtoo many invalid credits")
}

func TestG34RenewCorrectsCredit(t *testing.T) {
	s := tell(t, Config{})
	s.client(1, "a", 9)
	s.worker(2, 1)
	s.submit(1, "a", "calc", none)
	s.submit(1, "a", "calc", none)
	s.want("took 1 to 1", "took 2 to 1", "assign 1 to 2")
	s.Renew(s.now, 2, wire.RenewInfo{Running: []wire.Running{{JobID: s.ids[0], AttemptID: s.last[s.ids[0]]}}, Seen: 1, Limit: new(2)}) // a Credit was lost
	s.want("assign 2 to 2")
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

func TestG40TimeNeverGoesBack(t *testing.T) { // S18
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
		s := request("b")
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
	if few, many := steps(10), steps(100_000); many > few+1 { // tables grow now and then
		t.Errorf("%v allocations with 100 000 jobs queued, %v with 10", many, few)
	}
}

// All execs with jobs are served before one of them is served twice, even if a worker that was free for the next one was taken by another.
func TestP4G30NoExecStarves(t *testing.T) {
	s := tell(t, Config{})
	s.client(1, "a", 1000)
	for range 3 {
		for i := range 5 {
			s.submit(1, "a", fmt.Sprint("exec", i), none)
		}
	}
	s.WorkerHello(s.now, 2, worker(2, wire.FeatureAccept))
	s.Take()
	var served []string
	for i := range 15 {
		s.Credit(s.now, 2, 1)
		if i == 7 {
			s.submit(1, "a", "fast", none) // it is ready, and takes the credit of the one whose turn it was
		}
		effects, _ := s.Take()
		for _, e := range effects {
			if e.Op == Assign {
				served = append(served, e.Exec)
			}
		}
	}
	last := map[string]int{}
	for i, exec := range served {
		if before, ok := last[exec]; ok && i-before > 6 {
			t.Errorf("%s was served %d assigns after the time before: %v", exec, i-before, served)
		}
		last[exec] = i
	}
}
