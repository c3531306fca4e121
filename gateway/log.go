package gateway

import (
	"context"

	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/redact"
)

const (
	// maxWaitingLines is how many lines of a job wait for a heartbeat; of more the newest do.
	maxWaitingLines = 300
	// maxLogBytes is the size of the lines in one heartbeat: in JSON, where a byte may become six, they
	// still fit into its body.
	maxLogBytes = 32 << 10
)

// waitingLines are the lines of a lease that are not known to be in the job's log. They go with the heartbeats, and
// are lost with the process. The zero value is empty.
type waitingLines struct {
	received int // from the worker's loop
	done     int // known to be in the log

	sent    []string      // in a heartbeat whose answer has not come, or was lost
	sending chan struct{} // while one is under way; closed at its end

	leftOut int // lines before rest
	rest    []string
}

// add takes the lines of a report. Those that came with an earlier one are passed over.
func (w *waitingLines) add(lines jobs.Lines) {
	known := min(max(0, w.received-lines.Before), len(lines.Text))
	w.received = max(w.received, lines.Before+len(lines.Text))
	for _, line := range lines.Text[known:] {
		w.addOne(line)
	}
}

func (w *waitingLines) addOne(line string) {
	if len(line) > wire.MaxLogLine { // a part of a secret would not be recognized as one
		line = jobs.Clip(redact.Text(line), wire.MaxLogLine, " … (line cut)")
	}
	w.rest = append(w.rest, line)
	for len(w.rest) > maxWaitingLines {
		w.leftOut += jobs.LinesIn(w.rest[0])
		w.rest = w.rest[1:]
	}
}

func (w *waitingLines) empty() bool { return len(w.sent)+len(w.rest) == 0 }

// take returns the lines for a heartbeat, nil if there are none or another heartbeat carries them just now. After a
// heartbeat that has failed it returns the same lines again. The caller calls settled, unless it got nil.
func (w *waitingLines) take() *wire.Log {
	if w.sending != nil {
		return nil
	}
	if len(w.sent) == 0 {
		if w.leftOut > 0 {
			w.sent, w.leftOut = append(w.sent, jobs.LeftOut(w.leftOut)), 0
		}
		bytes, n := 0, 0
		for n < len(w.rest) && len(w.sent)+n < wire.MaxLogLines && bytes+len(w.rest[n]) <= maxLogBytes {
			bytes += len(w.rest[n])
			n++
		}
		w.sent, w.rest = append(w.sent, w.rest[:n]...), w.rest[n:]
	}
	if len(w.sent) == 0 {
		return nil
	}
	w.sending = make(chan struct{})
	return &wire.Log{Before: w.done, Lines: w.sent}
}

// settled notes that a heartbeat with the lines of take has been answered, or has failed.
func (w *waitingLines) settled(answered bool) {
	close(w.sending)
	w.sending = nil
	if answered {
		w.done += len(w.sent)
		w.sent = nil
	}
}

// sendLines sends the lines of a lease that is about to end. What does not arrive is lost.
func (a *Agent) sendLines(ctx context.Context, h *heldLease) {
	for {
		a.mu.Lock()
		empty, sending := h.lines.empty(), h.lines.sending
		a.mu.Unlock()
		switch {
		case sending != nil:
			select {
			case <-sending:
			case <-ctx.Done():
				return
			}
		case empty || a.heartbeat(ctx, h) != nil:
			return
		}
	}
}

// fewLines reports whether all lines of a lease that are not known to be in the log can go with its result.
func (a *Agent) fewLines(h *heldLease) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if h.lines.sending != nil || len(h.lines.sent)+len(h.lines.rest) >= wire.MaxLogLines {
		return false
	}
	bytes := 0
	for _, lines := range [][]string{h.lines.sent, h.lines.rest} {
		for _, line := range lines {
			bytes += len(line)
		}
	}
	return bytes <= maxLogBytes
}

// takeLines is waitingLines.take of a lease.
func (a *Agent) takeLines(h *heldLease) *wire.Log {
	a.mu.Lock()
	defer a.mu.Unlock()
	return h.lines.take()
}

// linesSettled is waitingLines.settled of a lease, unless take has returned nil.
func (a *Agent) linesSettled(h *heldLease, taken *wire.Log, arrived bool) {
	if taken == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	h.lines.settled(arrived)
}

// log adds a line to the log of a job. The gateway makes that of kind zpe from what it knows.
func (a *Agent) log(h *heldLease, line string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if h.Kind != "" {
		h.lines.addOne(jobs.LogLine(line, false))
	}
}
