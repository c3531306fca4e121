package jobapi

import (
	"net/http"
	"time"
)

const (
	// writeTimeout is how long one write may take. A caller that takes in nothing
	// for so long has gone, or might as well have.
	writeTimeout = 10 * time.Second
	// eventBytes is about how much of a log one event holds: callers read events whole.
	eventBytes = 64 << 10
)

// stream writes events. Only its head differs between those who follow a job; the
// data of an event are shared.
type stream struct {
	w    http.ResponseWriter
	conn *http.ResponseController
	head []byte

	version, pos string // what the receiver has seen: the id of the next event
	logs         bool
	next         int  // the number of the line that it is to get next
	resumed, gap bool // it said what it has seen; its next line is none that the hub remembers
	ended        bool // all was sent

	until time.Time // when what is being written must have left; zero while nothing is
}

// resume begins where a caller was, at m.
func (st *stream) resume(lastEventID []string, m *snapshot) {
	st.next = m.tail()
	st.version, st.pos, st.resumed = parseEventID(lastEventID)
	if st.logs && st.pos == "" && len(m.lines) == 0 {
		st.pos = LogStart // it will have seen all of a log that is empty now
	}
	if !st.logs || st.pos == "" || len(m.lines) == 0 {
		return
	}
	next, ok := m.after(st.pos)
	if ok {
		st.next = next
	}
	st.gap = !ok
}

// over reports whether m has nothing that the receiver has not seen, and nothing
// will come.
func (st *stream) over(m *snapshot) bool {
	return m.ended() && st.version == m.version() && (!st.logs || m.whole && st.next == m.end())
}

// send sends what is new in m.
func (st *stream) send(m *snapshot) error {
	if m.job != nil && m.version() != st.version {
		st.version = m.version()
		if err := st.event("job", m.data); err != nil {
			return err
		}
	}
	if st.logs && m.end() > st.next {
		if st.next < m.first {
			return errSlow
		}
		if err := st.lines(m.lines[st.next-m.first:]); err != nil {
			return err
		}
		st.next = m.end()
	}
	if m.job == nil || st.over(m) {
		st.ended = true
		if err := st.event("end"); err != nil {
			return err
		}
	}
	return st.flush()
}

// lines sends lines of the log, in as many events as they need.
func (st *stream) lines(lines []logLine) error {
	for len(lines) > 0 {
		data := [][]byte{[]byte(`{"lines":[`)}
		size, n := 0, 0
		for n < len(lines) && (n == 0 || size+len(lines[n].data) <= eventBytes) {
			if n > 0 {
				data = append(data, []byte(","))
			}
			data = append(data, lines[n].data)
			size += len(lines[n].data)
			n++
		}
		st.pos = lines[n-1].pos
		if err := st.event("log", append(data, []byte("]}"))...); err != nil {
			return err
		}
		lines = lines[n:]
	}
	return nil
}

// event writes an event, whose data have no line ends. One without data has an
// empty data field: browsers pass over an event that has none.
func (st *stream) event(name string, data ...[]byte) error {
	st.begin()
	st.head = append(st.head[:0], "id: "...)
	st.head = append(st.head, st.version...)
	st.head = append(st.head, '-')
	st.head = append(st.head, st.pos...)
	st.head = append(st.head, "\nevent: "...)
	st.head = append(st.head, name...)
	st.head = append(st.head, "\ndata: "...)
	if err := st.write(st.head); err != nil {
		return err
	}
	for _, part := range data {
		if err := st.write(part); err != nil {
			return err
		}
	}
	return st.write([]byte("\n\n"))
}

// comment keeps the connection open.
func (st *stream) comment() error {
	st.begin()
	if err := st.write([]byte(":\n\n")); err != nil {
		return err
	}
	return st.flush()
}

// begin gives what is written next its time.
func (st *stream) begin() {
	st.until = time.Now().Add(writeTimeout)
	_ = st.conn.SetWriteDeadline(st.until) // a server that cannot do this has its own times
}

// flush sends what was written, and takes the deadline back: over HTTP/2 one that
// passes ends the stream, also while nothing is written.
func (st *stream) flush() error {
	err := st.late(st.conn.Flush())
	_ = st.conn.SetWriteDeadline(time.Time{})
	st.until = time.Time{}
	return err
}

func (st *stream) write(p []byte) error {
	_, err := st.w.Write(p)
	return st.late(err)
}

// late returns errSlow for the error of a write whose time was over. HTTP/2 does not
// say that it was for this.
func (st *stream) late(err error) error {
	if err != nil && !st.until.IsZero() && !time.Now().Before(st.until) {
		return errSlow
	}
	return err
}
