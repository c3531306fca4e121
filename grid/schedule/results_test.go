package schedule

import (
	"fmt"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/grid/wire"
)

func TestG33ResultsGoToSubmitterOrNewest(t *testing.T) {
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

func TestG46UnknownResultIsKeptForClient(t *testing.T) {
	s := tell(t, Config{})
	s.worker(2, 1)
	id := wire.NewGUID()
	s.names[id] = "x"
	s.ends(2, id, "")
	s.want("kept x to 2")
	s.client(1, "a", 1)
	s.want("result x to 1")
}

func TestG47DuplicateSubmissions(t *testing.T) {
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

func TestG48ResultsWaitForClient(t *testing.T) {
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

func TestG49TiedJobsEndWithClient(t *testing.T) {
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
		position = s.Jobs(position, 0, func(*Info) bool { return true }, func(i Info) bool {
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

func TestG47OldestResultsAreDropped(t *testing.T) {
	s := tell(t, Config{KeepAcked: 2})
	s.client(1, "a", 9)
	s.legacy(2, 9)
	for range 3 {
		id := s.submit(1, "a", "calc", none)
		s.Take()
		s.ends(2, id, "")
		s.Delivered(s.now, 1, []wire.GUID{id})
		s.Take()
	}
	if _, ok := s.Get(s.ids[0]); ok || len(s.jobs) != 2 || s.Numbers().Execs != 1 {
		t.Errorf("%d jobs are known: %+v", len(s.jobs), s.Numbers())
	}
	s.want()
}

func TestG30CanceledJobsLeaveNothing(t *testing.T) {
	s := tell(t, Config{KeepAcked: 1, MaxExecs: 3})
	s.client(1, "a", 9)
	s.WorkerHello(s.now, 2, worker(2, modern...)) // never has credit
	for i := range 100 {
		id := s.submit(1, "a", fmt.Sprint("exec", i), none)
		s.Take()
		s.Cancel(s.now, "a", id)
		s.Delivered(s.now, 1, []wire.GUID{id})
	}
	s.Take()
	if n := s.Numbers(); n.Execs != 1 || n.Open != 0 || s.Counts.Refused != 0 || s.groups[groupKey{"job.assign.>", true}].starving.n != 0 {
		t.Errorf("%+v, %+v", n, s.Counts)
	}
}

func TestG48ResultsMoveToOtherConnection(t *testing.T) {
	s := tell(t, Config{})
	s.client(1, "a", 9)
	s.client(2, "a", 9)
	s.ClientHello(s.now, 3, "a", 9, append([]string{wire.FeatureOwn}, modern...)) // the newest takes only its own
	s.worker(9, 1)
	id := s.submit(2, "a", "calc", none)
	s.want("took 1 to 2", "assign 1 to 9")
	s.ends(9, id, "")
	s.want("result 1 to 2", "kept 1 to 9")
	s.Gone(s.now, 2)
	s.want("result 1 to 1")
}
