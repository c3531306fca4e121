package worker

import (
	"context"
	"time"
)

// claimPatience is how long a worker keeps a lease while it cannot claim the job.
const claimPatience = 30 * time.Second

// getClaim claims the job at the status store, and retries for claimPatience, so that
// a failover of the store does not send every leased job back to the queue.
func (a *attempt) getClaim(ctx context.Context) error {
	policy := callRetry
	policy.For = claimPatience
	policy.Retrying = func(err error, wait time.Duration) {
		a.Log.WarnContext(ctx, "cannot claim job, trying again", "job", a.lease.Job.ID, "retry_in", wait, "err", err)
	}
	return policy.Do(ctx, func() error {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		_ = a.unreleased.release(call, a.lease.Job.ID) // first: what this worker gave up is no crash of the job
		asked, hold := time.Now(), claimHold(a.left())
		var err error
		a.claim, err = a.Status.Claim(call, a.lease.Job, hold, a.claim)
		cancel()
		if err == nil {
			a.confirmed.at(asked, hold)
			return nil
		}
		if ctx.Err() == nil {
			a.readiness.fail(err)
			a.Metrics.statusRetries.Inc()
		}
		return err
	})
}
