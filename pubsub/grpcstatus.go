package pubsub

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apiv1 "cloud.google.com/go/pubsub/v2/apiv1"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
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

// failures returns why a subscription with exactly-once delivery did not settle leases, by ack id.
func failures(err error) map[string]string {
	reasons := map[string]string{}
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			maps.Copy(reasons, info.GetMetadata())
		}
	}
	return reasons
}

// permanentFailures returns the ack ids that are no longer valid, as a subscription
// with exactly-once delivery reports them: their leases are lost.
func permanentFailures(err error) map[string]error {
	lost := map[string]error{}
	for id, reason := range failures(err) {
		if strings.HasPrefix(reason, "PERMANENT_FAILURE") {
			lost[id] = errors.New(reason)
		}
	}
	return lost
}

// translate adds what was done and whether it needs a person or only a retry. It needs a
// person, too, after one of the codes in refused.
func translate(what string, err error, refused ...codes.Code) error {
	kind := jobs.ErrUnavailable
	if isRefused(err) || slices.Contains(refused, status.Code(err)) {
		kind = worker.ErrRefused
	}
	return fmt.Errorf("%s: %w: %w", what, kind, shorten(err))
}

// isRefused reports whether a call would fail again.
func isRefused(err error) bool {
	return slices.Contains([]codes.Code{codes.NotFound, codes.PermissionDenied, codes.Unauthenticated, codes.InvalidArgument}, status.Code(err))
}

// lookAt returns a subscription: nil if this account may pull from it but not look.
func lookAt(ctx context.Context, client *apiv1.SubscriptionAdminClient, name string) (*pubsubpb.Subscription, error) {
	sub, err := client.GetSubscription(ctx, &pubsubpb.GetSubscriptionRequest{Subscription: name})
	if status.Code(err) == codes.PermissionDenied {
		return nil, nil //nolint:nilnil // the subscriber role allows no more
	}
	if err != nil {
		return nil, translate("look at subscription "+name, err)
	}
	return sub, nil
}
