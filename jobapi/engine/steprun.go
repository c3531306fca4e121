package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/batchfleet/batchfleet/redact"
)

// maxResult is how long a result may be, in bytes.
const maxResult = 1 << 20

// A stepRun is the [Run] of one step.
type stepRun struct {
	engine *Engine
	job    *job
	step   int

	// Guarded by in, which puts the lines in order.
	in    sync.Mutex
	lines redact.Lines

	failed error // the last result was none; guarded by the engine's lock
}

// ID implements [Run].
func (r *stepRun) ID() string { return r.job.id }

// Logf implements [Run]. Several lines stay together. Without args the format is
// the text, whatever it holds.
func (r *stepRun) Logf(format string, args ...any) {
	if len(args) > 0 {
		format = fmt.Sprintf(format, args...)
	}
	said := strings.TrimSuffix(plain(format), "\n")
	r.in.Lock()
	defer r.in.Unlock()
	clean := r.lines.Text(said)
	var added bool
	if strings.IndexByte(clean, '\n') < 0 {
		added = r.job.log.add(r.step+1, cut(clean, maxLine)) // most are one line: no memory for a list
	} else {
		lines := strings.Split(clean, "\n")
		for i := range lines {
			lines[i] = cut(lines[i], maxLine)
		}
		added = r.job.log.add(r.step+1, lines...)
	}
	if added {
		r.engine.changes.Wake()
	}
}

// Message implements [Run].
func (r *stepRun) Message(s string) {
	s = text(s)
	e, j := r.engine, r.job
	e.lock()
	defer e.mu.Unlock()
	if j.runs(r.step) && j.steps[r.step].Message != s {
		j.steps[r.step].Message = s
		j.version++
		e.changes.Wake()
	}
}

// Result implements [Run]. A step fails at its end if its last result is no
// object, or too long. That of an earlier step counts until another sets one.
func (r *stepRun) Result(v any) {
	result, err := encodeResult(v)
	e, j := r.engine, r.job
	e.lock()
	defer e.mu.Unlock()
	if !j.runs(r.step) {
		return
	}
	if r.failed = err; err == nil {
		j.result = result
	}
}

func encodeResult(v any) (json.RawMessage, error) {
	encoded, err := json.Marshal(v)
	switch {
	case err != nil:
		return nil, fmt.Errorf("encode result: %w", err)
	case encoded[0] != '{':
		return nil, errors.New("encode result: it is no object")
	case len(encoded) > maxResult:
		return nil, fmt.Errorf("encode result: it is %d bytes long, at most %d are kept", len(encoded), maxResult)
	}
	return redact.JSON(encoded), nil
}
