package schedule

import (
	"testing"

	"github.com/batchfleet/batchfleet/grid/wire"
)

func TestG35CreditIsUsedAtAssignment(t *testing.T) {
	s := tell(t, Config{})
	s.client(1, "a", 100)
	s.legacy(2, 3)
	s.Take()
	for range 10 {
		s.submit(1, "a", "calc", wire.Options{}) // all before anything is done
	}
	assigned := 0
	effects, _ := s.Take()
	for _, e := range effects {
		if e.Op == Assign {
			assigned++
		}
	}
	if w := s.Workers(); assigned != 3 || len(w) != 1 || w[0].Credit != 0 {
		t.Errorf("3 credits made %d jobs run, and %+v is left", assigned, w)
	}
}

func TestG45DuplicateResultCountsOnce(t *testing.T) {
	s := tell(t, Config{})
	s.client(1, "a", 100)
	s.worker(2, 1)
	id := s.submit(1, "a", "calc", wire.Options{})
	s.submit(1, "a", "calc", wire.Options{})
	s.want("took 1 to 1", "took 2 to 1", "assign 1 to 2")
	s.ends(2, id, "")
	s.want("result 1 to 1", "kept 1 to 2") // and no credit for the second job
	s.ends(2, id, "")
	s.ends(2, id, "exit")
	s.want("kept 1 to 2", "kept 1 to 2")
	if s.Counts.DuplicateResults != 2 || s.Counts.Succeeded != 1 {
		t.Errorf("counted %+v", s.Counts)
	}
}

func TestG34WorkerMayTakeItsCreditBack(t *testing.T) {
	s := tell(t, Config{})
	s.client(1, "a", 9)
	s.worker(2, 2)
	s.Renew(s.now, 2, wire.RenewInfo{Limit: new(0)})
	s.submit(1, "a", "calc", none)
	s.want("took 1 to 1")
	s.Renew(s.now, 2, wire.RenewInfo{Limit: new(1)})
	s.want("assign 1 to 2")
	s.Renew(s.now, 2, wire.RenewInfo{Limit: new(0)}) // it has not seen the job yet
	s.submit(1, "a", "calc", none)
	s.want("took 2 to 1")
	s.Renew(s.now, 2, wire.RenewInfo{}) // no limit leaves the credit as it is
	s.want()
	s.Renew(s.now, 2, wire.RenewInfo{Seen: 1, Limit: new(2)})
	s.want("assign 2 to 2")
}
