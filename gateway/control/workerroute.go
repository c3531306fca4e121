package control

import (
	"context"
	"net/http"

	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/jobs"
)

// call is what a worker's request says beside its body: who makes it and, of a report,
// on which lease.
type call struct {
	queue.Caller
	job   jobs.ID
	lease string
}

// noJob is the answer to a lease call when there is no job. One that was turned away did
// not wait: without a pause it would come back at once.
type noJob struct{ turnedAway bool }

// workerRoute returns the handler of a route of workers, whose requests have a Body of
// at most limit bytes. Parse checks a body and does not know the caller; do makes the
// answer: a wire type, JSON as it is to be sent, or a noJob.
//
// A request that is not in order is refused only after its token was found good, so that
// strangers learn nothing from what is said of it; one that is costs no call of Redis
// here, because the script that does the work checks the token.
func workerRoute[Body, Parsed any](c *Control, limit int64, parse func(*Body) (Parsed, error), do func(context.Context, call, Parsed) (any, error)) httpd.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if err := c.hasKind(r); err != nil {
			return err
		}
		var (
			body   Body
			parsed Parsed
			from   call
		)
		caller, release, err := c.read(w, r, limit, &body, func() (err error) {
			worker, lease, reports := namesOf(&body, string(plainKind(kindOf(r))))
			from.Claimed = claimed(r, worker)
			if reports {
				if from.job, err = parseID(r.PathValue("id")); err != nil {
					return err
				}
			}
			if parsed, err = parse(&body); err != nil || !reports {
				return err
			}
			from.lease, err = leaseOf(r, lease)
			return err
		})
		if err != nil {
			return err
		}
		defer release()
		from.TokenHash, from.Kind = caller.TokenHash, plainKind(kindOf(r))
		answer, err := do(r.Context(), from, parsed)
		if err != nil {
			return err
		}
		return writeResponse(w, answer)
	}
}

// namesOf returns what a body says of its worker and of its lease, and whether it is a
// report on a lease; a batch of reports is none. It sets the body's Kind to that of the path.
func namesOf(body any, kind string) (worker, lease string, reports bool) {
	switch b := body.(type) {
	case *wire.LeaseRequest:
		b.Kind = kind
		return b.WorkerID, "", false
	case *wire.HeartbeatsRequest:
		b.Kind = kind
		return b.WorkerID, "", false
	case *wire.ResultsRequest:
		b.Kind = kind
		return b.WorkerID, "", false
	case *wire.HeartbeatRequest:
		b.Kind = kind
		return b.WorkerID, b.LeaseID, true
	case *wire.ResultRequest:
		b.Kind = kind
		return b.WorkerID, b.LeaseID, true
	case *wire.FailedRequest:
		b.Kind = kind
		return b.WorkerID, b.LeaseID, true
	}
	panic("no body of a worker")
}

// read reads a worker's request into body and has check look at it. A small body needs
// no place among the large ones; the place of another is held until release.
func (c *Control) read(w http.ResponseWriter, r *http.Request, limit int64, dst any, check func() error) (caller queue.Caller, release func(), err error) {
	release = func() {}
	token, err := httpd.Bearer(r)
	if err != nil {
		return caller, release, err
	}
	ctx := r.Context()
	caller.TokenHash = queue.HashToken(token)
	owner := "" // of the token, once that was asked
	authorize := func() (err error) {
		if owner == "" {
			owner, err = c.Queue.Authorize(ctx, caller)
		}
		return err
	}
	var gated *body
	if limit > uncheckedBytes && (r.ContentLength < 0 || r.ContentLength > uncheckedBytes) {
		gated = &body{ReadCloser: r.Body, left: uncheckedBytes, size: limit, conn: http.NewResponseController(w), authorize: func() error {
			if err := authorize(); err != nil {
				return err
			}
			// Nothing else ends the wait: net/http sees that a caller has gone only
			// once its body is read.
			wait, cancel := c.deadline(ctx)
			defer cancel()
			release, err = c.large.take(wait, owner, gated.size)
			return err
		}}
		if r.ContentLength > uncheckedBytes {
			gated.left, gated.size = 0, min(limit, r.ContentLength)
		}
		r.Body = gated
	}
	err = httpd.ReadJSON(w, r, limit, dst, httpd.BodyOptions{AllowEmpty: true, IgnoreUnknown: true})
	if gated != nil && gated.err != nil {
		return caller, release, gated.err
	}
	if err == nil {
		err = check()
	}
	if err != nil || limit <= wire.MaxSmallBody {
		release()
		release = func() {}
	}
	if err != nil {
		if denied := authorize(); denied != nil {
			return caller, release, denied
		}
	}
	return caller, release, err
}

// claimed returns who a request says it is from, in its body or its query. When
// both do and differ, it is an id that no worker has.
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
	headers := r.Header.Values(wire.HeaderLeaseID)
	id := inBody
	for _, h := range headers {
		if id != "" && h != id {
			return "", missing("lease_id") // there is not one that counts
		}
		id = h
	}
	return id, checkLease(id)
}
