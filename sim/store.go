package sim

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/storage"
)

// objects are what the stores of all processes hold.
type objects struct {
	// put is told, still under mu, that a process has made an object visible.
	put func(from, name string, old, now []byte)

	mu  sync.Mutex
	all map[string]object
}

type object struct {
	data     []byte
	modified time.Time
}

func newObjects() *objects { return &objects{all: map[string]object{}} }

func (o *objects) get(name string) ([]byte, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	found, ok := o.all[name]
	return found.data, ok
}

// names returns the names of all objects.
func (o *objects) names() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Sorted(maps.Keys(o.all))
}

// store is how one process sees the objects. It keeps the promises of [storage.Store].
type store struct {
	*objects
	l *link
}

func unavailable(what string, err error) error {
	return fmt.Errorf("%s: %w: %w", what, jobs.ErrUnavailable, err)
}

// call passes the link. It reports whether the reply is to be lost.
func (s store) call(ctx context.Context, what string) (lost bool, err error) {
	if err := s.l.call(ctx); err != nil {
		if ctx.Err() != nil {
			return false, err
		}
		return false, unavailable(what, err)
	}
	fate := s.l.dice.roll(what)
	if fate == lostRequest {
		s.l.p.hiccup("%s fails", what)
		return false, unavailable(what, errCut)
	}
	if fate == lostReply {
		s.l.p.hiccup("the reply to %s is lost", what)
	}
	return fate == lostReply, nil
}

// Open implements [storage.Store].
func (s store) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	lost, err := s.call(ctx, "open "+name)
	if lost {
		err = unavailable("open "+name, errCut)
	}
	if err != nil {
		return nil, err
	}
	data, ok := s.get(name)
	if !ok {
		return nil, fmt.Errorf("open %s: %w", name, fs.ErrNotExist)
	}
	return io.NopCloser(bytes.NewReader(data)), nil
}

// Put implements [storage.Store]. As the real stores do, it looks whether the attempt
// still has its job right before the object becomes visible, and not again.
func (s store) Put(ctx context.Context, name string, r io.Reader) error {
	data, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	lost, err := s.call(ctx, "put "+name)
	if err != nil {
		return err
	}
	if s.l.p.w.isFull() {
		return unavailable("put "+name, fmt.Errorf("no space left"))
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if err := jobs.Held(ctx); err != nil {
		return err
	}
	if s.l.p.isDead() {
		return unavailable("put "+name, errDead)
	}
	s.mu.Lock()
	old := s.all[name]
	s.all[name] = object{data, time.Now()}
	s.put(s.l.p.name, name, old.data, data)
	s.mu.Unlock()
	if lost {
		return unavailable("put "+name, errCut)
	}
	return nil
}

// Stat implements [storage.Store].
func (s store) Stat(ctx context.Context, name string) (storage.Info, error) {
	if _, err := s.call(ctx, "stat "+name); err != nil {
		return storage.Info{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.all[name]
	if !ok {
		return storage.Info{}, fmt.Errorf("stat %s: %w", name, fs.ErrNotExist)
	}
	return storage.Info{Size: int64(len(o.data)), Modified: o.modified}, nil
}

// Delete implements [storage.Store].
func (s store) Delete(ctx context.Context, name string) error {
	if _, err := s.call(ctx, "delete "+name); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, name)
	return nil
}

// Walk implements [storage.Store].
func (s store) Walk(ctx context.Context, prefix string, visit storage.Visit) error {
	if _, err := s.call(ctx, "walk "+prefix); err != nil {
		return err
	}
	for _, name := range s.names() {
		s.mu.Lock()
		o, ok := s.all[name]
		s.mu.Unlock()
		if !ok || !strings.HasPrefix(name, prefix) {
			continue
		}
		if err := visit(name, storage.Info{Size: int64(len(o.data)), Modified: o.modified}, nil); err != nil {
			return err
		}
	}
	return nil
}

// Check implements [storage.Store].
func (s store) Check(ctx context.Context) error {
	if _, err := s.call(ctx, "check the store"); err != nil {
		return err
	}
	if s.l.p.w.isFull() {
		return unavailable("check the store", fmt.Errorf("no space left"))
	}
	return nil
}
