package pubsub

import (
	"context"
	"errors"
	"fmt"
	"time"

	apiv1 "cloud.google.com/go/pubsub/v2/apiv1"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/api/option"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/retry"
)

// Publisher puts jobs into a topic, as [Source] takes them out of a
// subscription. Its methods may be called concurrently.
type Publisher struct {
	client *apiv1.TopicAdminClient
	topic  string // projects/P/topics/T
	rules  Rules
}

// OpenPublisher returns a publisher to the topic with the given full name. It
// does not wait for the service. Close it after use.
func OpenPublisher(ctx context.Context, topic string, rules Rules, opts ...option.ClientOption) (*Publisher, error) {
	client, err := apiv1.NewTopicAdminClient(ctx, opts...)
	if err != nil {
		return nil, fmt.Errorf("open pub/sub: %w", err)
	}
	// The library would try for a minute, in silence, and then say only that the
	// time was over: see insist. Who asks whether the topic is there wants to hear at
	// once what is wrong.
	client.CallOptions = &apiv1.TopicAdminCallOptions{}
	return &Publisher{client: client, topic: topic, rules: rules}, nil
}

// Close closes the connection.
func (p *Publisher) Close() error { return p.client.Close() }

// Publish queues a job and returns the message's id.
func (p *Publisher) Publish(ctx context.Context, job jobs.Job) (string, error) {
	data, attributes := p.rules.encode(job)
	id, err := p.insist(ctx, &pubsubpb.PubsubMessage{Data: data, Attributes: attributes})
	if err != nil {
		return "", fmt.Errorf("publish job %s: %w", job.ID, err)
	}
	return id, nil
}

// Resend queues the message of a dead letter as it was before it died.
func (p *Publisher) Resend(ctx context.Context, l DeadLetter) error {
	if l.Cut > 0 {
		return fmt.Errorf("resend %s: only the first %d of its %d bytes were kept", l.Name(), len(l.Data), l.Cut)
	}
	if _, err := p.insist(ctx, &pubsubpb.PubsubMessage{Data: l.Data, Attributes: l.Message}); err != nil {
		return fmt.Errorf("resend %s: %w", l.Name(), err)
	}
	return nil
}

const (
	// sendPatience is how long a message is sent again: over a restart of the
	// server or a broken connection.
	sendPatience = 5 * time.Second
	// sendTimeout bounds one try, which may carry 10 MB.
	sendTimeout = 30 * time.Second
)

// sending is how a message is sent again.
var sending = retry.Policy{First: time.Second / 2, Max: time.Second}

// insist is send, again until sendPatience is over if the topic cannot be reached:
// the last try begins at its end. The error is that of the last try.
func (p *Publisher) insist(ctx context.Context, m *pubsubpb.PubsubMessage) (string, error) {
	begun := time.Now()
	for wait := sending.Delays(); ; {
		id, err := p.send(ctx, m)
		left := sendPatience - time.Since(begun)
		if err == nil || !errors.Is(err, jobs.ErrUnavailable) || left <= 0 {
			return id, err
		}
		if jobs.Sleep(ctx, min(wait.Next(), left)) != nil {
			return id, err
		}
	}
}

// send publishes one message and returns its id.
func (p *Publisher) send(ctx context.Context, m *pubsubpb.PubsubMessage) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
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
