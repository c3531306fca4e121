package engine

import (
	"slices"
	"strconv"
	"time"

	"github.com/batchfleet/batchfleet/jobapi"
)

// A view is a log as it was at one moment.
type view struct {
	parts       []chunk
	head        int
	first, next uint64
	began       time.Time
}

// view returns the log as it is now. It copies no line.
func (l *joblog) view() view {
	l.mu.Lock()
	defer l.mu.Unlock()
	v := view{parts: make([]chunk, len(l.parts)), head: l.head, first: l.first, next: l.next, began: l.began}
	for i, c := range l.parts {
		v.parts[i] = *c
	}
	return v
}

// read returns the lines that q asks for.
func (l *joblog) read(q jobapi.LogQuery) (jobapi.Log, error) {
	v := l.view()
	from, to := v.first, v.next
	if !q.Since.IsZero() {
		from = v.since(q.Since.Sub(v.began).Truncate(time.Microsecond))
	}
	tail := uint64(max(0, q.Tail)) //nolint:gosec // not negative
	if q.After != "" {
		after, err := strconv.ParseUint(q.After, 10, 63)
		if err != nil {
			return jobapi.Log{}, &jobapi.FieldError{Field: "after", Problem: "it is not the place of a line"}
		}
		from = max(from, after+1)
		to = min(to, from+tail)
	} else if to > tail {
		from = max(from, to-tail)
	}
	return jobapi.Log{Lines: v.lines(from, to), Dropped: int(v.first - 1)}, nil //nolint:gosec // a count
}

// since returns the position of the first line that is not older than at.
func (v *view) since(at time.Duration) uint64 {
	i, _ := slices.BinarySearchFunc(v.parts, at, func(c chunk, at time.Duration) int {
		if c.last < at {
			return -1
		}
		return 1
	})
	if i == len(v.parts) {
		return v.next
	}
	seq, when := v.parts[i].seq, v.parts[i].base
	for b := v.parts[i].buf; len(b) > 0; seq++ {
		since, _, rest := record(b)
		if when += since; when >= at {
			break
		}
		b = rest
	}
	return max(v.first, seq)
}

// lines returns the lines from one position up to, and without, another.
func (v *view) lines(from, to uint64) []jobapi.Line {
	if from >= to {
		return nil
	}
	lines := make([]jobapi.Line, 0, to-from)
	for _, c := range v.parts {
		if c.seq+uint64(c.lines) <= from || c.seq >= to { //nolint:gosec // a count
			continue
		}
		seq, when := c.seq, c.base
		for b := c.buf; len(b) > 0 && seq < to; seq++ {
			since, text, rest := record(b)
			when += since
			b = rest
			if seq >= from {
				lines = append(lines, jobapi.Line{Pos: strconv.FormatUint(seq, 10), Time: v.began.Add(when), Text: string(text)})
			}
		}
	}
	return lines
}
