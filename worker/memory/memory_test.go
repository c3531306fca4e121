package memory_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchfleet/batchfleet/internal/testrun"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/worker/memory"
	"github.com/batchfleet/batchfleet/worker/workertest"
)

func TestQueueIsASource(t *testing.T) {
	testrun.Long(t, "it waits for seconds")
	workertest.Source(t, func(*testing.T) workertest.Queue {
		q := new(memory.Queue)
		return workertest.Queue{Source: q, Submit: func(_ *testing.T, job jobs.Job) { q.Add(memory.Message{Job: job}) }}
	})
}

func TestStatusIsAStatus(t *testing.T) {
	workertest.Status(t, func(*testing.T) workertest.Store { return logged{new(memory.Status)} })
}

// logged is a Status whose logs the suite can read.
type logged struct{ *memory.Status }

func (l logged) Log(_ context.Context, id jobs.ID) ([]string, error) {
	r, _ := l.Get(id)
	return r.Lines, nil
}

func TestLostLeasesAreNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &memory.Queue{LeaseTTL: time.Minute}
		q.Add(memory.Message{Job: jobs.Job{ID: "a"}}, memory.Message{Job: jobs.Job{ID: "b"}})
		var leases []jobs.Lease
		for range 2 {
			l, err := q.Lease(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			leases = append(leases, l)
		}
		if _, err := q.Extend(t.Context(), leases[1:], time.Hour); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		lost, err := q.Extend(t.Context(), leases, time.Hour)
		if err != nil || len(lost) != 1 || lost[leases[0].ID] == nil {
			t.Errorf("lost %v, %v; want %s alone", lost, err, leases[0].ID)
		}
		if waiting, leased := q.Len(); waiting != 1 || leased != 1 {
			t.Errorf("%d wait and %d are leased, want one each", waiting, leased)
		}
	})
}

func TestJobsAreForgottenAfterTheirLastWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &memory.Status{Keep: time.Hour}
		if _, err := s.Submit(t.Context(), jobs.Job{ID: "a"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Minute)
		if _, err := s.Claim(t.Context(), jobs.Job{ID: "a"}, time.Minute, jobs.Claim{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Minute)
		if r, known := s.Get("a"); !known || r.State != jobs.Running {
			t.Errorf("%+v, %t; want it running", r, known)
		}
		time.Sleep(11 * time.Minute)
		synctest.Wait()
		if r, known := s.Get("a"); known {
			t.Errorf("%+v is still known", r)
		}
	})
}
