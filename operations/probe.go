package operations

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/jobapi/engine"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/storage"
)

// Probes are objects of a moment. One that a killed server has left is found by
// the next start.
const (
	probes   = "probes/"
	probeAge = time.Hour // older than any start that may still run
)

// probeTimeout bounds the probe of the storage, which is a few small calls.
const probeTimeout = time.Minute

// probeStorage writes, reads back and deletes an object of a name of its own, so
// that several servers may do so at once.
func (s *start) probeStorage(ctx context.Context, r engine.Run) (message string, err error) {
	ctx, cancel := atMost(ctx, probeTimeout)
	defer cancel()
	if err := s.d.Storage.Check(ctx); err != nil {
		return "", err
	}
	name := probes + r.ID()
	defer func() {
		// Also when the job was canceled, and when Put has failed: the object may
		// be stored although the reply was lost.
		last, cancel := bounded(context.WithoutCancel(ctx))
		defer cancel()
		err = errors.Join(err, s.d.Storage.Delete(last, name))
	}()
	want := "batchfleet " + name
	if err := s.d.Storage.Put(ctx, name, strings.NewReader(want)); err != nil {
		return "", err
	}
	got, err := readAll(ctx, s.d.Storage, name, len(want))
	if err != nil {
		return "", err
	}
	if got != want {
		return "", fmt.Errorf("object %s holds other content than was put there: %w", name, jobs.ErrUnavailable)
	}
	if err := s.sweepProbes(ctx, r); err != nil {
		return "", err
	}
	return "objects can be written, read and deleted", nil
}

func readAll(ctx context.Context, store storage.Store, name string, size int) (string, error) {
	body, err := store.Open(ctx, name)
	if err != nil {
		return "", err
	}
	defer body.Close()
	b, err := io.ReadAll(io.LimitReader(body, int64(size)+1))
	return string(b), err
}

// sweepProbes deletes what servers have left that were killed here.
func (s *start) sweepProbes(ctx context.Context, r engine.Run) error {
	cutoff := time.Now().Add(-probeAge)
	return s.d.Storage.Walk(ctx, probes, func(name string, info storage.Info, err error) error {
		if err == nil && strings.HasPrefix(name, probes+"job_") && info.Modified.Before(cutoff) {
			r.Logf("delete %s, which an earlier start has left", name)
			err = s.d.Storage.Delete(ctx, name)
		}
		if errors.Is(err, fs.ErrPermission) { // another user's, and harmless
			r.Logf("left alone %s: %v", name, err)
			return nil
		}
		return err
	})
}
