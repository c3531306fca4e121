package schedule

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"testing"

	"github.com/batchfleet/batchfleet/grid/wire"
)

func TestG77TheNewestCheckpointIsGivenToTheNextAttempt(t *testing.T) {
	s := tell(t, Config{})
	s.client(1, "a", 10)
	id := s.submit(1, "a", "calc", none)
	report := func(peer PeerID, attempt wire.GUID, name string) {
		digest := sha256.Sum256([]byte(name))
		s.Report(s.now, peer, id, attempt, wire.ReportInfo{Checkpoint: &wire.Blob{Name: name, SHA256: hex.EncodeToString(digest[:])}})
	}
	assigned := func(number int, want string) (attempt wire.GUID) {
		t.Helper()
		effects, _ := s.Take()
		for _, e := range effects {
			if e.Op != Assign {
				continue
			}
			got := ""
			if e.Checkpoint != nil {
				got = e.Checkpoint.Name
			}
			if got != want || e.Number != number {
				t.Errorf("attempt %d goes on from %q, want %d and %q", e.Number, got, number, want)
			}
			attempt = e.Attempt
		}
		return attempt
	}
	s.worker(2, 1)
	first := assigned(1, "")
	report(2, first, "one")
	report(2, wire.NewGUID(), "of a stranger")
	report(2, first, "two")
	s.Report(s.now, 2, id, first, wire.ReportInfo{Message: "no news of it"})
	s.Gone(s.now, 2)
	s.worker(3, 1)
	second := assigned(2, "two")
	report(2, first, "late")
	s.HandBack(s.now, 3, id, second) // counts as no attempt, and has left nothing
	s.worker(4, 1)
	s.last[id] = assigned(2, "two")
	if needed := s.Blobs(); !slices.Equal(needed, [][32]byte{sha256.Sum256([]byte("two"))}) {
		t.Errorf("the blobs %x are needed, want that of the checkpoint", needed)
	}
	s.ends(4, id, "")
	if needed := s.Blobs(); s.jobs[id].checkpoint() != nil || len(needed) > 0 {
		t.Errorf("a job that has ended has its checkpoint, or the blobs %x are needed", needed)
	}
}
