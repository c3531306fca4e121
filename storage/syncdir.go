package storage

import (
	"errors"
	"os"
	"sync"
)

// dirSyncs shares the fsync of a directory among the Puts that change it, such as
// eight workers that each make a directory under results/. The zero value is ready.
type dirSyncs struct {
	mu   sync.Mutex
	dirs map[dirKey]*dirSync
}

type dirKey struct {
	root *os.Root
	dir  string
}

// dirSync is the state of one directory while a Put waits for it.
type dirSync struct {
	running bool
	next    *syncRound // for Puts that came after the running fsync had begun
}

// syncRound is one fsync and those it serves.
type syncRound struct {
	done chan struct{}
	err  error
}

// start begins to sync directories in the background. Whatever the caller has
// changed in them before is on disk when wait has returned nil.
func (s *dirSyncs) start(root *os.Root, dirs []string) (wait func() error) {
	var rounds []*syncRound
	for _, dir := range dirs {
		rounds = append(rounds, s.join(root, dir))
	}
	return func() (err error) {
		for _, r := range rounds {
			<-r.done
			err = errors.Join(err, r.err)
		}
		return err
	}
}

// join returns the next round of dir's syncs to begin. One that runs already may
// have missed what the caller has changed.
func (s *dirSyncs) join(root *os.Root, dir string) *syncRound {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := dirKey{root, dir}
	d := s.dirs[key]
	if d == nil {
		if s.dirs == nil {
			s.dirs = map[dirKey]*dirSync{}
		}
		d = &dirSync{}
		s.dirs[key] = d
	}
	if d.next == nil {
		d.next = &syncRound{done: make(chan struct{})}
	}
	round := d.next
	if !d.running {
		d.running = true
		go s.run(key, d) // ends when no Put waits any more; every Put waits for its round
	}
	return round
}

// run syncs a directory, one round after the other, until no round is asked for.
func (s *dirSyncs) run(key dirKey, d *dirSync) {
	for {
		s.mu.Lock()
		round := d.next
		d.next = nil
		if round == nil {
			d.running = false
			delete(s.dirs, key)
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		round.err = syncDir(key.root, key.dir)
		close(round.done)
	}
}

func syncDir(root *os.Root, dir string) error {
	d, err := root.OpenFile(dir, os.O_RDONLY|noPolling, 0)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
