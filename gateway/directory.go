package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/outbox"
)

// The directories of an agent's state.
const (
	leasesDir   = "leases"   // of an earlier version: a file for each held lease, undelivered outcome and retained note
	lateDir     = "late"     // results that came after their lease was lost
	rejectedDir = "rejected" // results that the gateway refused or that were given up
)

// keepFor is how long an outcome is delivered, and how long files are kept aside: as long
// as a gateway keeps a job.
const keepFor = 7 * 24 * time.Hour

// openOutbox locks the directory of the agent and reads its entries, oldest lease first.
func (a *Agent) openOutbox(ctx context.Context) ([]entry, error) {
	a.outbox = &outbox.Box{
		Dir: a.Dir, Files: leasesDir, Aside: []string{lateDir, rejectedDir}, MaxEntry: maxEntry, KeepFor: keepFor,
		Sender: outbox.Sender{
			Uploads: 2, // each holds a result in memory
			Retry:   deliveries, FinalTimeout: finalCallTimeout, Log: a.Log,
		},
	}
	if err := a.outbox.Open(); errors.Is(err, outbox.ErrInUse) { //nolint:contextcheck // what is synced later has no deadline
		return nil, fmt.Errorf("open state directory %s: another worker of this machine uses it: give each worker a directory of its own", a.Dir)
	} else if err != nil {
		return nil, fmt.Errorf("open state directory: %w", err)
	}
	var entries []entry
	err := a.outbox.Load(ctx, func(name string, text []byte) error {
		e, err := parseEntry(text)
		if err != nil {
			return err
		}
		if e.file() != name {
			return errors.New("the name is another lease's")
		}
		entries = append(entries, e)
		return nil
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read state directory: %w", err), a.outbox.Close())
	}
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Or(a.LeasedAt.Compare(b.LeasedAt), cmp.Compare(a.LeaseID, b.LeaseID)) })
	return entries, nil
}

// putEntry writes the entry of a lease in place of the one before.
func (a *Agent) putEntry(e entry) error {
	text, err := httpd.EncodeJSON(e)
	if err != nil {
		return err
	}
	return a.outbox.Put(e.file(), text)
}

// putRunning writes the entries of new leases, all or none. They need not survive a power cut, after which the leases
// run out: with the entries the gateway only hears of it sooner.
func (a *Agent) putRunning(running []entry) error {
	var entries []outbox.Entry
	for _, e := range running {
		text, err := httpd.EncodeJSON(e)
		if err != nil {
			return err
		}
		entries = append(entries, outbox.Entry{Name: e.file(), Text: text})
	}
	return a.outbox.PutUnsynced(entries...)
}

// aside is the content of a file in late/ or rejected/.
type aside struct {
	JobID   string             `json:"job_id"`
	LeaseID string             `json:"lease_id"`
	Why     string             `json:"why"`
	At      time.Time          `json:"at"`
	Report  wire.ResultRequest `json:"report"` // as it was sent
}

// keepAside writes a result to late/ or rejected/ and returns the path of its file. After
// an error the delivery is tried again.
func (a *Agent) keepAside(dir string, e entry, request wire.ResultRequest, why string) (path string, err error) {
	request.LeaseID = e.LeaseID
	text, err := encode(aside{JobID: string(e.JobID), LeaseID: e.LeaseID, Why: why, At: time.Now().UTC(), Report: request})
	if err == nil {
		path, err = a.outbox.KeepAside(dir, string(e.JobID)+"-"+e.file(), text)
	}
	if err != nil {
		return "", retryLater(fmt.Errorf("keep a %s result: %w", dir, err))
	}
	return path, nil
}
