package control

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/storage"
)

const (
	// cleanGrace is how long ago a file must have been stored: its record may be on its way.
	cleanGrace = time.Hour
	// spoolKept is how long a part of an artifact is kept to which nothing is added.
	spoolKept = 24 * time.Hour
	cleanPage = 500
)

// clean deletes the files that no job needs any more: uploads whose jobs have expired,
// artifacts of attempts that were abandoned, and of jobs that have expired, and checkpoints of jobs that have ended.
func (c *Control) clean(ctx context.Context) {
	if c.Files == nil {
		return
	}
	var deleted int
	parts, err := c.Files.Spool.sweep(spoolKept)
	for _, prefix := range []string{uploadsPrefix, artifactsPrefix, checkpointsPrefix} {
		n, err2 := c.cleanObjects(ctx, prefix, time.Now().Add(-cleanGrace))
		deleted += n
		err = errors.Join(err, err2)
	}
	if err != nil && ctx.Err() == nil {
		c.Log.WarnContext(ctx, "cannot delete all files that no job needs any more", "err", err)
	}
	if deleted+parts > 0 {
		c.Log.InfoContext(ctx, "deleted files that no job needs any more", "files", deleted, "parts", parts)
	}
}

// cleanObjects deletes those of a prefix that were stored before a moment, a page at a time.
func (c *Control) cleanObjects(ctx context.Context, prefix string, before time.Time) (deleted int, err error) {
	var page []string
	flush := func() error {
		unneeded, err := c.unneeded(ctx, prefix, page)
		page = page[:0]
		for _, name := range unneeded {
			if err == nil {
				err = c.Files.Store.Delete(ctx, name)
				deleted++
			}
		}
		return err
	}
	err = c.Files.Store.Walk(ctx, prefix, func(name string, info storage.Info, err error) error {
		if err != nil || info.Modified.After(before) {
			return nil //nolint:nilerr // what cannot be read stays
		}
		if page = append(page, name); len(page) < cleanPage {
			return nil
		}
		return flush()
	})
	if err == nil {
		err = flush()
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return deleted, fmt.Errorf("clean %s: %w", prefix, err)
	}
	return deleted, nil
}

// unneeded returns which of these objects no job needs.
func (c *Control) unneeded(ctx context.Context, prefix string, names []string) (list []string, err error) {
	if prefix == uploadsPrefix {
		for _, name := range names {
			keep, err := c.Queue.KeepUpload(ctx, strings.TrimPrefix(name, prefix))
			if err != nil {
				return nil, err
			}
			if !keep {
				list = append(list, name)
			}
		}
		return list, nil
	}
	if prefix == checkpointsPrefix {
		for _, name := range names {
			id, sum, _ := strings.Cut(strings.TrimPrefix(name, prefix), "/")
			a, err := c.Queue.Checkpoint(ctx, jobs.ID(id))
			if err != nil {
				return nil, err
			}
			if a.SHA256 != sum {
				list = append(list, name)
			}
		}
		return list, nil
	}
	owner := map[string][]string{} // of an object its job, the directory of its lease and its name
	var ids []jobs.ID
	for _, name := range names {
		parts := strings.Split(strings.TrimPrefix(name, prefix), "/")
		if len(parts) != 3 {
			continue // not ours
		}
		owner[name] = parts
		if id := jobs.ID(parts[0]); !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	leases, err := c.Queue.ArtifactLeases(ctx, ids)
	if err != nil {
		return nil, err
	}
	for name, o := range owner {
		if !slices.ContainsFunc(leases[jobs.ID(o[0])], func(lease string) bool { return lease != "" && leaseDir(lease) == o[1] }) {
			list = append(list, name)
		}
	}
	return list, nil
}
