package operations

import (
	"context"
	"errors"
	"time"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
)

// selection are the jobs of a scope that match a filter. They are looked at page by page and never held all at once.
type selection struct {
	in      jobapi.Jobs
	states  []jobs.State
	jobType string // empty for any
	filter  jobapi.Filter
	until   time.Time
}

// errEnough ends a walk that has seen enough.
var errEnough = errors.New("enough")

// call makes one call of the store of the jobs. It may make it several times.
type call func(ctx context.Context, make func(context.Context) error) error

// once makes a call that has a limit, a single time.
func once(ctx context.Context, make func(context.Context) error) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	return make(ctx)
}

// walk calls visit with the ids of the jobs, page by page: one state after the other, newest jobs first.
func (s *selection) walk(ctx context.Context, c call, visit func(ids []string) error) error {
	for _, state := range s.states {
		q := jobapi.Query{Status: state, Type: s.jobType, Limit: jobapi.MaxGet, Until: s.until}
		for more := true; more; {
			var ids []string
			var next string
			err := c(ctx, func(ctx context.Context) (err error) {
				ids, next, err = s.page(ctx, q)
				return err
			})
			if err == nil && len(ids) > 0 {
				err = visit(ids)
			}
			if errors.Is(err, errEnough) {
				return nil
			}
			if err != nil {
				return err
			}
			q.Cursor, more = next, next != ""
		}
	}
	return nil
}

// page returns the ids of jobs that match, at most [jobapi.MaxGet], and where to go on. There may be more where it finds none.
func (s *selection) page(ctx context.Context, q jobapi.Query) (ids []string, next string, err error) {
	found, err := jobapi.Select(ctx, s.in, q, s.filter, false)
	for _, i := range found.Items {
		if i.CreatedAt.Before(s.until) {
			ids = append(ids, i.ID)
		}
	}
	return ids, found.Next, err
}
