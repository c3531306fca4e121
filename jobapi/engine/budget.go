package engine

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// DefaultLogBytes is the limit of a [LogBudget] that has none.
const DefaultLogBytes = 256 << 20

// LogBudget bounds the memory of all logs of the engines that share it. Above it
// logs of ended jobs lose their oldest lines first, the oldest job first, and then
// the largest log. The zero value is ready.
type LogBudget struct {
	Bytes int64 // 0 for DefaultLogBytes; each log that is written to may take 64 KiB beyond it

	used atomic.Int64
	mu   sync.Mutex
	live map[*joblog]struct{}
	done []*joblog // of ended jobs that still hold lines, the oldest job first
}

// Used returns how many bytes the logs hold now.
func (b *LogBudget) Used() int64 { return b.used.Load() }

func (b *LogBudget) limit() int64 {
	if b.Bytes > 0 {
		return b.Bytes
	}
	return DefaultLogBytes
}

func (b *LogBudget) add(l *joblog) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.live == nil {
		b.live = map[*joblog]struct{}{}
	}
	b.live[l] = struct{}{}
}

// ended notes that the job of l has ended.
func (b *LogBudget) ended(l *joblog) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.live, l)
	at, _ := b.find(l)
	b.done = slices.Insert(b.done, at, l)
}

// forget takes back what l holds: its job is not kept any longer.
func (b *LogBudget) forget(l *joblog) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.live, l)
	if at, ok := b.find(l); ok {
		b.done = slices.Delete(b.done, at, at+1)
	}
	b.used.Add(-l.empty())
}

// find returns where in done l is, or would be. Ids of jobs order by time.
func (b *LogBudget) find(l *joblog) (int, bool) {
	return slices.BinarySearchFunc(b.done, l, func(x, y *joblog) int { return strings.Compare(x.id, y.id) })
}

// grow notes that a log holds more memory, or less, and drops lines when all
// logs together hold too much.
func (b *LogBudget) grow(n int64) {
	if b.used.Add(n) <= b.limit() || n <= 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.used.Load() > b.limit() {
		l := b.victim()
		if l == nil {
			return
		}
		freed := l.give()
		b.used.Add(-freed)
		if freed == 0 && len(b.done) > 0 && b.done[0] == l {
			b.done = slices.Delete(b.done, 0, 1)
		} else if freed == 0 {
			return // it was the largest, and is empty by now
		}
	}
}

// victim returns the log that loses lines next, or nil.
func (b *LogBudget) victim() (largest *joblog) {
	if len(b.done) > 0 {
		return b.done[0]
	}
	most := int64(0)
	for l := range b.live {
		if held := l.held.Load(); held > most {
			largest, most = l, held
		}
	}
	return largest
}
