package worker

import (
	"context"
	"fmt"

	pubsub "cloud.google.com/go/pubsub/v2/apiv1"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/api/option"

	"github.com/batchfleet/batchfleet/jobs"
)

// Publisher puts jobs into a topic, as [PubSub] takes them out of a
// subscription. Its methods may be called concurrently.
type Publisher struct {
	client *pubsub.TopicAdminClient
	topic  string // projects/P/topics/T
	rules  Rules
}

// OpenPublisher returns a publisher to the topic with the given full name. It
// does not wait for the service. Close it after use.
func OpenPublisher(ctx context.Context, topic string, rules Rules, opts ...option.ClientOption) (*Publisher, error) {
	client, err := pubsub.NewTopicAdminClient(ctx, opts...)
	if err != nil {
		return nil, fmt.Errorf("open pub/sub: %w", err)
	}
	// Who asks whether the topic is there wants to hear at once what is wrong.
	client.CallOptions.GetTopic = nil
	return &Publisher{client: client, topic: topic, rules: rules}, nil
}

// Close closes the connection.
func (p *Publisher) Close() error { return p.client.Close() }

// Publish queues a job and returns the message's id.
func (p *Publisher) Publish(ctx context.Context, job jobs.Job) (string, error) {
	data, attributes := p.rules.encode(job)
	id, err := p.send(ctx, &pubsubpb.PubsubMessage{Data: data, Attributes: attributes})
	if err != nil {
		return "", fmt.Errorf("publish job %s: %w", job.ID, err)
	}
	return id, nil
}

// Resend queues the message of a dead letter as it was before it died.
func (p *Publisher) Resend(ctx context.Context, l Letter) error {
	if l.Cut > 0 {
		return fmt.Errorf("resend %s: only the first %d of its %d bytes were kept", l.Name(), len(l.Data), l.Cut)
	}
	if _, err := p.send(ctx, &pubsubpb.PubsubMessage{Data: l.Data, Attributes: l.Message}); err != nil {
		return fmt.Errorf("resend %s: %w", l.Name(), err)
	}
	return nil
}

// send publishes one message and returns its id.
func (p *Publisher) send(ctx context.Context, m *pubsubpb.PubsubMessage) (string, error) {
	reply, err := p.client.Publish(ctx, &pubsubpb.PublishRequest{Topic: p.topic, Messages: []*pubsubpb.PubsubMessage{m}})
	if err != nil {
		return "", translate("publish to "+p.topic, err)
	}
	if len(reply.GetMessageIds()) != 1 {
		return "", fmt.Errorf("publish to %s: %w: the answer has %d message ids", p.topic, jobs.ErrUnavailable, len(reply.GetMessageIds()))
	}
	return reply.GetMessageIds()[0], nil
}

// Check returns nil if the topic exists.
func (p *Publisher) Check(ctx context.Context) error {
	_, err := p.client.GetTopic(ctx, &pubsubpb.GetTopicRequest{Topic: p.topic})
	if err != nil {
		return translate("look at topic "+p.topic, err)
	}
	return nil
}
