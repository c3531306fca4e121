package control

import (
	"io"
	"net/http"
	"time"

	"github.com/batchfleet/batchfleet/gateway"
	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/httpd"
)

// unproven is how much is read of the body of a worker whose token has not been
// checked yet: the script that does the work checks it, after the body.
const unproven = 64 << 10

// A large body of a worker may take longer than the server lets requests take:
// it must come at slowest bytes a second over all, the same that the worker's end
// has patience for, and never stand still for silence.
const (
	slowest = 32 << 10
	silence = 30 * time.Second
	answers = time.Minute // what is left then to store it and to answer
)

// body is a request's body that is read beyond unproven only after prove, and in
// its own time from then on.
type body struct {
	io.ReadCloser
	left  int
	prove func() error
	err   error // of prove
	size  int64 // that it may have
	conn  *http.ResponseController
	over  time.Time // when it must have come; zero before prove
}

func (b *body) Read(p []byte) (int, error) {
	if b.left == 0 && b.prove != nil {
		b.err = b.prove()
		b.prove = nil
		if b.err == nil {
			b.over = time.Now().Add(silence + time.Duration(b.size)*time.Second/slowest)
			_ = b.conn.SetWriteDeadline(b.over.Add(answers)) // a server that cannot do this has its own times
		}
	}
	if b.err != nil {
		return 0, b.err
	}
	if !b.over.IsZero() {
		until := time.Now().Add(silence)
		if b.over.Before(until) {
			until = b.over
		}
		_ = b.conn.SetReadDeadline(until)
	}
	if b.prove != nil && len(p) > b.left {
		p = p[:b.left]
	}
	n, err := b.ReadCloser.Read(p)
	b.left = max(0, b.left-n)
	return n, err
}

// ask is a worker's request: whose it is, and what was read of it.
type ask struct {
	queue.Caller
	release func() // gives back the place of a large body; never nil
}

// read reads a worker's request into dst, one of the wire types, and has check
// look at it. A request that is not in order is refused only after its token
// was found good, so that strangers learn nothing from what is said of it; one
// that is costs no call of Redis here.
func (c *Control) read(w http.ResponseWriter, r *http.Request, limit int64, dst any, worker *string, check func() error) (ask, error) {
	a := ask{release: func() {}}
	token, err := httpd.Bearer(r)
	if err != nil {
		return a, err
	}
	ctx := r.Context()
	a.TokenHash = queue.HashToken(token)
	proven := "" // who the token belongs to, once that was asked
	prove := func() (err error) {
		if proven == "" {
			proven, err = c.authorize(ctx, a.Caller)
		}
		return err
	}
	var gated *body
	if limit > unproven && (r.ContentLength < 0 || r.ContentLength > unproven) {
		gated = &body{ReadCloser: r.Body, left: unproven, size: limit, conn: http.NewResponseController(w), prove: func() error {
			if err := prove(); err != nil {
				return err
			}
			// Nothing else ends the wait: net/http sees that a caller has gone only
			// once its body is read.
			wait, cancel := c.deadline(ctx)
			defer cancel()
			a.release, err = c.large.take(wait, proven, gated.size)
			return err
		}}
		if r.ContentLength > unproven {
			gated.left, gated.size = 0, min(limit, r.ContentLength)
		}
		r.Body = gated
	}
	err = httpd.ReadJSON(w, r, limit, dst, httpd.BodyOptions{AllowEmpty: true, IgnoreUnknown: true})
	if gated != nil && gated.err != nil {
		return a, gated.err
	}
	if err == nil {
		err = check()
	}
	if err != nil || limit <= gateway.MaxSmallBody { // read, a small one needs no place
		a.release()
		a.release = func() {}
	}
	if err != nil {
		if denied := prove(); denied != nil {
			return a, denied
		}
		return a, err
	}
	a.Claimed = claimed(r, *worker)
	return a, nil
}

// claimed returns who a request says it is from, in its body or its query. When
// both do and differ, the answer is nobody's id.
func claimed(r *http.Request, worker string) string {
	if r.URL.RawQuery == "" {
		return worker
	}
	for _, v := range r.URL.Query()["worker_id"] {
		if worker != "" && v != worker {
			return worker + " and " + v
		}
		worker = v
	}
	return worker
}

// leaseOf returns the lease id of a report, from its body or its header.
func leaseOf(r *http.Request, inBody string) (string, error) {
	headers := r.Header.Values(gateway.HeaderLeaseID)
	id := inBody
	for _, h := range headers {
		if id != "" && h != id {
			return "", missing("lease_id") // there is not one that counts
		}
		id = h
	}
	return id, checkLease(id)
}

// isWord reports whether s is made of letters, digits, '.', '_' and '-', at
// most 64 of them.
func isWord(s string) bool {
	if s == "" || len(s) > 64 {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}
