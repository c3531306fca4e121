package emulator

import (
	"cmp"
	"context"
	"sync"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"
)

// subscriber is google.pubsub.v1.Subscriber.
type subscriber struct {
	broker *broker
	// receivers are the goroutines that read from open streams.
	receivers *sync.WaitGroup
}

func (s subscriber) CreateSubscription(_ context.Context, req *pubsubpb.Subscription) (*pubsubpb.Subscription, error) {
	if err := setSubscriptionDefaults(req); err != nil {
		return nil, err
	}
	return req, s.broker.createSubscription(req)
}

// setSubscriptionDefaults checks the subscription of a create request and sets its
// output fields and defaults.
func setSubscriptionDefaults(pb *pubsubpb.Subscription) error {
	if err := cmp.Or(checkName(pb.GetName(), "subscriptions"), checkName(pb.GetTopic(), "topics"), subscriptionFields.refuse(pb)); err != nil {
		return err
	}
	pb.State = pubsubpb.Subscription_ACTIVE
	pb.Detached = false
	pb.TopicMessageRetentionDuration = nil
	pb.AnalyticsHubSubscriptionInfo = nil
	return completeSubscription(pb)
}

// completeSubscription checks the fields of a subscription and sets Google's
// defaults where they are empty.
func completeSubscription(pb *pubsubpb.Subscription) error {
	if pb.GetAckDeadlineSeconds() == 0 {
		pb.AckDeadlineSeconds = int32(defaultAckDeadline.Seconds())
	}
	if d := ackDeadline(pb); d < minAckDeadline || d > maxAckDeadline {
		return status.Errorf(codes.InvalidArgument, "invalid ack_deadline_seconds %d: want 10 to 600, or 0 for 10",
			pb.GetAckDeadlineSeconds())
	}
	setEmptyPushConfig(pb)
	if pb.MessageRetentionDuration == nil {
		pb.MessageRetentionDuration = durationpb.New(defaultRetention)
	}
	if err := pb.MessageRetentionDuration.CheckValid(); err != nil {
		return status.Errorf(codes.InvalidArgument, "invalid message_retention_duration: %v", err)
	}
	if d := pb.MessageRetentionDuration.AsDuration(); d < minRetention || d > maxRetention {
		return status.Errorf(codes.InvalidArgument, "invalid message_retention_duration %v: want %v to %v", d, minRetention, maxRetention)
	}
	return cmp.Or(
		completeDeadLetterPolicy(pb.DeadLetterPolicy),
		completeRetryPolicy(pb.RetryPolicy),
		completeExpirationPolicy(pb),
		checkLabels(pb.GetLabels()),
	)
}

// setEmptyPushConfig sets an empty push configuration, which means pull: Google's
// subscriptions have one.
func setEmptyPushConfig(pb *pubsubpb.Subscription) {
	if pb.PushConfig == nil {
		pb.PushConfig = new(pubsubpb.PushConfig)
	}
}

// completeRetryPolicy checks a retry policy and sets its defaults.
func completeRetryPolicy(p *pubsubpb.RetryPolicy) error {
	if p == nil {
		return nil
	}
	if p.MinimumBackoff == nil {
		p.MinimumBackoff = durationpb.New(defaultMinBackoff)
	}
	if p.MaximumBackoff == nil {
		p.MaximumBackoff = durationpb.New(maxBackoff)
	}
	for name, d := range map[string]*durationpb.Duration{"minimum_backoff": p.MinimumBackoff, "maximum_backoff": p.MaximumBackoff} {
		if err := d.CheckValid(); err != nil || d.AsDuration() < 0 || d.AsDuration() > maxBackoff {
			return status.Errorf(codes.InvalidArgument, "invalid retry_policy.%s %v: want 0s to %v", name, d.AsDuration(), maxBackoff)
		}
	}
	if p.MinimumBackoff.AsDuration() > p.MaximumBackoff.AsDuration() {
		return status.Errorf(codes.InvalidArgument, "invalid retry_policy: minimum_backoff %v is longer than maximum_backoff %v",
			p.MinimumBackoff.AsDuration(), p.MaximumBackoff.AsDuration())
	}
	return nil
}

// completeExpirationPolicy checks an expiration policy; without one a subscription
// expires after a month without use.
func completeExpirationPolicy(pb *pubsubpb.Subscription) error {
	if pb.ExpirationPolicy == nil {
		pb.ExpirationPolicy = &pubsubpb.ExpirationPolicy{Ttl: durationpb.New(defaultTTL)}
	}
	ttl := pb.ExpirationPolicy.GetTtl()
	if ttl == nil {
		return nil // never expires
	}
	if err := ttl.CheckValid(); err != nil || ttl.AsDuration() < minTTL {
		return status.Errorf(codes.InvalidArgument, "invalid expiration_policy.ttl %v: want at least %v, or none to keep the subscription", ttl.AsDuration(), minTTL)
	}
	if ttl.AsDuration() < pb.GetMessageRetentionDuration().AsDuration() {
		return status.Errorf(codes.InvalidArgument, "invalid expiration_policy.ttl %v: it is shorter than message_retention_duration %v",
			ttl.AsDuration(), pb.GetMessageRetentionDuration().AsDuration())
	}
	return nil
}

func (s subscriber) GetSubscription(_ context.Context, req *pubsubpb.GetSubscriptionRequest) (*pubsubpb.Subscription, error) {
	sub, err := s.broker.subscriptionFor(req.GetSubscription())
	return sub.pb, err
}

func (s subscriber) UpdateSubscription(_ context.Context, req *pubsubpb.UpdateSubscriptionRequest) (*pubsubpb.Subscription, error) {
	if err := checkName(req.GetSubscription().GetName(), "subscriptions"); err != nil {
		return nil, err
	}
	paths, err := subscriptionFields.maskPaths(req.GetUpdateMask(), req.GetSubscription())
	if err != nil {
		return nil, err
	}
	from := req.GetSubscription()
	return s.broker.updateSubscription(from.GetName(), func(pb *pubsubpb.Subscription) error {
		copyFields(pb, from, paths)
		return completeSubscription(pb)
	})
}

func (s subscriber) ListSubscriptions(_ context.Context, req *pubsubpb.ListSubscriptionsRequest) (*pubsubpb.ListSubscriptionsResponse, error) {
	all := valuesOf(&s.broker.mu, s.broker.subs, func(sub *subscription) *pubsubpb.Subscription { return sub.pb })
	part, next, err := pageOf(req.GetProject(), all, (*pubsubpb.Subscription).GetName, req)
	return &pubsubpb.ListSubscriptionsResponse{Subscriptions: part, NextPageToken: next}, err
}

func (s subscriber) DeleteSubscription(_ context.Context, req *pubsubpb.DeleteSubscriptionRequest) (*emptypb.Empty, error) {
	return &emptypb.Empty{}, s.broker.deleteSubscription(req.GetSubscription())
}

// ModifyPushConfig accepts an empty configuration, which means pull.
func (s subscriber) ModifyPushConfig(_ context.Context, req *pubsubpb.ModifyPushConfigRequest) (*emptypb.Empty, error) {
	if _, err := s.broker.subscriptionFor(req.GetSubscription()); err != nil {
		return nil, err
	}
	return &emptypb.Empty{}, subscriptionFields.refuse(&pubsubpb.Subscription{PushConfig: req.GetPushConfig()})
}
