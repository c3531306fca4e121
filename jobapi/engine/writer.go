package engine

import (
	"bytes"
	"fmt"
	"io"
	"sync"
)

// maxHeld is how much of a line a writer holds. The log cuts lines long before.
const maxHeld = 1 << 20

// LogWriter returns a writer to the log of a running step. Part of a line is held
// until its end comes, or Close. Its methods may be called concurrently, and fail
// only after Close.
func LogWriter(r Run) io.WriteCloser { return &logWriter{run: r} }

type logWriter struct {
	run    Run
	mu     sync.Mutex
	held   []byte
	closed bool
}

func (w *logWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return 0, fmt.Errorf("write to log: %w", io.ErrClosedPipe)
	}
	n := len(p)
	if end := bytes.LastIndexByte(p, '\n'); end >= 0 {
		w.run.Logf("%s", append(w.held, p[:end+1]...))
		w.held = w.held[:0]
		p = p[end+1:]
	}
	w.hold(p)
	return n, nil
}

// hold keeps p, but for what is too much of a line.
func (w *logWriter) hold(p []byte) {
	w.held = append(w.held, p[:min(len(p), max(0, maxHeld-len(w.held)))]...)
}

func (w *logWriter) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.held) > 0 && !w.closed {
		w.run.Logf("%s", w.held)
	}
	w.held, w.closed = nil, true
	return nil
}
