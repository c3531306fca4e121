package emulator

import (
	"slices"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
)

// startExact is start with a subscription that delivers exactly once.
func startExact(t *testing.T) (s *Server, addr string) {
	t.Helper()
	s, addr = start(t)
	_, subs := clients(t, addr)
	_, err := subs.UpdateSubscription(soon(t), &pubsubpb.UpdateSubscriptionRequest{
		Subscription: &pubsubpb.Subscription{Name: testSub, EnableExactlyOnceDelivery: true},
		UpdateMask:   &fieldmaskpb.FieldMask{Paths: []string{"enable_exactly_once_delivery"}},
	})
	must(t, err)
	return s, addr
}

func TestE03ExactlyOnceTellsThatAnAckCameTooLate(t *testing.T) {
	_, addr := startExact(t)
	topics, subs := clients(t, addr)
	publishOne(t, topics, "a")
	old := pullOne(t, subs).GetAckId()
	nack := &pubsubpb.ModifyAckDeadlineRequest{Subscription: testSub, AckIds: []string{old}}
	must(t, subs.ModifyAckDeadline(soon(t), nack))
	current := pullOne(t, subs).GetAckId()

	wantStale := func(err error) {
		t.Helper()
		wantCode(t, err, codes.FailedPrecondition)
		details := status.Convert(err).Details()
		if len(details) != 1 {
			t.Fatalf("error %v has %d details, want 1", err, len(details))
		}
		info, _ := details[0].(*errdetails.ErrorInfo)
		if len(info.GetMetadata()) != 1 || info.GetMetadata()[old] != "PERMANENT_FAILURE_INVALID_ACK_ID" {
			t.Errorf("detail %v, want only the stale id to have failed", info)
		}
	}
	extend := &pubsubpb.ModifyAckDeadlineRequest{Subscription: testSub, AckIds: []string{old, current}, AckDeadlineSeconds: 60}
	wantStale(subs.ModifyAckDeadline(soon(t), extend))
	ack := &pubsubpb.AcknowledgeRequest{Subscription: testSub, AckIds: []string{current, old}}
	wantStale(subs.Acknowledge(soon(t), ack))

	sub, err := subs.GetSubscription(soon(t), &pubsubpb.GetSubscriptionRequest{Subscription: testSub})
	must(t, err)
	if !sub.GetEnableExactlyOnceDelivery() {
		t.Error("the subscription does not say that it delivers exactly once")
	}
}

func TestE03StreamConfirmsAcksWhenDeliveredExactlyOnce(t *testing.T) {
	_, addr := startExact(t)
	topics, _ := clients(t, addr)
	publishOne(t, topics, "a")
	call, err := pubsubpb.NewSubscriberClient(dial(t, addr)).StreamingPull(soon(t))
	must(t, err)
	must(t, call.Send(&pubsubpb.StreamingPullRequest{Subscription: testSub, StreamAckDeadlineSeconds: 10}))
	resp, err := call.Recv()
	must(t, err)
	if !resp.GetSubscriptionProperties().GetExactlyOnceDeliveryEnabled() || resp.GetSubscriptionProperties().GetMessageOrderingEnabled() {
		t.Errorf("properties %v", resp.GetSubscriptionProperties())
	}
	id := resp.GetReceivedMessages()[0].GetAckId()

	must(t, call.Send(&pubsubpb.StreamingPullRequest{ModifyDeadlineAckIds: []string{id}, ModifyDeadlineSeconds: []int32{30}}))
	resp, err = call.Recv()
	must(t, err)
	if got := resp.GetModifyAckDeadlineConfirmation(); !slices.Equal(got.GetAckIds(), []string{id}) || len(got.GetInvalidAckIds()) != 0 {
		t.Errorf("extension confirmed as %v", got)
	}
	must(t, call.Send(&pubsubpb.StreamingPullRequest{AckIds: []string{id}}))
	resp, err = call.Recv()
	must(t, err)
	if got := resp.GetAcknowledgeConfirmation(); !slices.Equal(got.GetAckIds(), []string{id}) || len(got.GetInvalidAckIds()) != 0 {
		t.Errorf("ack confirmed as %v", got)
	}
	must(t, call.Send(&pubsubpb.StreamingPullRequest{AckIds: []string{id}}))
	resp, err = call.Recv()
	must(t, err)
	if got := resp.GetAcknowledgeConfirmation(); !slices.Equal(got.GetInvalidAckIds(), []string{id}) || len(got.GetAckIds()) != 0 {
		t.Errorf("second ack confirmed as %v", got)
	}
}

func TestE04UpdateMaskChangesPartsOfAPolicy(t *testing.T) {
	_, addr := start(t)
	_, subs := clients(t, addr)
	policy := func(shortest, longest time.Duration) *pubsubpb.RetryPolicy {
		return &pubsubpb.RetryPolicy{MinimumBackoff: durationpb.New(shortest), MaximumBackoff: durationpb.New(longest)}
	}
	update := func(p *pubsubpb.RetryPolicy, path string) *pubsubpb.RetryPolicy {
		t.Helper()
		sub, err := subs.UpdateSubscription(soon(t), &pubsubpb.UpdateSubscriptionRequest{
			Subscription: &pubsubpb.Subscription{Name: testSub, RetryPolicy: p},
			UpdateMask:   &fieldmaskpb.FieldMask{Paths: []string{path}},
		})
		must(t, err)
		return sub.GetRetryPolicy()
	}
	update(policy(time.Second, time.Minute), "retry_policy")
	got := update(policy(9*time.Second, 9*time.Second), "retry_policy.maximum_backoff")
	if got.GetMinimumBackoff().AsDuration() != time.Second || got.GetMaximumBackoff().AsDuration() != 9*time.Second {
		t.Errorf("after the update of a part the policy is %v", got)
	}
	if got := update(nil, "retry_policy"); got != nil {
		t.Errorf("a cleared policy is %v", got)
	}
}
