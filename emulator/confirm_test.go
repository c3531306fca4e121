package emulator

import (
	"errors"
	"io"
	"testing"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
)

// A stream is told what became of its acks before the rest of a long backlog.
func TestE03StreamConfirmsAcksWhileMessagesCome(t *testing.T) {
	s, addr := startExact(t)
	topics, _ := clients(t, addr)
	const batches, batch = 50, 1000
	for range batches {
		msgs := make([]*pubsubpb.PubsubMessage, batch)
		for i := range msgs {
			msgs[i] = &pubsubpb.PubsubMessage{Data: make([]byte, 100)}
		}
		_, err := topics.Publish(soon(t), &pubsubpb.PublishRequest{Topic: testTopic, Messages: msgs})
		must(t, err)
	}
	call, err := pubsubpb.NewSubscriberClient(dial(t, addr)).StreamingPull(soon(t))
	must(t, err)
	must(t, call.Send(&pubsubpb.StreamingPullRequest{Subscription: testSub, StreamAckDeadlineSeconds: 10}))
	for got := 0; ; {
		resp, err := call.Recv()
		must(t, err)
		if got == 0 {
			must(t, call.Send(&pubsubpb.StreamingPullRequest{AckIds: []string{resp.GetReceivedMessages()[0].GetAckId()}}))
			waitFor(t, func() bool { return s.Stats()[0].Acked == 1 })
		}
		if resp.GetAcknowledgeConfirmation() != nil {
			return
		}
		if got += len(resp.GetReceivedMessages()); got == batches*batch {
			t.Fatalf("the ack is not confirmed when all %d messages have come", got)
		}
	}
}

// A client that leaves in good order hears what became of its last acks.
func TestE03StreamConfirmsAcksBeforeItEnds(t *testing.T) {
	_, addr := startExact(t)
	topics, subs := clients(t, addr)
	client := pubsubpb.NewSubscriberClient(dial(t, addr))
	const acks = 10
	for range 20 {
		var ids []string
		for range acks {
			publishOne(t, topics, "a")
			ids = append(ids, pullOne(t, subs).GetAckId())
		}
		call, err := client.StreamingPull(soon(t))
		must(t, err)
		must(t, call.Send(&pubsubpb.StreamingPullRequest{Subscription: testSub, StreamAckDeadlineSeconds: 10}))
		for _, id := range ids {
			must(t, call.Send(&pubsubpb.StreamingPullRequest{AckIds: []string{id}}))
		}
		must(t, call.CloseSend())
		confirmed := 0
		for {
			resp, err := call.Recv()
			if errors.Is(err, io.EOF) {
				break
			}
			must(t, err)
			confirmed += len(resp.GetAcknowledgeConfirmation().GetAckIds())
		}
		if confirmed != acks {
			t.Fatalf("%d of %d acks were confirmed", confirmed, acks)
		}
	}
}
