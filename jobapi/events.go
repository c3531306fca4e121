package jobapi

import (
	"errors"
	"net/http"
	"time"

	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/jobapi/access"
	"github.com/batchfleet/batchfleet/jobs"
)

const (
	// recheck is how often a stream checks its token: with tokenCheck, a revoked
	// token ends it within 5 s.
	recheck = 3 * time.Second
	// heartbeat is how often a connection gets a comment, which keeps it open.
	heartbeat = 15 * time.Second
)

// errSlow ends the stream of a listener that reads nothing, or for which lines of the
// log are no longer kept.
var errSlow = errors.New("too slow to follow a job")

// events follows a job with server-sent events.
func (c *scope) events(w http.ResponseWriter, r *http.Request) error {
	id, p, err := target(r, "logs")
	if err != nil {
		return err
	}
	logs, _, err := p.truth("logs")
	if err != nil {
		return err
	}
	l, err := c.hub.listen(id, logs)
	if err != nil {
		return err
	}
	defer l.leave()
	m, err := l.begin(r.Context())
	if err != nil {
		return ofJob(err)
	}
	if m.job == nil {
		return errNoJob
	}
	st := &stream{w: w, conn: http.NewResponseController(w), logs: logs}
	st.resume(r.Header.Values("Last-Event-Id"), m)
	if st.resumed && !st.gap && st.over(m) {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	if !BeginEvents(w, r) {
		return nil
	}
	if st.gap {
		err = c.catchUp(r, st, id, m)
	}
	if err == nil {
		err = c.follow(r, st, l, m)
	}
	if errors.Is(err, errSlow) {
		c.server.Metrics.dropped.WithLabelValues(c.Name).Inc()
	}
	return nil // whatever it was, the caller reconnects with the id of the last event
}

// follow sends a stream what is new from m on, until all is sent, the caller leaves or
// the server stops.
func (c *scope) follow(r *http.Request, st *stream, l *listener, m *snapshot) error {
	ctx := r.Context()
	beat, check := time.NewTicker(heartbeat), time.NewTicker(recheck)
	defer beat.Stop()
	defer check.Stop()
	for {
		if err := st.send(m); err != nil || st.ended {
			return err
		}
		select {
		case <-m.next:
			m = l.now()
		case <-beat.C:
			if err := st.comment(); err != nil {
				return err
			}
		case <-check.C:
			if err := c.server.Guard.Check(r, access.Read); err != nil { // a token that was revoked, or has expired
				return err
			}
		case <-httpd.Stopping(ctx):
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// catchUp sends the lines between the last that the caller has seen and those that
// the hub keeps. It reads them itself: no other listener needs them.
func (c *scope) catchUp(r *http.Request, st *stream, id string, m *snapshot) error {
	for pages := 0; ; pages++ {
		l, err := c.hub.logOf(r.Context(), id, LogQuery{Tail: logPage, After: st.pos})
		if isUnavailable(err) || r.Context().Err() != nil {
			return err
		}
		if err != nil { // there is no such position, or no such job any more
			l = Log{}
		}
		lines, err := encodeLines(l.Lines)
		if err != nil {
			return err
		}
		if len(lines) == 0 || lines[len(lines)-1].pos == st.pos { // nothing to catch up with
			if pages > 0 { // what the hub keeps may be older than what was sent
				return errSlow
			}
			st.next = m.tail()
			return nil
		}
		for i, line := range lines {
			if i > 0 && line.pos != m.lines[0].pos { // it cannot be where they meet
				continue
			}
			if after, ok := m.after(line.pos); ok {
				st.next = after - 1
				return st.lines(lines[:i])
			}
		}
		if err := st.lines(lines); err != nil {
			return err
		}
	}
}

// eventID is the id of an event: the version of the job and the position in the log
// that its receiver has then seen.
var eventID = jobs.Form(`^([A-Za-z0-9]{1,32})-([0-9-]{0,40})$`)

// parseEventID reads a Last-Event-ID. One that is not ours counts as none.
func parseEventID(headers []string) (version, pos string, ok bool) {
	if len(headers) != 1 {
		return "", "", false
	}
	parts := eventID().FindStringSubmatch(headers[0])
	if parts == nil {
		return "", "", false
	}
	return parts[1], parts[2], true
}
