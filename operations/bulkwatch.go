package operations

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
)

// watched are jobs that were queued again and have not ended since, as far as is known. Of more than fit, the
// later ones are not watched.
type watched struct {
	ids    []string
	inARow int // that have failed again since one has ended otherwise
	looked time.Time
}

func (w *watched) add(job jobapi.Job) {
	if len(w.ids) < jobapi.MaxGet && !job.Status.Terminal() {
		w.ids = append(w.ids, job.ID)
	}
}

// lookAgain looks at intervals how the jobs have ended that were queued again, and ends the run if too many
// have failed.
func (b *bulkRun) lookAgain(ctx context.Context) error {
	w := b.watched
	if w == nil || len(w.ids) == 0 || time.Since(w.looked) < b.every {
		return nil
	}
	var found []jobapi.Job
	err := b.patiently(ctx, b.Run, func() error {
		return once(ctx, func(ctx context.Context) (err error) {
			found, err = b.chosen.in.Get(ctx, w.ids)
			return err
		})
	})
	if err != nil {
		return err
	}
	w.looked = time.Now()
	w.ids = w.ids[:0]
	for _, j := range found {
		switch {
		case !j.Status.Terminal():
			w.ids = append(w.ids, j.ID)
		case j.Status == jobs.Failed:
			b.n.FailedAgain++
			w.inARow++
			b.Logf("job %s failed again: %s", j.ID, reasonOf(&j))
		default:
			w.inARow = 0
		}
	}
	if w.inARow >= int(*b.StopAfter) {
		return b.stopped(fmt.Errorf("%s failed again, in a row", jobs.Count(w.inARow, "job")))
	}
	return nil
}

// reasonOf returns why a job has failed.
func reasonOf(j *jobapi.Job) string {
	if j.Error == nil {
		return "no reason is known"
	}
	return strings.TrimSpace(j.Error.Code + ": " + j.Error.Message)
}
