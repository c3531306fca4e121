package relay

import (
	"context"
	"io"
	"path/filepath"
	"strings"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/storage"
)

// store is what the handlers of the worker see of the tasks' directories: results/ID/… of a job is tasks/ID/…. What the
// relay itself keeps there is no result: handlers walk through results to delete them.
type store struct{ *storage.Local }

const resultsPrefix = "results/"

// Store is a store that is to be closed.
type Store interface {
	storage.Ranger
	io.Closer
}

// OpenStore opens the store for the handlers of the worker. The caller closes it.
func (r *Relay) OpenStore() (Store, error) {
	local, err := storage.NewLocal(filepath.Join(r.tasks.dir.path, tasksDir))
	if err != nil {
		return nil, err
	}
	return &store{local}, nil
}

// Place is where the programs of a task run: its work directory.
func (r *Relay) Place(id jobs.ID) string { return r.tasks.dir.of(id, workDir) }

// TempDir is a directory for what attempts have beside that.
func (r *Relay) TempDir() string { return filepath.Join(r.tasks.dir.path, tmpDir) }

func inside(name string) string { return strings.TrimPrefix(name, resultsPrefix) }

// Open implements storage.Store.
func (s *store) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	return s.Local.Open(ctx, inside(name))
}

// OpenAt implements storage.Ranger.
func (s *store) OpenAt(ctx context.Context, name string, offset int64) (io.ReadCloser, error) {
	return s.Local.OpenAt(ctx, inside(name), offset)
}

// Put implements storage.Store.
func (s *store) Put(ctx context.Context, name string, r io.Reader) error {
	return s.Local.Put(ctx, inside(name), r)
}

// Stat implements storage.Store.
func (s *store) Stat(ctx context.Context, name string) (storage.Info, error) {
	return s.Local.Stat(ctx, inside(name))
}

// Delete implements storage.Store.
func (s *store) Delete(ctx context.Context, name string) error {
	return s.Local.Delete(ctx, inside(name))
}

// RemoveUnfinished is what a worker calls that takes a task over.
func (s *store) RemoveUnfinished(ctx context.Context, dir string) error {
	return s.Local.RemoveUnfinished(ctx, inside(dir))
}

// Walk implements storage.Store.
func (s *store) Walk(ctx context.Context, prefix string, visit storage.Visit) error {
	below, ok := strings.CutPrefix(prefix, resultsPrefix)
	if !ok {
		return s.Local.Walk(ctx, prefix, visit)
	}
	return s.Local.Walk(ctx, below, func(name string, info storage.Info, err error) error {
		if err == nil && !isResult(name) {
			return nil
		}
		return visit(resultsPrefix+name, info, err)
	})
}

// isResult reports whether a file below tasks/, such as ID/artifacts/NAME, was stored by a handler.
func isResult(name string) bool {
	_, ofTask, _ := strings.Cut(name, "/")
	top, _, _ := strings.Cut(ofTask, "/")
	return top != taskFile && top != inputDir && top != workDir
}
