package repair

import (
	"context"
	"path"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/status"
	"github.com/batchfleet/batchfleet/storage"
)

// recent is how young a result is that must be on record: an hour less than the status of
// a job is kept.
const recent = status.TTL - time.Hour

// results records a job as completed if its result is stored and Redis has no record
// of it, because Redis has lost all that the job wrote.
func (r *round) results(ctx context.Context) error {
	var ids []jobs.ID
	err := r.Store.Walk(ctx, "results/", func(name string, info storage.Info, err error) error {
		r.tick()
		dir, object := path.Split(name)
		id, bad := jobs.ParseID(strings.TrimSuffix(strings.TrimPrefix(dir, "results/"), "/"))
		if err != nil || object != "result.json" || bad != nil || r.now.Sub(info.Modified) > recent {
			return nil //nolint:nilerr // what cannot be read cannot be repaired
		}
		if ids = append(ids, id); len(ids) < status.MaxList {
			return nil
		}
		err = r.recordUnknown(ctx, ids)
		ids = ids[:0]
		return err
	})
	if err != nil {
		return err
	}
	return r.recordUnknown(ctx, ids)
}

func (r *round) recordUnknown(ctx context.Context, ids []jobs.ID) error {
	entries, err := r.Status.Entries(ctx, ids)
	if err != nil {
		return err
	}
	known := map[jobs.ID]bool{}
	for _, e := range entries {
		known[e.ID] = true
	}
	for _, id := range ids {
		if known[id] {
			continue
		}
		_, err := r.record(ctx, jobs.Job{ID: id})
		if err := r.next(ctx, id, err); err != nil {
			return err
		}
	}
	return nil
}
