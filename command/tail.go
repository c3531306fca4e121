package command

import "strings"

const (
	headBytes = 1 << 10
	tailBytes = 3<<10 - len(omitted)
	omitted   = "\n[...]\n"
)

// stderrTail keeps the beginning and the end of what is written to it. A Go
// program reports why it crashed first, other programs report it last. It is not
// for concurrent use.
type stderrTail struct {
	head    []byte
	tail    []byte // the last tailBytes after head, and up to as much before them
	skipped bool   // bytes between head and tail were dropped
}

func (t *stderrTail) Write(p []byte) (int, error) {
	n := len(p)
	fit := min(n, headBytes-len(t.head))
	t.head, p = append(t.head, p[:fit]...), p[fit:]
	if len(p) > tailBytes {
		p, t.tail, t.skipped = p[len(p)-tailBytes:], t.tail[:0], true
	}
	t.tail = append(t.tail, p...)
	if len(t.tail) > 2*tailBytes { // so that bytes are moved rarely
		t.tail, t.skipped = append(t.tail[:0], t.tail[len(t.tail)-tailBytes:]...), true
	}
	return n, nil
}

func (t *stderrTail) String() string {
	tail, between := t.tail, ""
	if len(tail) > tailBytes {
		tail, t.skipped = tail[len(tail)-tailBytes:], true
	}
	if t.skipped {
		between = omitted
	}
	// A broken byte is replaced by nothing, so the text does not grow.
	return strings.ToValidUTF8(string(t.head)+between+string(tail), "")
}
