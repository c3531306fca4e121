package scratch

import (
	"crypto/rand"
	"path/filepath"
	"sync"
)

// maxIdle is how many directories of attempts, and how many of checkpoints, are kept for others. To make and delete
// directories is slow, on ext4 several milliseconds an attempt: it looks for inodes that were not in use for 5 s.
const maxIdle = 64

// idle keeps directories that are empty, for others to use. Its methods may be called concurrently.
type idle[T any] struct {
	mu  sync.Mutex
	all []T
}

// full reports whether no more should be kept.
func (i *idle[T]) full() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return len(i.all) >= maxIdle
}

func (i *idle[T]) add(one T) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.all = append(i.all, one)
}

// take returns the one that was added last; false if there is none.
func (i *idle[T]) take() (one T, ok bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if n := len(i.all) - 1; n >= 0 {
		one, ok, i.all = i.all[n], true, i.all[:n]
	}
	return one, ok
}

// DirState is a directory as it was when it was inspected.
type DirState struct {
	id fileID
	// changed is when its names, its mode or its attributes were last changed, in ns since 1970; 0 if that was so
	// short a time before that a later change may have the same time.
	changed int64
}

// idlePath returns a new path for a directory that is kept for others.
func (r *Root) idlePath() string { return filepath.Join(r.own, "idle-"+rand.Text()[:10]) }
