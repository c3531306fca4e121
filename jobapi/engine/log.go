package engine

import (
	"sync"
	"sync/atomic"
	"time"
)

// maxLog is how many bytes of lines a log keeps, with two to six for each line.
const maxLog = 5 << 20

// A joblog is the log of one job. Lines are numbered from 1, and keep their
// numbers when older ones are dropped. Its lock is held for no longer than it
// takes to copy a line.
type joblog struct {
	id     string
	began  time.Time
	budget *LogBudget
	lost   func(lines int) // counts dropped lines, in batches

	held  atomic.Int64 // bytes of memory
	mu    sync.Mutex
	parts []*chunk
	head  int    // where in parts[0] the first line kept begins
	first uint64 // position of the first line kept
	next  uint64 // position of the next line
	size  int    // bytes of the lines kept
	owed  int    // dropped lines that lost does not know of
	open  int    // which step may write, from 1; 0 for none
	ended bool
}

func newLog(id string, budget *LogBudget, lost func(int)) *joblog {
	l := &joblog{id: id, began: time.Now(), budget: budget, lost: lost, first: 1, next: 1}
	budget.add(l)
	return l
}

// own is who the engine itself writes as.
const own = -1

// add appends lines, which then stand together, for a step or as own. It reports
// whether the log still takes lines of that step.
func (l *joblog) add(step int, lines ...string) bool {
	l.mu.Lock()
	if l.ended || step != own && step != l.open {
		l.mu.Unlock()
		return false
	}
	grown := l.write(lines)
	l.mu.Unlock()
	l.account(grown)
	return true
}

// turn appends a line of the engine and lets a step write, or none when it is 0.
func (l *joblog) turn(step int, lines ...string) {
	l.mu.Lock()
	l.open = step
	grown := l.write(lines)
	l.mu.Unlock()
	l.account(grown)
}

// end appends the last lines.
func (l *joblog) end(lines ...string) {
	l.mu.Lock()
	grown := l.write(lines)
	l.open, l.ended = 0, true
	if n := len(l.parts); n > 0 {
		// The job is one of many that have ended: what it keeps has no room to grow.
		tail := l.parts[n-1]
		fit := &chunk{}
		*fit = *tail
		fit.buf = append(make([]byte, 0, len(tail.buf)), tail.buf...)
		grown += int64(cap(fit.buf) - cap(tail.buf))
		l.parts[n-1] = fit
	}
	l.settle()
	l.mu.Unlock()
	l.budget.ended(l)
	l.account(grown)
}

// account tells the budget what the log has grown, which may take lines from
// this log or others.
func (l *joblog) account(grown int64) {
	if grown != 0 {
		l.held.Add(grown)
		l.budget.grow(grown)
	}
}

// write appends lines and drops the oldest while there are too many. It returns
// by how much more memory the log holds.
func (l *joblog) write(lines []string) (grown int64) {
	at := time.Since(l.began) // by the monotonic clock: later lines are never older
	for _, text := range lines {
		need := recordSize(len(text))
		c := l.room(need)
		grown += c.room(need)
		l.size += c.add(at, text)
		l.next++
		for l.size > maxLog {
			grown -= l.drop()
		}
	}
	return grown
}

// room returns the chunk for a line that takes n bytes at most.
func (l *joblog) room(n int) *chunk {
	if len(l.parts) > 0 {
		if c := l.parts[len(l.parts)-1]; len(c.buf)+n <= chunkSize {
			return c
		}
	}
	l.parts = append(l.parts, &chunk{seq: l.next})
	return l.parts[len(l.parts)-1]
}

// drop takes away the oldest line, and the chunk that it was the last of. It
// returns how much memory that gives back.
func (l *joblog) drop() (freed int64) {
	c := l.parts[0]
	_, _, rest := record(c.buf[l.head:])
	at := len(c.buf) - len(rest)
	l.size -= at - l.head
	l.head = at
	l.first++
	l.owed++
	if l.first < c.seq+uint64(c.lines) { //nolint:gosec // a count
		return 0
	}
	l.settle()
	return l.shift()
}

// shift forgets the first chunk, of which no line is kept.
func (l *joblog) shift() (freed int64) {
	freed = int64(cap(l.parts[0].buf))
	l.parts[0] = nil // append moves the others to a new array in time
	l.parts = l.parts[1:]
	l.head = 0
	return freed
}

// settle tells lost what it does not know of.
func (l *joblog) settle() {
	if l.owed > 0 {
		l.lost(l.owed)
		l.owed = 0
	}
}

// give drops the oldest chunk, for others' lines. It returns how much memory that
// gave back; 0 when there is nothing to drop.
func (l *joblog) give() (freed int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.parts) == 0 {
		return 0
	}
	c := l.parts[0]
	end := c.seq + uint64(c.lines) //nolint:gosec // a count
	l.size -= len(c.buf) - l.head
	l.owed += int(end - l.first) //nolint:gosec // lines of one chunk
	l.first = end
	l.settle()
	freed = l.shift()
	l.held.Add(-freed)
	return freed
}

// empty forgets all lines: not as lost ones, for their job goes with them. It
// returns how much memory that gives back.
func (l *joblog) empty() (freed int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.parts) > 0 {
		freed += l.shift()
	}
	l.held.Add(-freed)
	return freed
}
