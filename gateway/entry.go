package gateway

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/storage"
)

// step is how far a lease has come.
type step string

// A lease is running, then has a result or a failure to deliver. Then its entry is
// deleted, or retained as long as its handler's files are.
const (
	stepRunning  step = "running"
	stepResult   step = "result"
	stepFailed   step = "failed"
	stepRetained step = "left" // there is nothing to report; the word is part of the format
)

// entry is a lease on disk, so that neither the lease nor its result is lost with the
// process.
type entry struct {
	Version    int                 `json:"version"` // 1
	JobID      jobs.ID             `json:"job_id"`
	LeaseID    string              `json:"lease_id"`
	Kind       jobs.Kind           `json:"kind,omitempty"` // as the gateway calls it; empty for zpe
	TTLSeconds float64             `json:"lease_ttl_seconds"`
	State      step                `json:"state"`
	LeasedAt   time.Time           `json:"leased_at"`
	EndedAt    time.Time           `json:"ended_at,omitzero"` // when the job ended, or the last report
	Object     string              `json:"object,omitempty"`  // the result, in the worker's store
	Text       string              `json:"text,omitempty"`    // the result, if it is not there
	Failed     *wire.FailedRequest `json:"failed,omitempty"`
}

// maxEntry bounds an entry. The traceback of a failure is most of it, and JSON may need six bytes for one; a
// result is smaller.
const maxEntry = 6*(wire.MaxTraceback+wire.MaxErrorMessage+wire.MaxErrorCode) + 16<<10

// file is the name of the entry's file. A lease id may hold anything.
func (e *entry) file() string {
	sum := sha256.Sum256([]byte(e.LeaseID))
	return hex.EncodeToString(sum[:16]) + ".json"
}

// parseEntry reads what [Agent.putEntry] has written.
func parseEntry(text []byte) (entry, error) {
	var e entry
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&e); err != nil {
		return entry{}, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return entry{}, errors.New("there is more than one JSON value")
	}
	if e.Version != 1 {
		return entry{}, fmt.Errorf("version %d is not known", e.Version)
	}
	if err := validLease(string(e.JobID), e.LeaseID); err != nil {
		return entry{}, err
	}
	if !(e.TTLSeconds >= minLeaseTTL && e.TTLSeconds <= maxLeaseTTL) {
		return entry{}, fmt.Errorf("lease_ttl_seconds is %v", e.TTLSeconds)
	}
	switch e.State {
	case stepRunning, stepRetained:
	case stepResult:
		if err := storage.ValidName(e.Object); err != nil {
			return entry{}, fmt.Errorf("object: %w", err)
		}
	case stepFailed:
		if e.Failed == nil || e.Failed.LeaseID != e.LeaseID || e.Failed.ErrorCode == "" {
			return entry{}, errors.New("the failure is missing or another lease's")
		}
	default:
		return entry{}, fmt.Errorf("state %.40q is not known", e.State)
	}
	return e, nil
}

func (e *entry) ttl() time.Duration { return time.Duration(e.TTLSeconds * float64(time.Second)) }
