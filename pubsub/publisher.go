package pubsub

import (
	"context"
	"fmt"
	"maps"
	"time"

	apiv1 "cloud.google.com/go/pubsub/v2/apiv1"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/api/option"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/worker"
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
		return nil, cannotOpen(err)
	}
	// The library would retry for a minute and then report only a timeout, so
	// sendWithRetry does it instead. Check must report at once what is wrong.
	client.CallOptions = &apiv1.TopicAdminCallOptions{}
	return &Publisher{client: client, topic: topic, rules: rules}, nil
}

// ForOwnStore returns a publisher over the same connection for jobs whose input is in the
// workers' own store: its messages name no bucket, whatever the caller's own store is.
func (p *Publisher) ForOwnStore() *Publisher { return &Publisher{client: p.client, topic: p.topic} }

// Close closes the connection.
func (p *Publisher) Close() error { return p.client.Close() }

// Publish queues a job and returns the message's id. The error wraps [worker.ErrRefused] for one
// that no message can carry.
func (p *Publisher) Publish(ctx context.Context, job jobs.Job) (string, error) {
	if err := checkJob(job); err != nil {
		return "", fmt.Errorf("publish %w: %w", err, worker.ErrRefused)
	}
	data, attributes := p.rules.encode(job)
	id, err := p.sendWithRetry(ctx, &pubsubpb.PubsubMessage{Data: data, Attributes: attributes})
	if err != nil {
		return "", fmt.Errorf("publish job %s: %w", job.ID, err)
	}
	return id, nil
}

// Resend queues the message of a dead letter as it was first published, and with its kind as an
// attribute, for the filters of subscriptions.
func (p *Publisher) Resend(ctx context.Context, l DeadLetter) error {
	if l.Cut > 0 {
		return fmt.Errorf("resend %s: only the first %d of its %d bytes were kept", l.Name(), len(l.Data), l.Cut)
	}
	attributes := maps.Clone(l.Message)
	if _, there := attributes[kindAttribute]; !there && l.Job.Kind != "" && len(attributes) < maxAttributes {
		attributes[kindAttribute] = string(l.Job.Kind)
	}
	if _, err := p.sendWithRetry(ctx, &pubsubpb.PubsubMessage{Data: l.Data, Attributes: attributes}); err != nil {
		return fmt.Errorf("resend %s: %w", l.Name(), err)
	}
	return nil
}

const (
	// sendPatience is how long sending is retried: over a restart of the server or
	// a broken connection.
	sendPatience = 5 * time.Second
	// sendTimeout bounds one try, which may carry 10 MB.
	sendTimeout = 30 * time.Second
)

// sendWithRetry calls send again while the topic cannot be reached.
func (p *Publisher) sendWithRetry(ctx context.Context, m *pubsubpb.PubsubMessage) (id string, err error) {
	err = retryFor(ctx, sendPatience, func() (err error) {
		id, err = p.send(ctx, m)
		return err
	})
	return id, err
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
