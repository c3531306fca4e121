// Package testlog keeps what is logged, for tests that read it while others write.
package testlog

import (
	"bytes"
	"sync"
)

// Buffer is a log. Its zero value is empty; all may write to it and read it at once.
type Buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *Buffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// String returns all that was written so far.
func (l *Buffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
