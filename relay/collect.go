package relay

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"path/filepath"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
)

// collectEvery is how often old tasks are looked for.
const collectEvery = 10 * time.Minute

// collect deletes tasks that have ended: those that ended longer than Keep ago, and the oldest while all tasks
// together have more than MaxBytes. A task whose upload has failed, or with events that are still to be told, counts as
// one that has not ended until it is as old as Keep.
func (r *Relay) collect(ctx context.Context) (done Collected) {
	sizes := map[jobs.ID]int64{}
	all := int64(0)
	ended := r.tasks.all(Succeeded, Failed, Canceled)
	if r.MaxBytes > 0 {
		for _, e := range r.tasks.all(Queued, Running, Uploading, Succeeded, Failed, Canceled) {
			sizes[e.id] = sizeOf(r.tasks.dir.of(e.id))
			all += sizes[e.id]
		}
	}
	for _, e := range ended {
		if ctx.Err() != nil {
			break
		}
		t := e.task.Load()
		old := time.Since(t.FinishedAt) > r.Keep
		unsent := len(t.Events) > 0 || t.Error != nil && t.Error.Code == codeUploadFailed
		tooMuch := r.MaxBytes > 0 && all > r.MaxBytes && !unsent
		if !old && !tooMuch {
			continue
		}
		if r.MaxBytes == 0 {
			sizes[e.id] = sizeOf(r.tasks.dir.of(e.id))
		}
		if err := r.tasks.drop(e); errors.Is(err, fs.ErrNotExist) { // another call has
			continue
		} else if err != nil {
			r.Log.WarnContext(ctx, "cannot delete a task", "task", e.id, "err", err)
			continue
		}
		done.Tasks++
		done.Bytes += sizes[e.id]
		all -= sizes[e.id]
	}
	if done.Tasks > 0 {
		r.Log.InfoContext(ctx, "deleted tasks that have ended", "tasks", done.Tasks, "bytes", done.Bytes)
	}
	return done
}

// Collected is how much was deleted: the answer of POST /v1/gc.
type Collected struct {
	Tasks int   `json:"tasks"`
	Bytes int64 `json:"bytes"`
}

func (s *server) collect(w http.ResponseWriter, r *http.Request) error {
	return answer(w, http.StatusOK, s.relay.collect(r.Context()))
}

// sizeOf returns the size of the files in a directory.
func sizeOf(dir string) (bytes int64) {
	_ = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error { // what cannot be read counts as nothing
		if err != nil || !entry.Type().IsRegular() {
			return nil //nolint:nilerr // the same
		}
		if info, err := entry.Info(); err == nil {
			bytes += info.Size()
		}
		return nil
	})
	return bytes
}
