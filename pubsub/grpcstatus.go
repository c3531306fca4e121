package pubsub

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/worker"
)

// isDeadline reports whether a call ran out of time: a status from gRPC is not
// the context's own error.
func isDeadline(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || status.Code(err) == codes.DeadlineExceeded
}

// permanentFailures returns the ack ids that are no longer valid, as a subscription
// with exactly-once delivery reports them: their leases are lost.
func permanentFailures(err error) map[string]error {
	lost := map[string]error{}
	for _, d := range status.Convert(unwrapStatus(err)).Details() {
		info, ok := d.(*errdetails.ErrorInfo)
		if !ok {
			continue
		}
		for id, reason := range info.GetMetadata() {
			if strings.HasPrefix(reason, "PERMANENT_FAILURE") {
				lost[id] = errors.New(reason)
			}
		}
	}
	return lost
}

// unwrapStatus finds the gRPC status inside the client library's own error.
func unwrapStatus(err error) error {
	if e := (interface {
		error
		GRPCStatus() *status.Status
	})(nil); errors.As(err, &e) {
		return e.GRPCStatus().Err()
	}
	return err
}

// translate adds what was done and whether it needs a person or only a retry.
func translate(what string, err error) error {
	switch status.Code(unwrapStatus(err)) {
	case codes.NotFound, codes.PermissionDenied, codes.Unauthenticated, codes.InvalidArgument:
		return fmt.Errorf("%s: %w: %w", what, worker.ErrRefused, err)
	default:
		return fmt.Errorf("%s: %w: %w", what, jobs.ErrUnavailable, err)
	}
}
