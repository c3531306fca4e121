package trace

import (
	"encoding/hex"
	"math/rand/v2"
)

// ID names a trace: all that was done for one job. It is not all zeros.
type ID [16]byte

// SpanID names a span in its trace. It is not all zeros.
type SpanID [8]byte

// String returns 32 lower-case hexadecimal digits.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// String returns 16 lower-case hexadecimal digits.
func (id SpanID) String() string { return hex.EncodeToString(id[:]) }

// Context names a span. The zero value names none.
type Context struct {
	Trace   ID
	Span    SpanID
	Sampled bool // whether the spans of the trace are recorded
}

// The form of a traceparent, and the longest one that is read: a later version may have more.
const (
	length  = len("00-00000000000000000000000000000000-0000000000000000-00")
	longest = 128
)

// Valid reports whether the Context names a span.
func (c Context) Valid() bool { return c.Trace != ID{} && c.Span != SpanID{} }

// String returns the traceparent, 55 characters of version 00; empty for the zero value.
func (c Context) String() string {
	if !c.Valid() {
		return ""
	}
	text := make([]byte, 0, length)
	text = append(text, "00-"...)
	text = hex.AppendEncode(text, c.Trace[:])
	text = append(text, '-')
	text = hex.AppendEncode(text, c.Span[:])
	if c.Sampled {
		return string(append(text, "-01"...))
	}
	return string(append(text, "-00"...))
}

// Parse reads a traceparent of W3C Trace Context, of version 00 or a later one. Anything else is the
// zero Context: a trace that cannot be read is no reason to refuse a job.
func Parse(text string) Context {
	if len(text) < length || len(text) > longest || text[2] != '-' || text[35] != '-' || text[52] != '-' {
		return Context{}
	}
	var version, flags [1]byte
	var c Context
	for _, part := range []struct {
		into []byte
		text string
	}{{version[:], text[:2]}, {c.Trace[:], text[3:35]}, {c.Span[:], text[36:52]}, {flags[:], text[53:55]}} {
		if !decode(part.into, part.text) {
			return Context{}
		}
	}
	later := version[0] != 0
	if version[0] == 0xff || !later && len(text) > length || later && len(text) > length && text[length] != '-' || !c.Valid() {
		return Context{}
	}
	c.Sampled = flags[0]&1 != 0
	return c
}

// decode reads lower-case hexadecimal digits: others are not allowed.
func decode(into []byte, text string) bool {
	for i := range into {
		high, low := digit(text[2*i]), digit(text[2*i+1])
		if high > 15 || low > 15 {
			return false
		}
		into[i] = high<<4 | low
	}
	return true
}

func digit(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	}
	return 0xff
}

// IDOf returns the trace id of a traceparent, 32 digits; empty if it is none.
func IDOf(traceparent string) string {
	if c := Parse(traceparent); c.Valid() {
		return c.Trace.String()
	}
	return ""
}

// Known returns a traceparent as this version writes it; empty if it is none.
func Known(traceparent string) string { return Parse(traceparent).String() }

func newID() (id ID) {
	for id == (ID{}) {
		fill(id[:])
	}
	return id
}

func newSpanID() (id SpanID) {
	for id == (SpanID{}) {
		fill(id[:])
	}
	return id
}

// fill takes random bytes. They are no secrets.
func fill(b []byte) {
	for i := 0; i < len(b); i += 8 {
		n := rand.Uint64() //nolint:gosec // no secret
		for j := range 8 {
			b[i+j] = byte(n >> (8 * j)) //nolint:gosec // one byte of it
		}
	}
}
