package httpd

import (
	"context"
	"net/http"

	"github.com/oklog/ulid/v2"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/trace"
)

var requestIDPattern = jobs.Form(`^[A-Za-z0-9._-]{1,64}$`)

type requestIDKey struct{}

// RequestID returns the id of the request whose context this is: the caller's
// X-Request-Id if it has the form [A-Za-z0-9._-]{1,64}, a fresh ULID otherwise.
// It is empty outside of an [API].
func RequestID(ctx context.Context) string {
	id, _ := ctx.Value(requestIDKey{}).(string)
	return id
}

// HeaderTraceparent names the span of a request, as W3C Trace Context has it.
const HeaderTraceparent = "Traceparent"

// traced returns the context of a request, below the span that the caller names. What is not valid is ignored.
func traced(r *http.Request) context.Context {
	if all := r.Header[HeaderTraceparent]; len(all) == 1 {
		return trace.With(r.Context(), all[0])
	}
	return r.Context()
}

func requestID(r *http.Request) string {
	if ids := r.Header.Values("X-Request-Id"); len(ids) == 1 && requestIDPattern().MatchString(ids[0]) {
		return ids[0]
	}
	return ulid.Make().String()
}
