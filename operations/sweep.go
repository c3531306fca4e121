package operations

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/batchfleet/batchfleet/jobapi/engine"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/status"
	"github.com/batchfleet/batchfleet/storage"
)

// results is where results are. Nothing else is ever deleted.
const results = "results/"

// resultObject is the object whose presence means that a result is complete.
const resultObject = "result.json"

// What a sweep holds and does at once.
const (
	sweepBatch   = 100    // jobs whose status is asked for in one round trip
	sweepAtOnce  = 8      // jobs whose objects are being deleted
	maxOfResult  = 10_000 // objects; a job has a result, its pages and a few checkpoints
	sweepMessage = time.Second
	maxDenied    = 20 // results that the log names as not permitted
)

// sweep finds the results of old jobs, one directory after the other.
type sweep struct {
	d      Deps
	r      engine.Run // nil for a dry run
	cutoff time.Time
	limit  int
	remove func(context.Context, result) error

	now   result   // the directory that is being walked
	batch []result // old ones whose status is to be asked
	said  time.Time

	mu     sync.Mutex
	purged purged
	left   spared
}

// result is what there is of one job.
type result struct {
	id      jobs.ID
	objects []string
	bytes   int64
	newest  time.Time
	odd     bool // no job's id names it
	large   bool // it has more than maxOfResult
	denied  bool // not all of it could be looked at; what is hidden may be new
}

func (s *sweep) run(ctx context.Context) error {
	err := s.d.Storage.Walk(ctx, results, func(name string, info storage.Info, denied error) error {
		dir, _, below := strings.Cut(strings.TrimPrefix(name, results), "/")
		if !below {
			return nil // no result of ours
		}
		if string(s.now.id) != dir {
			if err := s.next(ctx); err != nil {
				return err
			}
			_, bad := jobs.ParseID(dir)
			s.now = result{id: jobs.ID(dir), odd: bad != nil}
		}
		s.see(name, info, denied)
		return nil
	})
	if err == nil {
		err = s.next(ctx)
	}
	if err == nil || errors.Is(err, fs.SkipAll) {
		err = s.flush(ctx)
	}
	return err
}

// see adds an object to the directory that is being walked.
func (s *sweep) see(name string, info storage.Info, denied error) {
	if denied != nil && !s.now.odd && !s.now.denied {
		s.now.denied = true
		s.deny(s.now.id, denied)
	}
	if len(s.now.objects) == maxOfResult {
		s.now.large = true
	}
	if s.now.odd || s.now.large || s.now.denied {
		s.now.objects = nil
		return
	}
	s.now.objects = append(s.now.objects, name)
	s.now.bytes += info.Size
	if info.Modified.After(s.now.newest) {
		s.now.newest = info.Modified
	}
}

// next ends the directory that was walked, and the walk with [fs.SkipAll] when the limit
// is reached.
func (s *sweep) next(ctx context.Context) error {
	old := s.now
	s.now = result{}
	switch {
	case old.odd:
		s.left.NoJob++
		return nil
	case old.denied: // and counted
		return nil
	case old.large:
		s.left.Large++
		return nil
	case len(old.objects) == 0 || !old.newest.Before(s.cutoff):
		return nil
	}
	s.batch = append(s.batch, old)
	if len(s.batch) < min(sweepBatch, s.limit-s.total().Jobs) {
		return nil
	}
	if err := s.flush(ctx); err != nil {
		return err
	}
	if s.total().Jobs >= s.limit {
		return fs.SkipAll
	}
	return nil
}

// flush removes the results in the batch, but those of jobs that may still need
// them.
func (s *sweep) flush(ctx context.Context) error {
	batch := s.batch
	s.batch = nil
	if len(batch) == 0 {
		return nil
	}
	ids := make([]jobs.ID, len(batch))
	for i, old := range batch {
		ids[i] = old.id
	}
	call, cancel := bounded(ctx)
	defer cancel()
	entries, err := s.d.Status.Entries(call, ids)
	if err != nil {
		return err
	}
	batch = slices.DeleteFunc(batch, func(old result) bool {
		return slices.ContainsFunc(entries, func(e status.Entry) bool { return e.ID == old.id && s.spare(e) })
	})
	err = each(ctx, sweepAtOnce, len(batch), func(ctx context.Context, i int) error { return s.remove(ctx, batch[i]) })
	if s.r != nil && time.Since(s.said) > sweepMessage {
		s.said = time.Now()
		s.r.Message("deleted " + s.total().String())
	}
	return err
}

// spare reports whether a job that is on record may still need what it has stored,
// and counts why: it has not ended, its status is no word of ours, or it ended
// after its objects were looked at.
func (s *sweep) spare(e status.Entry) bool {
	switch state := e.State(); {
	case state == 0:
		s.left.Unreadable++
	case !state.Terminal():
		s.left.NotEnded++
	case e.Detail.Finished.After(s.cutoff):
		s.left.EndedSince++
	default:
		return false
	}
	return true
}

// deleteResult deletes the objects of one job, first the one that marks the result as
// complete. So no reader finds a result whose pages are deleted. The next purge finds
// what a crash leaves, because it is as old.
func (s *sweep) deleteResult(ctx context.Context, old result) error {
	if i := slices.Index(old.objects, results+string(old.id)+"/"+resultObject); i > 0 {
		old.objects[0], old.objects[i] = old.objects[i], old.objects[0]
	}
	for _, name := range old.objects {
		call, cancel := bounded(ctx)
		err := s.d.Storage.Delete(call, name)
		cancel()
		if errors.Is(err, fs.ErrPermission) {
			s.deny(old.id, err)
			return nil
		}
		if err != nil {
			return err
		}
	}
	s.add(old)
	return nil
}

// deny leaves alone what may not be read or deleted, as it is or as far as that
// goes: others can be purged all the same.
func (s *sweep) deny(id jobs.ID, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left.NotPermitted++
	switch n := s.left.NotPermitted; {
	case s.r == nil || n > maxDenied+1:
	case n > maxDenied:
		s.r.Logf("more are not named")
	default:
		s.r.Logf("left alone %s%s/: %v", results, id, err)
	}
}

func (s *sweep) add(old result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.purged.Jobs++
	s.purged.Objects += len(old.objects)
	s.purged.Bytes += old.bytes
}

func (s *sweep) total() purged {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.purged
}
