package jobapi

import (
	"net/http"
	"time"
)

const (
	// writeTimeout bounds one write. A caller that reads nothing for so long has left,
	// or is too slow.
	writeTimeout = 10 * time.Second
	// eventBytes is about how much of a log one event holds: callers read events whole.
	eventBytes = 64 << 10
)

// stream writes events. Only head is made for each listener; the data of an event are
// shared.
type stream struct {
	w    http.ResponseWriter
	conn *http.ResponseController
	head []byte

	version, pos string // the version and log position it has seen: the next event's id
	logs         bool
	next         int  // the number of the line to send next
	resumed, gap bool // it came with a Last-Event-ID; lines after that are no longer kept by the hub
	ended        bool // all was sent

	until time.Time // the deadline of the current write; zero while there is none
}

// resume sets where a stream begins: at m, or where the caller was.
func (st *stream) resume(lastEventID []string, m *snapshot) {
	st.next = m.tail()
	st.version, st.pos, st.resumed = parseEventID(lastEventID)
	if st.logs && st.pos == "" && len(m.lines) == 0 {
		st.pos = LogStart // the log is empty now
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

// over reports whether the receiver has seen all of m, and nothing will follow.
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

// event writes an event, whose data have no line ends. An event without data gets an
// empty data field: browsers ignore an event that has none.
func (st *stream) event(name string, data ...[]byte) error {
	st.begin()
	st.head = st.head[:0]
	for _, part := range [...]string{"id: ", st.version, "-", st.pos, "\nevent: ", name, "\ndata: "} {
		st.head = append(st.head, part...)
	}
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

// begin sets the deadline of the next write.
func (st *stream) begin() {
	st.until = time.Now().Add(writeTimeout)
	_ = st.conn.SetWriteDeadline(st.until) // a server that cannot do this has its own deadlines
}

// flush sends what was written and removes the deadline: over HTTP/2 a deadline that
// passes ends the stream even if nothing is being written.
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

// late returns errSlow for the error of a write after its deadline. The error of
// HTTP/2 does not tell.
func (st *stream) late(err error) error {
	if err != nil && !st.until.IsZero() && !time.Now().Before(st.until) {
		return errSlow
	}
	return err
}
