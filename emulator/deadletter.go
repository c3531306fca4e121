package emulator

import (
	"maps"
	"path"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
)

// publishDeadLetter publishes a message of subscription sub that has used up its
// delivery attempts to the dead-letter topic, with the attributes Google adds.
func (b *broker) publishDeadLetter(q *queue, sub string, m *message, deliveries int32) error {
	name := q.deadLetterTopic()
	t, _, err := b.topicFor(name)
	if err != nil {
		return err
	}
	if err := b.log.err(); err != nil {
		return err
	}
	dead := &pubsubpb.PubsubMessage{
		Data:        m.pb.GetData(),
		Attributes:  maps.Clone(m.pb.GetAttributes()),
		OrderingKey: m.pb.GetOrderingKey(),
	}
	if dead.Attributes == nil {
		dead.Attributes = make(map[string]string, 4)
	}
	project, _, _ := strings.Cut(strings.TrimPrefix(sub, "projects/"), "/")
	maps.Copy(dead.Attributes, map[string]string{
		"CloudPubSubDeadLetterSourceDeliveryCount":       strconv.Itoa(int(deliveries)),
		"CloudPubSubDeadLetterSourceSubscription":        path.Base(sub),
		"CloudPubSubDeadLetterSourceSubscriptionProject": project,
		"CloudPubSubDeadLetterSourceTopicPublishTime":    m.pb.GetPublishTime().AsTime().Format(time.RFC3339Nano),
	})
	_, err = b.publish(t, []*pubsubpb.PubsubMessage{dead})
	return err
}

func (q *queue) deadLetterTopic() string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.deadLetterPolicy.topic
}

// Google's limits of a dead-letter policy.
const (
	defaultMaxAttempts = 5
	minMaxAttempts     = 5
	maxMaxAttempts     = 100
)

// completeDeadLetterPolicy checks a dead-letter policy and sets its defaults.
func completeDeadLetterPolicy(p *pubsubpb.DeadLetterPolicy) error {
	if p == nil {
		return nil
	}
	if p.GetDeadLetterTopic() != deletedTopic {
		if err := checkName(p.GetDeadLetterTopic(), "topics"); err != nil {
			return status.Errorf(codes.InvalidArgument, "dead_letter_policy.dead_letter_topic: %s", status.Convert(err).Message())
		}
	}
	if p.GetMaxDeliveryAttempts() == 0 {
		p.MaxDeliveryAttempts = defaultMaxAttempts
	}
	if n := p.GetMaxDeliveryAttempts(); n < minMaxAttempts || n > maxMaxAttempts {
		return status.Errorf(codes.InvalidArgument, "invalid dead_letter_policy.max_delivery_attempts %d: want %d to %d, or 0 for %d",
			n, minMaxAttempts, maxMaxAttempts, defaultMaxAttempts)
	}
	return nil
}
