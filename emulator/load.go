package emulator

import (
	"context"
	"runtime"
	"runtime/debug"
	"sync/atomic"
)

// A load is roughly how much memory the messages of all queues take.
type load struct {
	bytes, peak atomic.Int64  // peak: since it was last trimmed
	shrunk      chan struct{} // receives when most of a large load has been removed
}

func newLoad() *load { return &load{shrunk: make(chan struct{}, 1)} }

const (
	itemBytes = 300     // of a message, beside its body
	largeLoad = 4 << 20 // bytes; what is less is not worth a collection
)

func (l *load) add(m *message) {
	now := l.bytes.Add(int64(m.size + itemBytes))
	for peak := l.peak.Load(); now > peak && !l.peak.CompareAndSwap(peak, now); peak = l.peak.Load() {
	}
}

func (l *load) remove(m *message) {
	now := l.bytes.Add(-int64(m.size + itemBytes))
	if peak := l.peak.Load(); peak > largeLoad && (now == 0 || now < peak/20) {
		select {
		case l.shrunk <- struct{}{}:
		default:
		}
	}
}

// trim returns memory to the system whenever most of a large backlog has been
// removed, until ctx ends. The runtime of an idle server would keep it.
func (l *load) trim(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.shrunk:
		}
		l.peak.Store(l.bytes.Load())
		runtime.GC() // what is pooled goes only with the second
		debug.FreeOSMemory()
	}
}
