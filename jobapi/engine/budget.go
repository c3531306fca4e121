package engine

import (
	"cmp"
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
	logs []*joblog // the oldest job first
}

// Used returns how many bytes the logs hold now.
func (b *LogBudget) Used() int64 { return b.used.Load() }

func (b *LogBudget) limit() int64 { return cmp.Or(b.Bytes, DefaultLogBytes) }

// find returns where in logs l is, or would be. Ids of jobs order by time.
func (b *LogBudget) find(l *joblog) (int, bool) {
	return slices.BinarySearchFunc(b.logs, l, func(x, y *joblog) int { return strings.Compare(x.id, y.id) })
}

// forget takes back what l holds: not as lost lines, for its job is not kept any
// longer.
func (b *LogBudget) forget(l *joblog) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if at, ok := b.find(l); ok {
		b.logs = slices.Delete(b.logs, at, at+1)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.parts = nil
	b.used.Add(-l.held.Swap(0))
}

// keep drops lines while all logs together hold too much.
func (b *LogBudget) keep() {
	if b.used.Load() <= b.limit() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.used.Load() > b.limit() {
		l := b.victim()
		if l == nil {
			return
		}
		b.used.Add(-l.give())
	}
}

// victim returns the log that loses lines next, or nil.
func (b *LogBudget) victim() (largest *joblog) {
	most := int64(0)
	for _, l := range b.logs {
		held := l.held.Load()
		if held > 0 && l.ended.Load() {
			return l
		}
		if held > most {
			largest, most = l, held
		}
	}
	return largest
}
