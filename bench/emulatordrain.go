package main

import (
	"context"
	"fmt"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"cloud.google.com/go/pubsub/v2/pstest"
)

const (
	drainRounds = 4
	// The test server of the client library needs 25 ms for a message when
	// 50 000 are queued.
	drainLimit = 1500 * time.Millisecond
)

// servePstest is the server process of the client library's own test server.
func servePstest(ctx context.Context) error {
	shareCPUs()
	s := pstest.NewServer()
	fmt.Println(s.Addr)
	<-ctx.Done()
	return s.Close()
}

// drains compares the emulator with the client library's test server, in turns:
// pull and ack of single messages by one client.
func drains(ctx context.Context, r *report) error {
	for _, depth := range []struct {
		queued int
		want   bar
	}{{1_000, atLeast(1)}, {10_000, atLeast(3)}, {50_000, atLeast(100)}} {
		if err := compareDrains(ctx, r, depth.queued, depth.want); err != nil {
			return err
		}
	}
	return nil
}

// A rival is one of the two servers and what it was measured at.
type rival struct {
	*emulatorBench
	name string

	rates   []float64
	cpu     time.Duration
	drained int
}

func compareDrains(ctx context.Context, r *report, queued int, want bar) error {
	rivals := []*rival{{name: "emulator"}, {name: "pstest"}}
	for i, program := range []string{"serve-emulator", "serve-pstest"} {
		b, err := startEmulatorBench(ctx, program, 2-i, 1)
		if err != nil {
			return err
		}
		defer b.close()
		rivals[i].emulatorBench = b
	}
	if err := rivals[1].ensureSubscription(ctx); err != nil {
		return err
	}
	for _, v := range rivals {
		if err := v.publish(ctx, queued); err != nil {
			return err
		}
	}
	var ratios []float64
	for round := range drainRounds + 1 {
		for _, v := range rivals {
			if err := v.drain(ctx, round > 0); err != nil { // in round 0 connections are opened
				return err
			}
		}
		if round > 0 {
			ratios = append(ratios, rivals[0].rates[round-1]/rivals[1].rates[round-1])
		}
	}
	what := fmt.Sprintf("drain, %d queued: ", queued)
	for _, v := range rivals {
		peak, err := v.server.memory("VmHWM")
		if err != nil {
			return err
		}
		r.add(what+v.name, median(v.rates), "messages/s", bar{})
		r.add(what+v.name+", processor time", microseconds(v.cpu)/float64(v.drained), "µs/message", bar{})
		r.add(what+v.name+", peak memory", peak/(1<<20), "MiB", bar{})
	}
	r.add(what+"emulator against pstest", median(ratios), "ratio", want)
	return nil
}

// ensureSubscription makes what the emulator has from the start.
func (b *emulatorBench) ensureSubscription(ctx context.Context) error {
	if _, err := pubsubpb.NewPublisherClient(b.pubsub[0]).CreateTopic(ctx, &pubsubpb.Topic{Name: benchTopic}); err != nil {
		return err
	}
	_, err := pubsubpb.NewSubscriberClient(b.pubsub[0]).CreateSubscription(ctx, &pubsubpb.Subscription{
		Name: benchSub, Topic: benchTopic, AckDeadlineSeconds: 600,
	})
	return err
}

// drain takes as many messages as one round has, or as there is time for, and
// then puts as many back.
func (v *rival) drain(ctx context.Context, counts bool) error {
	n := 0
	var took time.Duration
	used, err := v.server.cpuDuring(func() error {
		start := time.Now()
		for ; n < roundSize && time.Since(start) < drainLimit; n++ {
			if err := v.pullAndAck(ctx, 0); err != nil {
				return err
			}
		}
		took = time.Since(start)
		return nil
	})
	if err != nil {
		return err
	}
	if counts {
		v.rates = append(v.rates, float64(n)/took.Seconds())
		v.cpu += used
		v.drained += n
	}
	return v.publish(ctx, n)
}
