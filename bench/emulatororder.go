package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cloud.google.com/go/pubsub/v2"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

const orderTurns = 9

// ordering compares messages of one ordering key with messages of none, in
// turns, through Google's client: it gathers acks for 100 ms, and hands the
// messages of a key to its callback one after the other.
func ordering(ctx context.Context, r *report) (err error) {
	server, err := startProcess(ctx, "serve-emulator", 2)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	client, err := pubsub.NewClient(ctx, "bench", option.WithEndpoint(server.lines[0]), option.WithoutAuthentication(),
		option.WithTelemetryDisabled(), option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	const sub = "projects/bench/subscriptions/ordered"
	if _, err := client.SubscriptionAdminClient.CreateSubscription(ctx, &pubsubpb.Subscription{
		Name: sub, Topic: benchTopic, EnableMessageOrdering: true,
	}); err != nil {
		return err
	}
	var took, ratios []float64
	for turn := range orderTurns + 1 {
		keyed, err := receiveAll(ctx, client, sub, "key")
		if err != nil {
			return err
		}
		free, err := receiveAll(ctx, client, sub, "")
		if err != nil {
			return err
		}
		if turn == 0 {
			continue // connections were opened, heaps grew
		}
		took, ratios = append(took, keyed.Seconds()), append(ratios, keyed.Seconds()/free.Seconds())
	}
	what := fmt.Sprintf("Go's client, %d messages of one ordering key: ", roundSize)
	r.add(what+"received and acknowledged in", median(took), "s", atMost(3))
	r.add(what+"against the time of as many of none", median(ratios), "ratio", atMost(2))
	return nil
}

// receiveAll publishes messages of a key and returns how long it takes until the
// client has received them and its acks have been sent.
func receiveAll(ctx context.Context, client *pubsub.Client, sub, key string) (time.Duration, error) {
	// Until the server knows that the stream of the turn before is canceled it hands
	// messages to it, which stay leased until their leases end.
	time.Sleep(100 * time.Millisecond)
	if _, err := client.TopicAdminClient.Publish(ctx, publishRequest(roundSize, key)); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	got := make(chan struct{}, roundSize)
	start := time.Now()
	err := client.Subscriber(sub).Receive(ctx, func(_ context.Context, m *pubsub.Message) {
		m.Ack()
		if got <- struct{}{}; len(got) == roundSize {
			cancel()
		}
	})
	return time.Since(start), err
}
