package schedule

import (
	"testing"

	"github.com/batchfleet/batchfleet/grid/wire"
)

// TestG48OwnFeature gets none of an earlier process, nor of one that goes, until it submits the same job.
func TestG48OwnFeature(t *testing.T) {
	c := New(Config{})
	own := []string{wire.FeatureResultAck, wire.FeatureOwn}
	c.WorkerHello(1, 9, WorkerInfo{ID: wire.NewGUID(), Pattern: wire.DefaultPattern, Limit: 10})
	c.Credit(1, 9, 10)
	results := func() (jobs []wire.GUID, peers []PeerID) {
		effects, _ := c.Take()
		for _, e := range effects {
			if e.Op == Result {
				jobs, peers = append(jobs, e.Job), append(peers, e.Peer)
			}
		}
		return jobs, peers
	}
	end := func(id wire.GUID, peer PeerID) {
		c.ClientHello(2, peer, "a", 4, own)
		c.Submit(2, peer, Submission{ID: id, Exec: "x", Body: Body{Bytes: []byte("{}"), Size: 2}, Digest: 7})
		if jobs, peers := results(); len(jobs) > 0 {
			t.Fatalf("results of others are sent: %v to %v", jobs, peers)
		}
		c.Gone(3, peer)
		c.Ack(4, 9, id, wire.GUID{}, Ended{OK: true, Body: Body{Bytes: []byte("r"), Size: 1}})
	}
	first, second := wire.NewGUID(), wire.NewGUID()
	end(first, 1)
	c.ClientHello(5, 2, "a", 4, own)
	end(second, 3)
	if jobs, peers := results(); len(jobs) > 0 {
		t.Fatalf("results of others are sent: %v to %v", jobs, peers)
	}
	c.Submit(6, 2, Submission{ID: first, Exec: "x", Body: Body{Bytes: []byte("{}"), Size: 2}, Digest: 7})
	if jobs, peers := results(); len(jobs) != 1 || jobs[0] != first || peers[0] != 2 {
		t.Fatalf("after it was submitted again: %v to %v, want %v to 2", jobs, peers, first)
	}
	c.ClientHello(7, 4, "a", 4, []string{wire.FeatureResultAck})
	if jobs, peers := results(); len(jobs) != 1 || jobs[0] != second || peers[0] != 4 {
		t.Fatalf("to a client that takes all: %v to %v, want %v to 4", jobs, peers, second)
	}
}
