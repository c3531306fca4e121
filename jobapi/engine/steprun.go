package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/batchfleet/batchfleet/jobapi/redact"
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
	var added bool
	if strings.IndexByte(said, '\n') < 0 {
		added = r.job.log.add(r.step+1, cut(r.lines.Line(said), maxLine))
	} else {
		added = r.job.log.add(r.step+1, r.several(said)...)
	}
	if added {
		r.engine.changed.ring()
	}
}

// several returns the lines of a text without secrets: those that begin in a line
// of an earlier call, and those that only the whole shows.
func (r *stepRun) several(said string) []string {
	var b strings.Builder
	for line := range strings.Lines(said) {
		bare := strings.TrimSuffix(line, "\n")
		b.WriteString(r.lines.Line(bare))
		b.WriteString(line[len(bare):])
	}
	lines := strings.Split(redact.Text(b.String()), "\n")
	for i := range lines {
		lines[i] = cut(lines[i], maxLine)
	}
	return lines
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
		e.changed.ring()
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
