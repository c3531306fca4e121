package engine

import (
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
)

// ids makes the ids of jobs, each greater than the one before, whatever the clock does.
type ids struct {
	last    time.Time
	entropy *ulid.MonotonicEntropy
}

// next returns an id and the moment that it names: now, unless the clock was set back.
func (g *ids) next(now time.Time) (string, time.Time, error) {
	if g.entropy == nil {
		g.entropy = ulid.Monotonic(rand.Reader, 0)
	}
	if now.After(g.last) {
		g.last = now
	}
	id, err := ulid.New(ulid.Timestamp(g.last), g.entropy)
	if errors.Is(err, ulid.ErrMonotonicOverflow) { // this millisecond has no greater one
		g.last = g.last.Add(time.Millisecond)
		id, err = ulid.New(ulid.Timestamp(g.last), g.entropy)
	}
	if err != nil {
		return "", time.Time{}, fmt.Errorf("make id: %w", err)
	}
	return "job_" + id.String(), g.last, nil
}

var idForm = jobs.Form(`^job_[0-7][0-9A-HJKMNP-TV-Z]{25}$`)

// parseCursor checks what a page ended with: the id of its last job.
func parseCursor(s string) error {
	if s != "" && !idForm().MatchString(s) {
		return &jobapi.FieldError{Field: "cursor", Problem: "it is not one that a page has had"}
	}
	return nil
}
