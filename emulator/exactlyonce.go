package emulator

import (
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// On a subscription that delivers exactly once a consumer learns whether its
// ack or extension came in time: from the error of a unary call, or from a
// confirmation on the stream. Clients compare these strings.
const (
	staleReason  = "PERMANENT_FAILURE_INVALID_ACK_ID"
	earlyReason  = "TRANSIENT_FAILURE_UNORDERED_ACK_ID"
	staleMessage = "Some acknowledgement ids in the request were invalid. This could be because the acknowledgement ids have expired or the acknowledgement ids were malformed."
)

// properties returns the properties of the subscription that a stream sends.
func (q *queue) properties() *pubsubpb.StreamingPullResponse_SubscriptionProperties {
	q.mu.Lock()
	defer q.mu.Unlock()
	return &pubsubpb.StreamingPullResponse_SubscriptionProperties{
		ExactlyOnceDeliveryEnabled: q.exact,
		MessageOrderingEnabled:     q.ordered,
	}
}

// isExact reports whether the subscription delivers exactly once.
func (q *queue) isExact() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.exact
}

// settleError returns the error for those of ids, given by their indexes, that
// came too late or before their turn; nil if there are none, or if delivery is not
// exactly once.
func (q *queue) settleError(ids []string, stale, early []int) error {
	if len(stale)+len(early) == 0 || !q.isExact() {
		return nil
	}
	info := &errdetails.ErrorInfo{
		Reason:   "EXACTLY_ONCE_ACKID_FAILURE",
		Domain:   "pubsub.googleapis.com",
		Metadata: make(map[string]string, len(stale)+len(early)),
	}
	for _, i := range stale {
		info.Metadata[ids[i]] = staleReason
	}
	for _, i := range early {
		info.Metadata[ids[i]] = earlyReason
	}
	st, err := status.New(codes.FailedPrecondition, staleMessage).WithDetails(info)
	if err != nil {
		return status.Errorf(codes.Internal, "detail stale ack ids: %v", err)
	}
	return st.Err()
}

// split separates ids into those of the given indexes, which rise, and the others.
func split(ids []string, places []int) (others, those []string) {
	for i, id := range ids {
		if len(places) > 0 && places[0] == i {
			those = append(those, id)
			places = places[1:]
		} else {
			others = append(others, id)
		}
	}
	return others, those
}
