package worker

import (
	"context"
	"errors"
	"fmt"

	"github.com/batchfleet/batchfleet/jobs"
)

// stillHeld is the check of [jobs.Held]. A lease whose time is over is lost. A claim
// that the store has not confirmed for too long may be another worker's, so the store
// is asked; but not where no others can claim.
func (a *attempt) stillHeld(ctx context.Context) error {
	if a.closed.Load() {
		return fmt.Errorf("%w: the attempt is over", jobs.ErrLeaseLost)
	}
	if a.left() == 0 {
		err := fmt.Errorf("%w: it ended while the machine was asleep or stopped", jobs.ErrLeaseLost)
		a.lose(err)
		return err
	}
	if a.Claims == nil || !a.confirmed.stale() {
		return nil
	}
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := a.report(call, nil, jobs.Lines{}); err != nil && !errors.Is(err, jobs.ErrCanceled) { // the reporter gets the cancel as well
		return fmt.Errorf("confirm the claim of job %s: %w", a.claim.Job, err)
	}
	return nil
}
