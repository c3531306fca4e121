package command

import "strings"

const (
	headBytes = 1 << 10
	tailBytes = 3<<10 - len(omitted)
	omitted   = "\n[...]\n"
)

// lastWords keeps the beginning and the end of what is written to it: a Go
// program says first why it crashed, others say it last. It is not for
// concurrent use.
type lastWords struct {
	head []byte
	tail []byte // the last tailBytes after head, and up to as much before them
	lost bool   // tail is not all that followed head
}

func (w *lastWords) Write(p []byte) (int, error) {
	n := len(p)
	fit := min(n, headBytes-len(w.head))
	w.head, p = append(w.head, p[:fit]...), p[fit:]
	if len(p) > tailBytes {
		p, w.tail, w.lost = p[len(p)-tailBytes:], w.tail[:0], true
	}
	w.tail = append(w.tail, p...)
	if len(w.tail) > 2*tailBytes { // so that bytes are moved seldom
		w.tail, w.lost = append(w.tail[:0], w.tail[len(w.tail)-tailBytes:]...), true
	}
	return n, nil
}

func (w *lastWords) String() string {
	tail, between := w.tail, ""
	if len(tail) > tailBytes {
		tail, w.lost = tail[len(tail)-tailBytes:], true
	}
	if w.lost {
		between = omitted
	}
	// The replacement of a broken byte is empty, so nothing grows.
	return strings.ToValidUTF8(string(w.head)+between+string(tail), "")
}
