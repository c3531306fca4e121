package schedule_test

import (
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/grid/schedule"
	"github.com/batchfleet/batchfleet/grid/wire"
)

// story is a state and what it has had done.
type story struct {
	*schedule.Core
	t    *testing.T
	now  schedule.Moment
	next schedule.PeerID
}

func newStory(t *testing.T, cfg schedule.Config) *story {
	cfg.Epoch = time.Unix(1e9, 0)
	return &story{Core: schedule.New(cfg), t: t}
}

func (s *story) tick() schedule.Moment { s.now += time.Millisecond; return s.now }

func (s *story) client(name string, most int) schedule.PeerID {
	s.next++
	s.ClientHello(s.tick(), s.next, name, most, nil)
	return s.next
}

// worker connects one that can have so many jobs, and gives it so much credit.
func (s *story) worker(pattern string, limit, credit int, features ...string) schedule.PeerID {
	s.next++
	s.WorkerHello(s.tick(), s.next, schedule.WorkerInfo{ID: wire.NewGUID(), Pattern: pattern, Features: features, Limit: limit})
	if credit > 0 {
		s.Credit(s.tick(), s.next, credit)
	}
	return s.next
}

func (s *story) submit(p schedule.PeerID, client, exec string) wire.GUID {
	r := request(client, exec)
	s.Submit(s.tick(), p, r)
	return r.ID
}

func (s *story) ack(p schedule.PeerID, job, attempt wire.GUID) {
	s.Ack(s.tick(), p, job, attempt, schedule.Ended{OK: true, Body: schedule.Body{Bytes: []byte("{}"), Size: 2}})
}

// done returns what is to be done of a kind.
func (s *story) done(op schedule.Op) (all []schedule.Effect) {
	out, _ := s.Take()
	for _, e := range out {
		if e.Op == op {
			all = append(all, e)
		}
	}
	return all
}

func TestG31JobGoesToTheWorkerWithTheFewestJobs(t *testing.T) {
	s := newStory(t, schedule.Config{})
	c := s.client("a", 100)
	busy := s.worker("job.assign.*", 10, 10)
	s.submit(c, "a", "x")
	if got := s.done(schedule.Assign); len(got) != 1 || got[0].Peer != busy {
		t.Fatalf("the only worker: %+v", got)
	}
	idle := s.worker("job.assign.x", 3, 2)
	more := s.worker("job.assign.>", 3, 3)
	s.worker("job.assign.y", 10, 10)                           // does not match
	s.worker("job.assign.x", 10, 0)                            // has no credit
	for i, want := range []schedule.PeerID{more, idle, busy} { // those without jobs first, among them the one with more credit; then all have one
		s.submit(c, "a", "x")
		if got := s.done(schedule.Assign); len(got) != 1 || i < 2 && got[0].Peer != want {
			t.Errorf("job %d went to %+v, want worker %d", i, got, want)
		}
	}
}

func TestG32ClientRunsNoMoreThanItsCapHoweverOftenItConnects(t *testing.T) {
	s := newStory(t, schedule.Config{})
	c := s.client("a", 2)
	w := s.worker("job.assign.*", 100, 100)
	for range 10 {
		s.submit(c, "a", "x")
	}
	first := s.done(schedule.Assign)
	if len(first) != 2 {
		t.Fatalf("%d of at most 2 run", len(first))
	}
	s.Gone(s.tick(), c)
	c = s.client("a", 2)
	if got := s.done(schedule.Assign); len(got) != 0 {
		t.Fatalf("a new connection makes %d more run", len(got))
	}
	s.ack(w, first[0].Job, wire.GUID{})
	if got := s.done(schedule.Assign); len(got) != 1 {
		t.Errorf("after one has ended %d more run", len(got))
	}
	s.client("a", 5) // the last hello counts
	if got := s.done(schedule.Assign); len(got) != 3 {
		t.Errorf("with a cap of 5 %d more run, want 3", len(got))
	}
}

func TestG33ResultGoesToWhoHasSubmittedOrElseToTheNewest(t *testing.T) {
	s := newStory(t, schedule.Config{})
	first, second := s.client("a", 10), s.client("a", 10)
	w := s.worker("job.assign.*", 10, 10)
	one, two := s.submit(first, "a", "x"), s.submit(first, "a", "x")
	s.Take()
	s.ack(w, one, wire.GUID{})
	if got := s.done(schedule.Result); len(got) != 1 || got[0].Peer != first {
		t.Errorf("the result went to %+v, want connection %d", got, first)
	}
	s.Gone(s.tick(), first)
	if got := s.done(schedule.Result); len(got) != 1 || got[0].Job != one || got[0].Peer != second {
		t.Errorf("what it has not taken went to %+v", got)
	}
	s.ack(w, two, wire.GUID{})
	if got := s.done(schedule.Result); len(got) != 1 || got[0].Peer != second {
		t.Errorf("the next result went to %+v, want connection %d", got, second)
	}
	// The end of the older connection has not made the newer one unknown.
	three := s.submit(second, "a", "x")
	s.Take()
	s.ack(w, three, wire.GUID{})
	if got := s.done(schedule.Result); len(got) != 1 || got[0].Peer != second {
		t.Errorf("then the result went to %+v", got)
	}
}

func TestG35CreditIsSpentWithTheChoiceOfTheWorker(t *testing.T) {
	s := newStory(t, schedule.Config{})
	c := s.client("a", 100)
	w := s.worker("job.assign.*", 3, 3)
	for range 10 {
		s.submit(c, "a", "x") // all before anything is done
	}
	if got := s.done(schedule.Assign); len(got) != 3 {
		t.Errorf("3 credits made %d jobs run", len(got))
	}
	for _, worker := range s.Workers() {
		if worker.Peer == w && worker.Credit != 0 {
			t.Errorf("%d credits are left", worker.Credit)
		}
	}
}

func TestG45ResultThatComesTwiceCountsOnce(t *testing.T) {
	s := newStory(t, schedule.Config{})
	c := s.client("a", 10)
	w := s.worker("job.assign.*", 1, 1, wire.FeatureAccept, wire.FeatureResultAck)
	id := s.submit(c, "a", "x")
	s.submit(c, "a", "x")
	assigned := s.done(schedule.Assign)
	s.ack(w, id, assigned[0].Attempt)
	s.ack(w, id, assigned[0].Attempt)
	s.ack(w, id, wire.NewGUID())
	out, _ := s.Take()
	results, acks, assigns := 0, 0, 0
	for _, e := range out {
		switch e.Op {
		case schedule.Result:
			results++
		case schedule.ResultAck:
			acks++
		case schedule.Assign:
			assigns++
		}
	}
	if results != 1 || acks != 3 || assigns != 0 || s.Counts.DuplicateResults != 2 || s.Counts.Succeeded != 1 {
		t.Errorf("%d results, %d acks, %d jobs assigned, counted %+v", results, acks, assigns, s.Counts)
	}
}
