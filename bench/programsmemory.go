package main

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"strings"
	"sync"
	"time"

	"github.com/batchfleet/batchfleet/cli/own"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/storage"
	"github.com/batchfleet/batchfleet/worker/memory"
)

// timedQueue is a queue in memory that measures the time from each lease to its ack.
type timedQueue struct {
	memory.Queue
	ended map[jobs.Kind]chan time.Duration

	mu    sync.Mutex
	began map[string]time.Time // by lease id
}

func newTimedQueue(all []own.Kind) *timedQueue {
	q := &timedQueue{ended: map[jobs.Kind]chan time.Duration{}, began: map[string]time.Time{}}
	for _, k := range all {
		q.ended[k.Name] = make(chan time.Duration, 1<<10)
	}
	return q
}

func (q *timedQueue) Lease(ctx context.Context) (jobs.Lease, error) {
	return q.note(q.Queue.Lease(ctx))
}

func (q *timedQueue) LeaseKinds(ctx context.Context, kinds []jobs.Kind) (jobs.Lease, error) {
	return q.note(q.Queue.LeaseKinds(ctx, kinds))
}

func (q *timedQueue) note(l jobs.Lease, err error) (jobs.Lease, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.began[l.ID] = time.Now()
	return l, err
}

func (q *timedQueue) Ack(ctx context.Context, l jobs.Lease) error {
	q.mu.Lock()
	took := time.Since(q.began[l.ID])
	delete(q.began, l.ID)
	q.mu.Unlock()
	q.ended[l.Job.Kind] <- took
	return q.Queue.Ack(ctx, l)
}

// memoryStore keeps objects in memory. Its zero value is empty.
type memoryStore struct{ objects sync.Map }

func (s *memoryStore) Open(_ context.Context, name string) (io.ReadCloser, error) {
	text, ok := s.objects.Load(name)
	if !ok {
		return nil, fs.ErrNotExist
	}
	return io.NopCloser(bytes.NewReader(text.([]byte))), nil
}

func (s *memoryStore) Put(_ context.Context, name string, r io.Reader) error {
	text, err := io.ReadAll(r)
	if err == nil {
		s.objects.Store(name, text)
	}
	return err
}

func (s *memoryStore) Stat(_ context.Context, name string) (storage.Info, error) {
	text, ok := s.objects.Load(name)
	if !ok {
		return storage.Info{}, fs.ErrNotExist
	}
	return storage.Info{Size: int64(len(text.([]byte)))}, nil
}

func (s *memoryStore) Delete(_ context.Context, name string) error {
	s.objects.Delete(name)
	return nil
}

func (s *memoryStore) Walk(_ context.Context, prefix string, visit storage.Visit) (err error) {
	s.objects.Range(func(name, text any) bool {
		if strings.HasPrefix(name.(string), prefix) {
			err = visit(name.(string), storage.Info{Size: int64(len(text.([]byte)))}, nil)
		}
		return err == nil
	})
	return err
}

func (*memoryStore) Check(context.Context) error { return nil }
