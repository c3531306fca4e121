package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	httpclient "github.com/batchfleet/batchfleet/httpd/client"
	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
)

// Event is a change of a job: the job as it is now, or new lines of its log, without
// Pos.
type Event struct {
	Job   *jobapi.Job
	Lines []jobapi.Line
}

const eventStream = "text/event-stream"

// errEnded ends a stream that is complete.
var errEnded = errors.New("the job has ended")

// Follow passes each change of a job to seen, and with logs the lines of its log,
// from the last 200 on, until the job has ended or ctx does. A stream that breaks
// off is continued where it was. An error of seen ends it, and is returned.
func (c *Client) Follow(ctx context.Context, scope, id string, logs bool, seen func(Event) error) error {
	f := &following{client: c, path: []string{scope, "jobs", id, "events"}, name: "job " + id}
	if logs {
		f.query = url.Values{"logs": {"true"}}
	}
	f.take = func(e sse) error { return take(e, id, seen) }
	return f.follow(ctx)
}

// follow reads one stream after the other until the last has ended, or ctx does.
func (f *following) follow(ctx context.Context) error {
	c := f.client
	pace := readRetry.Delays()
	lost := time.Now() // since when there was no answer
	for {
		f.received = false
		began := time.Now()
		err := f.listen(ctx)
		switch {
		case errors.Is(err, errEnded):
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !errors.Is(err, jobs.ErrUnavailable), isFinal(err):
			return fmt.Errorf("follow %s: %w", f.name, err)
		}
		if f.received {
			lost = time.Now()
		}
		if f.received && time.Since(began) > readRetry.Max {
			pace.Reset() // otherwise the server may close every stream at once
		}
		next := pace.Next()
		if refused, ok := errors.AsType[*jobapi.Refusal](err); ok {
			next = max(next, refused.RetryAfter)
		}
		if time.Since(lost)+next > c.retryFor {
			return fmt.Errorf("follow %s: %w", f.name, err)
		}
		if !f.received {
			c.retrying(err)
		}
		if err := jobs.Sleep(ctx, next); err != nil {
			return err
		}
	}
}

// following is a stream of events that is read, over several connections if necessary.
type following struct {
	client   *Client
	name     string // of what is followed
	path     []string
	query    url.Values
	take     func(sse) error
	last     string // id of the last event
	received bool   // this connection has brought something
}

// listen reads a stream until it ends. The error wraps [jobs.ErrUnavailable] when
// it was cut.
func (f *following) listen(ctx context.Context) error {
	c := f.client
	limited, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silent := fmt.Errorf("nothing was heard for %s", c.silence)
	alarm := time.AfterFunc(c.timeout, func() { cancel(fmt.Errorf("no answer within %s", c.timeout)) })
	defer alarm.Stop()

	r := &request{path: f.path, query: f.query, media: eventStream, header: http.Header{}}
	if f.last != "" {
		r.header.Set("Last-Event-ID", f.last)
	}
	call, err := c.request(r)
	if err != nil {
		return err
	}
	resp, err := c.http.Open(limited, call)
	if err != nil {
		return c.http.Unreachable(ctx, limited, call, err)
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	if resp.StatusCode != http.StatusOK || r.checkMedia(resp, nil) != nil {
		text, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
		if err != nil {
			return c.http.Unreachable(ctx, limited, call, err)
		}
		if resp.StatusCode == http.StatusNoContent {
			return errEnded
		}
		return c.hide(r.check(resp, text))
	}
	if !alarm.Stop() {
		return c.http.Unreachable(ctx, limited, call, silent)
	}
	alarm = time.AfterFunc(c.silence, func() { cancel(silent) })
	defer alarm.Stop()
	in := newSSE(&watched{resp.Body, func() { alarm.Reset(c.silence) }}, maxEvent)
	for {
		e, err := in.next()
		if err != nil {
			if errors.Is(err, errLongEvent) {
				return errBadResponse(err.Error())
			}
			return c.http.Unreachable(ctx, limited, call, err)
		}
		if err := f.take(e); err != nil {
			return err
		}
		f.last, f.received = e.id, true
	}
}

// take passes on an event of a job.
func take(e sse, id string, seen func(Event) error) error {
	switch e.name {
	case "end":
		return errEnded
	case "job":
		var j jobapi.Job
		if err := json.Unmarshal([]byte(e.data), &j); err != nil || j.ID != id {
			return errBadResponse("an event that is no job, beginning " + httpclient.Quote([]byte(e.data)))
		}
		return seen(Event{Job: &j})
	case "log":
		var l struct {
			Lines []struct {
				Time jobapi.Time `json:"time"`
				Text string      `json:"text"`
			} `json:"lines"`
		}
		if err := json.Unmarshal([]byte(e.data), &l); err != nil {
			return errBadResponse("an event that is no log, beginning " + httpclient.Quote([]byte(e.data)))
		}
		lines := make([]jobapi.Line, len(l.Lines))
		for i, line := range l.Lines {
			lines[i] = jobapi.Line{Time: line.Time.Time, Text: line.Text}
		}
		return seen(Event{Lines: lines})
	}
	return nil // a newer server's
}

// watched reports each read that returns data.
type watched struct {
	io.Reader
	received func()
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	if n > 0 {
		w.received()
	}
	return n, err
}

// sse is one server-sent event.
type sse struct{ name, data, id string }

// sseReader reads a stream of events as browsers do, except that it also returns
// events without data if they have a name.
type sseReader struct {
	in    *bufio.Reader
	limit int    // bytes of an event
	id    string // the last one; it stays until another comes
	begun bool
	cr    bool // the last line ended with a CR, to which an LF may belong
}

var errLongEvent = errors.New("an event is too long")

func newSSE(in io.Reader, limit int) *sseReader {
	return &sseReader{in: bufio.NewReaderSize(in, 32<<10), limit: limit}
}

// next returns the next event. An incomplete event at the end of the stream is
// dropped.
func (s *sseReader) next() (sse, error) {
	var e sse
	var data []byte
	for size := 0; ; {
		line, err := s.line(s.limit - size)
		if err != nil {
			return sse{}, err
		}
		size += len(line)
		if len(line) == 0 {
			if len(data) == 0 && e.name == "" {
				size = 0
				continue
			}
			e.data, e.id = strings.TrimSuffix(string(data), "\n"), s.id
			return e, nil
		}
		field, value, _ := strings.Cut(string(line), ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "event":
			e.name = value
		case "data":
			data = append(append(data, value...), '\n')
		case "id":
			// It goes back in a header.
			if len(value) <= maxEventID && !strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }) {
				s.id = value
			}
		}
	}
}

// maxEventID is the longest id of an event that is sent back, in bytes.
const maxEventID = 200

// line returns a line without its end, which may be LF, CR, or both.
func (s *sseReader) line(limit int) ([]byte, error) {
	var line []byte
	for {
		b, err := s.in.ReadByte()
		switch {
		case err != nil:
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF // a server ends with the event end
			}
			return nil, err
		case b == '\n' && s.cr:
			s.cr = false // the rest of the end of the line before
			continue
		}
		s.cr = b == '\r'
		if b == '\n' || b == '\r' {
			if !s.begun {
				s.begun, line = true, bytes.TrimPrefix(line, []byte("\uFEFF"))
			}
			return line, nil
		}
		if len(line) >= limit {
			return nil, errLongEvent
		}
		line = append(line, b)
	}
}
