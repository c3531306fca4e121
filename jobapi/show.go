package jobapi

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/httpd"
)

// maxWait is the longest ?wait=, in seconds.
const maxWait = 60

// show answers with a job, at once or when it has changed.
func (c *scope) show(w http.ResponseWriter, r *http.Request) error {
	id, p, err := target(r, "wait")
	if err != nil {
		return err
	}
	wait, err := p.number("wait", maxWait, 0)
	if err != nil {
		return err
	}
	known := strings.Join(r.Header.Values("If-None-Match"), ",")
	if wait == 0 {
		job, err := c.get(r.Context(), id)
		if err != nil {
			return err
		}
		data, err := job.MarshalJSON()
		if err != nil {
			return err
		}
		answerJob(w, known, job.Version, data)
		return nil
	}
	m, err := c.wait(r, id, time.Duration(wait)*time.Second, func(m *snapshot) bool {
		return m.ended() || known != "" && !matches(known, m.version())
	})
	if err != nil {
		return err
	}
	answerJob(w, known, m.version(), m.data)
	return nil
}

func (c *scope) get(ctx context.Context, id string) (*Job, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	found, err := c.Jobs.Get(ctx, []string{id})
	if err != nil {
		return nil, ofJob(err)
	}
	if len(found) == 0 {
		return nil, errNoJob
	}
	return &found[0], nil
}

// wait returns a job as soon as good is true of it, after d at the latest, or when the
// server stops or the caller leaves. The error is a [Refusal] when there is no such
// job.
func (c *scope) wait(r *http.Request, id string, d time.Duration, good func(*snapshot) bool) (*snapshot, error) {
	l, err := c.hub.listen(id, false)
	if err != nil {
		return nil, err
	}
	defer l.leave()
	ctx, cancel := context.WithTimeoutCause(r.Context(), d, errUnavailable)
	defer cancel()
	m, err := l.begin(ctx)
	for err == nil && m.job != nil && !good(m) {
		select {
		case <-m.next:
			m = l.now()
			continue
		case <-httpd.Stopping(ctx):
		case <-ctx.Done():
		}
		break
	}
	if err == nil && m.job == nil {
		err = errNoJob
	}
	return m, err
}

// answerJob answers with a job, or with 304 if known, an If-None-Match, has its
// version.
func answerJob(w http.ResponseWriter, known, version string, data []byte) {
	w.Header().Set("ETag", `"`+version+`"`)
	if matches(known, version) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	body := make([]byte, 0, len(data)+1)
	httpd.WriteJSON(w, http.StatusOK, append(append(body, data...), '\n'))
}

// matches reports whether an If-None-Match names a version, RFC 9110, 13.1.2. An
// invalid tag ends the list.
func matches(list, version string) bool {
	for {
		list = strings.TrimLeft(list, " \t,")
		if strings.HasPrefix(list, "*") {
			return true
		}
		list = strings.TrimPrefix(list, "W/")
		if list == "" || list[0] != '"' {
			return false
		}
		tag, rest, ok := strings.Cut(list[1:], `"`)
		if !ok {
			return false
		}
		if tag == version {
			return true
		}
		list = rest
	}
}
