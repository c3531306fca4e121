package main

import (
	"context"
	"fmt"
	"math"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const (
	// patience is how long an idle server may keep memory that it no longer
	// needs. Left alone, Go's runtime collects every two minutes.
	patience = 10 * time.Second
	// settleTime without a change means that the runtime has given back what it
	// will.
	settleTime = 3 * time.Second
)

// empty acknowledges the n messages that are queued, in batches, and reports
// how much of the memory they took the server keeps. before and full are what it
// had without and with them.
func (b *emulatorBench) empty(ctx context.Context, r *report, n int, before, full float64) error {
	start := time.Now()
	client := pubsubpb.NewSubscriberClient(b.pubsub[0])
	for left := n; left > 0; {
		resp, err := client.Pull(ctx, &pubsubpb.PullRequest{Subscription: benchSub, MaxMessages: roundSize})
		if err != nil {
			return err
		}
		ack := &pubsubpb.AcknowledgeRequest{Subscription: benchSub}
		for _, m := range resp.GetReceivedMessages() {
			ack.AckIds = append(ack.AckIds, m.GetAckId())
		}
		if _, err := client.Acknowledge(ctx, ack); err != nil {
			return err
		}
		left -= len(ack.GetAckIds())
	}
	took := time.Since(start)
	r.add(fmt.Sprintf("pull and ack in batches of %d", roundSize), float64(n)/took.Seconds(), "messages/s", bar{})

	part := func(now float64) float64 { return 100 * (now - before) / (full - before) }
	kept, _, err := b.leastMemory(patience)
	if err != nil {
		return err
	}
	r.add("memory the idle server keeps once all are acknowledged, of what they took", part(kept), "%", atMost(5))
	for range 2 { // the second one empties what is pooled
		if err := b.echo[0].Invoke(ctx, "/bench.Echo/Collect", new(wrapperspb.BytesValue), new(wrapperspb.BytesValue)); err != nil {
			return err
		}
	}
	kept, took, err = b.leastMemory(settleTime)
	if err != nil {
		return err
	}
	r.add("memory kept after two collections", part(kept), "%", bar{})
	r.add("memory kept after two collections, time to give the rest back", took.Seconds(), "s", bar{})
	return nil
}

// leastMemory waits until the server's memory has not shrunk for so long, and
// returns what it is then and how long it went on shrinking.
func (b *emulatorBench) leastMemory(calm time.Duration) (least float64, took time.Duration, err error) {
	least = math.Inf(1)
	for start := time.Now(); time.Since(start) < took+calm; pause(50 * time.Millisecond) {
		now, err := b.server.memory("RssAnon")
		if err != nil {
			return 0, 0, err
		}
		if now < least {
			least, took = now, time.Since(start)
		}
	}
	return least, took, nil
}
