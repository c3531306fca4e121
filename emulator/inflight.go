package emulator

import (
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"

	"golang.org/x/net/http2"
)

// maxInflight bounds the memory of requests that are still arriving, on all
// connections together. A complete request is answered and freed; a client may
// leave one incomplete for as long as it likes, and each may be as large as the
// largest publish.
const maxInflight = 256 << 20

// errInflight is why a connection or a request is ended that holds more than its
// share of maxInflight.
var errInflight = errors.New("the server holds too much of requests that are not complete; try again")

// inflightBytes is what all connections hold of incomplete requests. Its zero
// value is ready.
type inflightBytes struct {
	mu      sync.Mutex
	used    int // bytes
	holders int // shares that are not 0
}

// An inflightShare is what one connection or one HTTP/1 request holds of the
// total. One goroutine at a time may use it.
type inflightShare struct {
	total *inflightBytes
	held  int // bytes
}

// set sets how much is held now. When the total is too large, it returns an error
// to those that hold more than an equal part: one client must not keep the others
// out.
func (m *inflightShare) set(held int) error {
	if held == m.held {
		return nil
	}
	a := m.total
	a.mu.Lock()
	defer a.mu.Unlock()
	if m.held > 0 {
		a.holders--
	}
	if held > 0 {
		a.holders++
	}
	a.used += held - m.held
	grew := held > m.held
	m.held = held
	if grew && a.used > maxInflight && held >= a.used/a.holders {
		return errInflight
	}
	return nil
}

// A countedBody is the body of an HTTP/1 request.
type countedBody struct {
	io.ReadCloser
	share *inflightShare
}

// Read implements io.Reader.
func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	// Twice: a growing buffer is copied.
	if over := b.share.set(b.share.held + 2*n); over != nil {
		return 0, over
	}
	return n, err
}

// A countedConn is an HTTP/2 connection. It follows the frames that the gRPC
// server reads, and counts how much of incomplete messages that holds.
type countedConn struct {
	net.Conn
	log    *slog.Logger
	share  inflightShare
	frames frameReader
}

func newCountedConn(conn net.Conn, log *slog.Logger, from *inflightBytes) *countedConn {
	c := &countedConn{Conn: conn, log: log, share: inflightShare{total: from}}
	c.frames.skip = len(http2.ClientPreface)
	return c
}

// Read implements net.Conn.
func (c *countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.frames.read(p[:n])
	if over := c.share.set(c.frames.held); over != nil {
		c.log.Warn("connection closed", "remote", c.RemoteAddr(), "held_bytes", c.frames.held, "err", over)
		n, err = 0, over
	}
	if err != nil { // gRPC closes the connection and reads no more
		_ = c.share.set(0)
	}
	return n, err
}

// A frameReader follows what a client sends on one HTTP/2 connection.
type frameReader struct {
	skip       int // bytes of the preface still to come
	head       [9]byte
	begun      int // bytes of head
	left       int // bytes of the frame's payload still to come
	held       int // bytes of incomplete messages, on all streams
	incomplete map[uint32]*incompleteMessage
	spare      *incompleteMessage // for the next stream: most messages come whole, one after the other
}

// incompleteMessageBytes is about the memory of one incompleteMessage. It counts
// too: a client may begin any number of messages that the server has refused.
const incompleteMessageBytes = 128

// An incompleteMessage is the message that is arriving on one stream.
type incompleteMessage struct {
	head  [5]byte // gRPC's: a flag and the length
	begun int     // bytes of head
	left  int     // bytes of the message still to come
	held  int     // and incompleteMessageBytes
	// opaque streams have padded frames, which no gRPC client sends: all they
	// hold counts until they end.
	opaque bool
	// refused messages are longer than the limit; gRPC does not store them.
	refused bool
}

// read takes the next bytes of the connection.
func (r *frameReader) read(p []byte) {
	n := min(r.skip, len(p))
	r.skip, p = r.skip-n, p[n:]
	for len(p) > 0 {
		if r.begun < len(r.head) {
			n := copy(r.head[r.begun:], p)
			r.begun, p = r.begun+n, p[n:]
			if r.begun < len(r.head) {
				return
			}
			r.left = int(r.head[0])<<16 | int(r.head[1])<<8 | int(r.head[2])
		}
		n := min(r.left, len(p))
		if r.kind() == http2.FrameData {
			r.data(p[:n])
		}
		r.left, p = r.left-n, p[n:]
		if r.left == 0 {
			r.endFrame()
			r.begun = 0
		}
	}
}

func (r *frameReader) kind() http2.FrameType  { return http2.FrameType(r.head[3]) }
func (r *frameReader) has(f http2.Flags) bool { return http2.Flags(r.head[4]).Has(f) }
func (r *frameReader) stream() uint32         { return binary.BigEndian.Uint32(r.head[5:]) &^ (1 << 31) }

// endFrame removes the message of a stream that the client has ended or reset.
func (r *frameReader) endFrame() {
	switch kind := r.kind(); {
	case kind == http2.FrameRSTStream,
		(kind == http2.FrameData || kind == http2.FrameHeaders) && r.has(http2.FlagDataEndStream):
		if m := r.incomplete[r.stream()]; m != nil {
			r.held -= m.held
			delete(r.incomplete, r.stream())
		}
	}
}

// data takes bytes of a DATA frame.
func (r *frameReader) data(p []byte) {
	id := r.stream()
	m := r.incomplete[id]
	if m == nil {
		if len(p) == 0 {
			return
		}
		m = r.begin(id)
	}
	m.opaque = m.opaque || r.has(http2.FlagDataPadded)
	before := m.held
	complete := m.take(p)
	r.held += m.held - before
	if complete {
		r.held -= m.held
		delete(r.incomplete, id)
		r.spare = m
	}
}

func (r *frameReader) begin(stream uint32) *incompleteMessage {
	m := r.spare
	if m == nil {
		m = &incompleteMessage{}
	}
	r.spare = nil
	*m = incompleteMessage{held: incompleteMessageBytes}
	r.held += m.held
	if r.incomplete == nil {
		r.incomplete = make(map[uint32]*incompleteMessage)
	}
	r.incomplete[stream] = m
	return m
}

// take adds p to the message, and reports whether all messages in p are complete:
// several may follow each other.
func (m *incompleteMessage) take(p []byte) bool {
	switch {
	case m.refused:
		return false
	case m.opaque:
		m.held += len(p)
		return false
	}
	for {
		n := copy(m.head[m.begun:], p)
		m.begun, m.held, p = m.begun+n, m.held+n, p[n:]
		if m.begun < len(m.head) {
			return m.begun == 0
		}
		if n > 0 { // the head is complete just now
			length := binary.BigEndian.Uint32(m.head[1:])
			if length > maxRequestBytes {
				m.refused, m.held = true, incompleteMessageBytes
				return false
			}
			m.left = int(length)
		}
		n = min(m.left, len(p))
		m.left, m.held, p = m.left-n, m.held+n, p[n:]
		if m.left > 0 {
			return false
		}
		m.begun, m.held = 0, incompleteMessageBytes
	}
}
