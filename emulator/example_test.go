package emulator_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"net"
	"sync"
	"time"

	"cloud.google.com/go/pubsub/v2"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/batchfleet/batchfleet/emulator"
)

const (
	topic        = "projects/local/topics/orders"
	subscription = "projects/local/subscriptions/kitchen"
)

// Google's client publishes to an emulator of this process and receives from it. With
// PUBSUB_EMULATOR_HOST=127.0.0.1:8085 it needs none of these options.
func Example() {
	server := emulator.New(emulator.Config{Log: slog.New(slog.DiscardHandler)})
	if err := server.EnsureTopic(topic); err != nil {
		log.Fatal(err)
	}
	if err := server.EnsureSubscription(subscription, topic, 10*time.Second); err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var loopback net.ListenConfig
	listener, err := loopback.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := server.Serve(ctx, listener); err != nil {
			log.Print(err)
		}
	})

	client, err := pubsub.NewClient(ctx, "local", option.WithEndpoint(listener.Addr().String()), option.WithoutAuthentication(),
		option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())))
	if err != nil {
		log.Fatal(err)
	}
	publisher := client.Publisher(topic)
	id, err := publisher.Publish(ctx, &pubsub.Message{Data: []byte("two eggs")}).Get(ctx)
	if err != nil {
		log.Fatal(err)
	}
	publisher.Stop()

	receiving, enough := context.WithCancel(ctx)
	err = client.Subscriber(subscription).Receive(receiving, func(_ context.Context, m *pubsub.Message) {
		fmt.Printf("%s, as published: %t\n", m.Data, m.ID == id)
		m.Ack()
		enough()
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := client.Close(); err != nil {
		log.Fatal(err)
	}
	stop()
	serving.Wait()
	for _, s := range server.Stats() {
		fmt.Printf("%s: %d undelivered, %d leased\n", s.Subscription, s.Undelivered, s.Leased)
	}
	// Output:
	// two eggs, as published: true
	// projects/local/subscriptions/kitchen: 0 undelivered, 0 leased
}
