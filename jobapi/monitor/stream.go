package monitor

import (
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobapi/access"
)

// everyScope is the label of streams over all scopes in the metrics of listeners.
const everyScope = "all"

// errSlow ends the stream of a listener that takes nothing in.
var errSlow = errors.New("too slow to follow jobs")

// Follow implements [jobapi.Watch].
func (m *Monitor) Follow(w http.ResponseWriter, r *http.Request, q jobapi.EventQuery) error {
	m.init()
	leave, err := m.server.Listen(everyScope)
	if err != nil {
		return err
	}
	defer leave()
	if !jobapi.BeginEvents(w, r) {
		return nil
	}
	m.want(1, afterStream)
	defer m.want(-1, afterStream)
	st := &stream{monitor: m, w: w, conn: http.NewResponseController(w), query: q}
	if ids := r.Header.Values("Last-Event-Id"); len(ids) == 1 {
		st.at = parsePlace(ids[0])
	}
	if err := st.follow(r); errors.Is(err, errSlow) {
		m.server.Dropped(everyScope)
	}
	return nil // whatever it was, the caller comes back with the id of the last event
}

// stream writes changes to one caller.
type stream struct {
	monitor *Monitor
	w       http.ResponseWriter
	conn    *http.ResponseController
	query   jobapi.EventQuery
	at      place // behind what was sent
}

// follow sends what changes until the caller leaves or the server stops.
func (st *stream) follow(r *http.Request) error {
	beat, check := time.NewTicker(jobapi.Heartbeat), time.NewTicker(jobapi.Recheck)
	defer beat.Stop()
	defer check.Stop()
	if st.monitor.ring.knows(st.at) { // it may be quiet for long: what was asked for has begun
		if err := st.write([]byte(":\n\n")); err != nil {
			return err
		}
	}
	for {
		more, err := st.send()
		if err != nil {
			return err
		}
		wait := time.After(pace)
		for wait != nil || more != nil {
			ready := more
			if wait != nil {
				ready = nil // not so soon
			}
			select {
			case <-wait:
				wait = nil
			case <-ready:
				more = nil
			case <-beat.C:
				if err := st.write([]byte(":\n\n")); err != nil {
					return err
				}
			case <-check.C:
				if err := st.monitor.server.Guard.Check(r, access.Read); err != nil { // a token that was revoked, or has expired
					return err
				}
			case <-httpd.Stopping(r.Context()):
				return nil
			case <-r.Context().Done():
				return nil
			}
		}
	}
}

// send sends the changes since the last call, and returns what tells of more.
func (st *stream) send() (more <-chan struct{}, err error) {
	from := st.at
	changes, next, lost, more := st.monitor.ring.since(from)
	st.at = next
	if lost {
		return more, st.write([]byte("id: " + next.String() + "\nevent: reset\ndata: \n\n"))
	}
	if len(changes) == 0 {
		return more, nil
	}
	text := st.monitor.texts.of(textKey{st.query, from, next}, func() []byte { return encode(changes, st.query, next) })
	if len(text) == 0 {
		return more, nil
	}
	return more, st.write(text)
}

// write writes and flushes. A deadline that passes ends a stream of HTTP/2 even if nothing is written: it is removed again.
func (st *stream) write(text []byte) error {
	until := time.Now().Add(jobapi.WriteTimeout)
	_ = st.conn.SetWriteDeadline(until) // a server that cannot do this has its own deadlines
	_, err := st.w.Write(text)
	if err == nil {
		err = st.conn.Flush()
	}
	_ = st.conn.SetWriteDeadline(time.Time{})
	if err != nil && !time.Now().Before(until) { // the error of HTTP/2 does not tell
		return errSlow
	}
	return err
}

// encode returns the events of changes for a query: each job once, as it was last, and at most one reset, before them.
// All have the same id, since a stream that is cut between them must get them all again: that of where it goes on comes last.
func encode(changes []change, q jobapi.EventQuery, next place) []byte {
	first := 0
	wanted, newest := map[string]bool{}, map[string]int{}
	reset := false
	for i, c := range changes {
		switch {
		case q.Scope != "" && c.scope != q.Scope:
		case c.lost:
			reset, first = true, i
		case wants(q, c):
			wanted[c.scope+"/"+c.id] = true
		}
		if !c.lost {
			newest[c.scope+"/"+c.id] = i
		}
	}
	var texts [][]byte
	if reset {
		texts = append(texts, changes[first].text)
	}
	for i, c := range changes {
		if key := c.scope + "/" + c.id; wanted[key] && newest[key] == i {
			texts = append(texts, c.text)
		}
	}
	var text []byte
	for i, t := range texts {
		if i == len(texts)-1 {
			text = append(append(append(text, "id: "...), next.String()...), '\n')
		}
		text = append(text, t...)
	}
	return text
}

// wants reports whether a change is one that was asked for: of a job that has the status, or may have had it before.
func wants(q jobapi.EventQuery, c change) bool {
	return (q.Kind == "" || c.kind == q.Kind) && (q.Status == 0 || c.now == q.Status || c.was.has(q.Status))
}

// textKey names the events that are sent to all streams of a query which are at the same place.
type textKey struct {
	query      jobapi.EventQuery
	from, next place
}

// texts keeps what is sent to several streams, so that it is encoded once. The zero value is ready.
type texts struct {
	mu   sync.Mutex
	next place
	all  map[textKey][]byte
}

// maxTexts bounds how many are kept.
const maxTexts = 256

func (t *texts) of(key textKey, encode func() []byte) []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.next != key.next || len(t.all) >= maxTexts {
		t.next, t.all = key.next, map[textKey][]byte{}
	}
	text, ok := t.all[key]
	if !ok {
		text = encode()
		t.all[key] = text
	}
	return text
}
