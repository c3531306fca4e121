package status

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
)

// Leave keeps a job on record that a worker leaves to others, because it does not have its kind.
// A job of which nothing is known becomes queued with message, and so does one that is queued and
// was never started. It returns how long ago the job was first heard of, and its state.
func (s *Store) Leave(ctx context.Context, job jobs.Job, message string) (age time.Duration, state jobs.State, err error) {
	head, tail := Document{Status: words[jobs.Queued], Message: message}.halves()
	nobody := Store{} // does not have it
	args := append([]any{ttlSeconds, head, tail, createdAt(job, time.Now()), paramsText(job)}, nobody.jobFields(job)...)
	what := fmt.Sprintf("leave job %s", job.ID)
	got, err := s.run(ctx, what, leaveScript, jobKeys(job.ID), args...)
	if err != nil {
		return 0, 0, err
	}
	if state = stateOf(got.Text(0)); state == 0 {
		state = jobs.Running // as Document.State says
	}
	if got.Number(3) == 1 {
		m := move{id: job.ID, state: state, created: got.Number(1), others: states, kind: string(job.Kind), count: count{cameIn, 1}}
		_ = s.move(ctx, m) // lists miss it until it is looked for
	}
	return time.Duration(got.Number(2)) * time.Millisecond, state, nil
}

// Runs reports whether a live worker of the fleet runs jobs of a kind.
func (s *Store) Runs(ctx context.Context, kind jobs.Kind) (bool, error) {
	workers, err := s.Workers(ctx)
	return slices.ContainsFunc(workers, func(w Worker) bool { return w.Silent <= SilentAfter && slices.Contains(w.Kinds, kind) }), err
}
