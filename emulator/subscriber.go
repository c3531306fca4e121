package emulator

import (
	"context"
	"slices"
	"strings"
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

// setSubscriptionDefaults checks what a create request asks for and fills in
// what it leaves open.
func setSubscriptionDefaults(pb *pubsubpb.Subscription) error {
	if err := checkName(pb.GetName(), "subscriptions"); err != nil {
		return err
	}
	if err := checkName(pb.GetTopic(), "topics"); err != nil {
		return err
	}
	if err := subscriptionFields.refuse(pb); err != nil {
		return err
	}
	pb.State = pubsubpb.Subscription_ACTIVE
	pb.Detached = false
	pb.TopicMessageRetentionDuration = nil
	pb.AnalyticsHubSubscriptionInfo = nil
	return settleSubscription(pb)
}

// settleSubscription checks the numbers of a subscription and puts Google's
// defaults where there are none.
func settleSubscription(pb *pubsubpb.Subscription) error {
	if pb.GetAckDeadlineSeconds() == 0 {
		pb.AckDeadlineSeconds = int32(defaultAckDeadline.Seconds())
	}
	if d := ackDeadline(pb); d < minAckDeadline || d > maxAckDeadline {
		return status.Errorf(codes.InvalidArgument, "invalid ack_deadline_seconds %d: want 10 to 600, or 0 for 10",
			pb.GetAckDeadlineSeconds())
	}
	if pb.MessageRetentionDuration == nil {
		pb.MessageRetentionDuration = durationpb.New(defaultRetention)
	}
	if err := pb.MessageRetentionDuration.CheckValid(); err != nil {
		return status.Errorf(codes.InvalidArgument, "invalid message_retention_duration: %v", err)
	}
	if d := pb.MessageRetentionDuration.AsDuration(); d < minRetention || d > maxRetention {
		return status.Errorf(codes.InvalidArgument, "invalid message_retention_duration %v: want %v to %v", d, minRetention, maxRetention)
	}
	return checkLabels(pb.GetLabels())
}

func (s subscriber) GetSubscription(_ context.Context, req *pubsubpb.GetSubscriptionRequest) (*pubsubpb.Subscription, error) {
	sub, err := s.find(req.GetSubscription())
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
		for _, path := range paths {
			switch path {
			case "labels":
				pb.Labels = from.GetLabels()
			case "ack_deadline_seconds":
				pb.AckDeadlineSeconds = from.GetAckDeadlineSeconds()
			case "message_retention_duration":
				pb.MessageRetentionDuration = from.MessageRetentionDuration
			}
		}
		return settleSubscription(pb)
	})
}

func (s subscriber) ListSubscriptions(_ context.Context, req *pubsubpb.ListSubscriptionsRequest) (*pubsubpb.ListSubscriptionsResponse, error) {
	if err := checkParent(req.GetProject()); err != nil {
		return nil, err
	}
	var all []*pubsubpb.Subscription
	for _, sub := range s.broker.allSubscriptions() {
		if strings.HasPrefix(sub.pb.GetName(), req.GetProject()+"/") {
			all = append(all, sub.pb)
		}
	}
	part, next, err := page(all, (*pubsubpb.Subscription).GetName, req.GetPageSize(), req.GetPageToken())
	if err != nil {
		return nil, err
	}
	return &pubsubpb.ListSubscriptionsResponse{Subscriptions: slices.Clip(part), NextPageToken: next}, nil
}

func (s subscriber) DeleteSubscription(_ context.Context, req *pubsubpb.DeleteSubscriptionRequest) (*emptypb.Empty, error) {
	if err := checkName(req.GetSubscription(), "subscriptions"); err != nil {
		return nil, err
	}
	return &emptypb.Empty{}, s.broker.deleteSubscription(req.GetSubscription())
}

// ModifyPushConfig accepts an empty configuration, which means pull.
func (s subscriber) ModifyPushConfig(_ context.Context, req *pubsubpb.ModifyPushConfigRequest) (*emptypb.Empty, error) {
	if _, err := s.find(req.GetSubscription()); err != nil {
		return nil, err
	}
	if err := subscriptionFields.refuse(&pubsubpb.Subscription{PushConfig: req.GetPushConfig()}); err != nil {
		return nil, err
	}
	return &emptypb.Empty{}, nil
}

// find returns a copy of the subscription of that name.
func (s subscriber) find(name string) (subscription, error) {
	if err := checkName(name, "subscriptions"); err != nil {
		return subscription{}, err
	}
	return s.broker.subscriptionFor(name)
}
