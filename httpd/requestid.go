package httpd

import (
	"context"
	"net/http"

	"github.com/oklog/ulid/v2"

	"github.com/batchfleet/batchfleet/jobs"
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

func requestID(r *http.Request) string {
	if ids := r.Header.Values("X-Request-Id"); len(ids) == 1 && requestIDPattern().MatchString(ids[0]) {
		return ids[0]
	}
	return ulid.Make().String()
}
