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

// maxUnfinished bounds what requests that have begun to arrive may hold in
// memory, on all connections together. A request that is complete is answered
// and gone; one that is not can be kept so, and each may be as large as the
// largest publish.
const maxUnfinished = 256 << 20

// errUnfinished is why a connection or a request is given up whose unfinished
// requests hold more than its share.
var errUnfinished = errors.New("the server holds too much of requests that are not complete; try again")

// An allowance is shared by all connections. Its zero value is ready.
type allowance struct {
	mu      sync.Mutex
	used    int // bytes
	holders int // meters that hold any
}

// A meter is what one connection or one HTTP/1 request holds of an allowance.
// One goroutine at a time may use it.
type meter struct {
	from *allowance
	held int // bytes
}

// set says how much is held now. When all hold too much together, those that
// hold more than an equal part are told to give up: whoever fills the allowance
// must not keep the others out.
func (m *meter) set(held int) error {
	if held == m.held {
		return nil
	}
	a := m.from
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
	if grew && a.used > maxUnfinished && held >= a.used/a.holders {
		return errUnfinished
	}
	return nil
}

// A meteredBody is the body of an HTTP/1 request.
type meteredBody struct {
	io.ReadCloser
	meter *meter
}

// Read implements io.Reader.
func (b *meteredBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	// Twice, for what a growing buffer leaves behind.
	if over := b.meter.set(b.meter.held + 2*n); over != nil {
		return 0, over
	}
	return n, err
}

// A meteredConn is an HTTP/2 connection. It reads along with the gRPC server to
// know how much of incomplete messages that holds.
type meteredConn struct {
	net.Conn
	log    *slog.Logger
	meter  meter
	frames frameReader
}

func newMeteredConn(conn net.Conn, log *slog.Logger, from *allowance) *meteredConn {
	c := &meteredConn{Conn: conn, log: log, meter: meter{from: from}}
	c.frames.skip = len(http2.ClientPreface)
	return c
}

// Read implements net.Conn.
func (c *meteredConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.frames.read(p[:n])
	if over := c.meter.set(c.frames.held); over != nil {
		c.log.Warn("connection closed", "remote", c.RemoteAddr(), "held_bytes", c.frames.held, "err", over)
		n, err = 0, over
	}
	if err != nil { // gRPC closes the connection and reads no more
		_ = c.meter.set(0)
	}
	return n, err
}

// A frameReader follows what a client sends on one HTTP/2 connection.
type frameReader struct {
	skip    int // bytes of the preface still to come
	head    [9]byte
	begun   int // bytes of head
	left    int // bytes of the frame's payload still to come
	held    int // bytes of incomplete messages, on all streams
	partial map[uint32]*partial
	spare   *partial // for the next stream: most messages come whole, one after the other
}

// partialBytes is about what it costs to know of one incomplete message. It
// counts too: a client may begin any number of them that the server has refused.
const partialBytes = 128

// A partial is an incomplete message on one stream.
type partial struct {
	head  [5]byte // gRPC's: a flag and the length
	begun int     // bytes of head
	left  int     // bytes of the message still to come
	held  int     // and partialBytes
	// opaque streams have padded frames, which no gRPC client sends: all they
	// hold counts until they end.
	opaque bool
	// refused messages are longer than the server takes, and not kept.
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

// endFrame forgets a stream that the client has ended, one way or the other.
func (r *frameReader) endFrame() {
	switch kind := r.kind(); {
	case kind == http2.FrameRSTStream,
		(kind == http2.FrameData || kind == http2.FrameHeaders) && r.has(http2.FlagDataEndStream):
		if m := r.partial[r.stream()]; m != nil {
			r.held -= m.held
			delete(r.partial, r.stream())
		}
	}
}

// data takes bytes of a DATA frame.
func (r *frameReader) data(p []byte) {
	id := r.stream()
	m := r.partial[id]
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
		delete(r.partial, id)
		r.spare = m
	}
}

func (r *frameReader) begin(stream uint32) *partial {
	m := r.spare
	if m == nil {
		m = &partial{}
	}
	r.spare = nil
	*m = partial{held: partialBytes}
	r.held += m.held
	if r.partial == nil {
		r.partial = make(map[uint32]*partial)
	}
	r.partial[stream] = m
	return m
}

// take adds p to the message, and reports whether nothing incomplete is left.
// More messages may follow each other in p.
func (m *partial) take(p []byte) bool {
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
				m.refused, m.held = true, partialBytes
				return false
			}
			m.left = int(length)
		}
		n = min(m.left, len(p))
		m.left, m.held, p = m.left-n, m.held+n, p[n:]
		if m.left > 0 {
			return false
		}
		m.begun, m.held = 0, partialBytes
	}
}
