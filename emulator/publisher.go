package emulator

import (
	"cmp"
	"context"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
)

// publisher is google.pubsub.v1.Publisher.
type publisher struct{ broker *broker }

func (p publisher) CreateTopic(_ context.Context, req *pubsubpb.Topic) (*pubsubpb.Topic, error) {
	if err := setTopicDefaults(req); err != nil {
		return nil, err
	}
	return req, p.broker.schemas.attach(req.GetSchemaSettings(), func() error { return p.broker.createTopic(req) })
}

// setTopicDefaults checks the topic of a create request and sets its output
// fields.
func setTopicDefaults(pb *pubsubpb.Topic) error {
	if err := cmp.Or(checkName(pb.GetName(), "topics"), topicFields.refuse(pb)); err != nil {
		return err
	}
	pb.State = pubsubpb.Topic_ACTIVE
	pb.SatisfiesPzs = false
	return checkTopic(pb)
}

// checkTopic checks what an update may change.
func checkTopic(pb *pubsubpb.Topic) error {
	if d := pb.MessageRetentionDuration; d != nil {
		if err := d.CheckValid(); err != nil || d.AsDuration() < minRetention || d.AsDuration() > maxRetention {
			return status.Errorf(codes.InvalidArgument, "invalid message_retention_duration %v: want %v to %v", d.AsDuration(), minRetention, maxRetention)
		}
	}
	return checkLabels(pb.GetLabels())
}

func (p publisher) UpdateTopic(_ context.Context, req *pubsubpb.UpdateTopicRequest) (*pubsubpb.Topic, error) {
	if err := checkName(req.GetTopic().GetName(), "topics"); err != nil {
		return nil, err
	}
	paths, err := topicFields.maskPaths(req.GetUpdateMask(), req.GetTopic())
	if err != nil {
		return nil, err
	}
	return p.broker.updateTopicAndSchema(req.GetTopic().GetName(), func(pb *pubsubpb.Topic) error {
		copyFields(pb, req.GetTopic(), paths)
		return checkTopic(pb)
	})
}

func (p publisher) GetTopic(_ context.Context, req *pubsubpb.GetTopicRequest) (*pubsubpb.Topic, error) {
	_, pb, err := p.broker.topicFor(req.GetTopic())
	return pb, err
}

func (p publisher) ListTopics(_ context.Context, req *pubsubpb.ListTopicsRequest) (*pubsubpb.ListTopicsResponse, error) {
	part, next, err := pageOf(req.GetProject(), p.broker.allTopics(), (*pubsubpb.Topic).GetName, req)
	return &pubsubpb.ListTopicsResponse{Topics: part, NextPageToken: next}, err
}

func (p publisher) ListTopicSubscriptions(_ context.Context, req *pubsubpb.ListTopicSubscriptionsRequest) (*pubsubpb.ListTopicSubscriptionsResponse, error) {
	t, _, err := p.broker.topicFor(req.GetTopic())
	if err != nil {
		return nil, err
	}
	var names []string
	for _, sub := range p.broker.allSubscriptions() {
		if sub.topic == t {
			names = append(names, sub.pb.GetName())
		}
	}
	part, next, err := page(names, func(s string) string { return s }, req)
	return &pubsubpb.ListTopicSubscriptionsResponse{Subscriptions: part, NextPageToken: next}, err
}

func (p publisher) DeleteTopic(_ context.Context, req *pubsubpb.DeleteTopicRequest) (*emptypb.Empty, error) {
	return &emptypb.Empty{}, p.broker.deleteTopic(req.GetTopic())
}

func (p publisher) DetachSubscription(_ context.Context, req *pubsubpb.DetachSubscriptionRequest) (*pubsubpb.DetachSubscriptionResponse, error) {
	return &pubsubpb.DetachSubscriptionResponse{}, p.broker.detachSubscription(req.GetSubscription())
}

func (p publisher) Publish(_ context.Context, req *pubsubpb.PublishRequest) (*pubsubpb.PublishResponse, error) {
	t, pb, err := p.broker.topicFor(req.GetTopic())
	if err != nil {
		return nil, err
	}
	if err := checkMessages(req.GetMessages()); err != nil {
		return nil, err
	}
	if err := p.broker.schemas.enforce(pb.GetSchemaSettings(), req.GetMessages()); err != nil {
		return nil, err
	}
	ids, err := p.broker.publish(t, req.GetMessages())
	return &pubsubpb.PublishResponse{MessageIds: ids}, err
}

func checkMessages(msgs []*pubsubpb.PubsubMessage) error {
	if len(msgs) == 0 || len(msgs) > maxPublishCount {
		return status.Errorf(codes.InvalidArgument,
			"The value for message_count is out of range: %d messages, want 1 to %d.", len(msgs), maxPublishCount)
	}
	total := 0
	for i, m := range msgs {
		if err := checkMessage(m); err != nil {
			return status.Errorf(codes.InvalidArgument, "message %d: %v", i, err)
		}
		total += messageSize(m)
	}
	if total > maxPublishBytes {
		return status.Errorf(codes.InvalidArgument, "publish request too large: %d bytes, at most %d", total, maxPublishBytes)
	}
	return nil
}
