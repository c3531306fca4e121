package sim

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// world is one run: what all processes of it share.
type world struct {
	seed    uint64
	began   time.Time
	dir     string // for files of the processes
	log     io.Writer
	redis   *redisServer
	objects *objects
	trace   *trace
	conns   int // of Redis, guarded by its lock

	mu        sync.Mutex
	changed   chan struct{} // closed when a fault has begun or ended
	processes map[string]*process
	calm      bool      // no more faults by dice
	full      bool      // no object can be stored
	bad       time.Time // when a fault that concerns all ended last
	troubles  int       // that there are now
	lossy     time.Time // when Redis has lost writes, or its clock has leapt, last
	lost      []io.Closer

	timers sync.WaitGroup
	over   chan struct{}
}

func newWorld(seed uint64, dir string, log io.Writer) *world {
	w := &world{
		seed: seed, began: time.Now(), dir: dir, log: log, objects: newObjects(), trace: &trace{},
		changed: make(chan struct{}), processes: map[string]*process{}, over: make(chan struct{}),
	}
	w.redis = newRedis(w)
	return w
}

// wake lets all waiting calls look again. w.mu is held.
func (w *world) wake() {
	close(w.changed)
	w.changed = make(chan struct{})
}

// after calls f after d, or never if the world ends before.
func (w *world) after(d time.Duration, f func()) {
	w.timers.Go(func() {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
			f()
		case <-w.over:
		}
	})
}

// end closes what is left once all processes have ended.
func (w *world) end() {
	close(w.over)
	w.timers.Wait()
	w.mu.Lock()
	lost := w.lost
	w.lost = nil
	w.mu.Unlock()
	for _, c := range lost {
		_ = c.Close()
	}
	w.redis.close()
	time.Sleep(time.Minute) // clients of Redis end what they had begun
}

// process returns the process of that name, nil if there is none.
func (w *world) process(name string) *process {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.processes[name]
}

// add makes a process.
func (w *world) add(name string) *process {
	p := w.newProcess(name)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.processes[name] = p
	return p
}

// logger is where a process logs, each line with its name and the time since the world
// began.
func (w *world) logger(name string) *slog.Logger {
	if w.log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.String("at", w.age().String())
		}
		return a
	}})).With("process", name)
}

// age is how long ago the world began.
func (w *world) age() time.Duration { return time.Since(w.began).Round(time.Millisecond) }

// note adds a line to what is printed of a run that has failed.
func (w *world) note(format string, args ...any) {
	line := fmt.Sprintf("%10s  ", w.age()) + fmt.Sprintf(format, args...)
	w.trace.add(line)
	if w.log != nil {
		_, _ = fmt.Fprintln(w.log, line)
	}
}

// mkdir makes a directory for a process.
func (w *world) mkdir(names ...string) string {
	dir := filepath.Join(append([]string{w.dir}, names...)...)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		panic(err) // the test's own directory
	}
	return dir
}

// isFull reports whether the disk behind the store is full.
func (w *world) isFull() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.full
}

// isCalm reports whether the time of faults is over.
func (w *world) isCalm() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calm
}

// trouble sets a fault that concerns all processes and lasts for d.
func (w *world) trouble(set func(on bool), d time.Duration) {
	change := func(on bool) {
		set(on)
		w.mu.Lock()
		defer w.mu.Unlock()
		if on {
			w.troubles++
		} else {
			w.troubles--
			w.bad = time.Now()
		}
		w.wake()
	}
	change(true)
	w.after(d, func() { change(false) })
}

// lose has Redis lose writes, or its clock leap.
func (w *world) lose(change func()) {
	w.mu.Lock()
	w.lossy = time.Now()
	w.mu.Unlock()
	w.trouble(func(on bool) {
		if on {
			change()
		}
	}, time.Second)
}

func (w *world) setFull(full bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.full = full
}

// grace is how long a fault may show after it has ended: claims last 15 s, and calls are
// repeated after up to 30 s.
const grace = time.Minute

// excused reports whether a process may have been silent in the time before now: it was
// killed, or it or all had a fault.
func (w *world) excused(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.processes[name]
	return p == nil || w.troubled(p)
}

// troubled reports whether a process may be silent. w.mu is held.
func (w *world) troubled(p *process) bool {
	return p.dead || p.cutOff || p.faults > 0 || w.troubles > 0 || recent(p.bad) || recent(w.bad)
}

// ended is told that a process has ended by itself.
func (w *world) ended(p *process) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p.cutOff = w.troubled(p)
}

// anyExcused is excused for any process whose name begins so.
func (w *world) anyExcused(prefix string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, p := range w.processes {
		if strings.HasPrefix(name, prefix) && (p.faults > 0 || recent(p.bad)) {
			return true
		}
	}
	return false
}

// hadFault reports whether a process whose name begins so, or all, had a fault since a moment.
func (w *world) hadFault(prefix string, since time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, p := range w.processes {
		if strings.HasPrefix(name, prefix) && (p.faults > 0 || p.bad.After(since)) {
			return true
		}
	}
	return w.troubles > 0 || w.bad.After(since)
}

// isLossy reports whether Redis has lost writes, or its clock has leapt, at any time.
func (w *world) isLossy() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.lossy.IsZero()
}

// justLost is isLossy for a moment ago.
func (w *world) justLost() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.lossy.IsZero() && time.Since(w.lossy) < grace
}

func recent(t time.Time) bool { return !t.IsZero() && time.Since(t) < grace }

// hiccup takes note of a fault of a single call.
func (p *process) hiccup(format string, args ...any) {
	p.w.note(p.name+": "+format, args...)
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	p.bad = time.Now()
}

// trace is what has happened, for people.
type trace struct {
	mu    sync.Mutex
	lines []string
}

func (t *trace) add(line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = append(t.lines, line)
}

func (t *trace) all() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]string(nil), t.lines...)
}

// until waits until done returns true, and reports false if that takes longer than limit.
func until(ctx context.Context, limit time.Duration, done func() bool) bool {
	for end := time.Now().Add(limit); !done(); {
		if time.Now().After(end) || ctx.Err() != nil {
			return false
		}
		time.Sleep(time.Second)
	}
	return true
}
