package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"github.com/batchfleet/batchfleet/emulator"
)

const (
	publishSize  = 100 // messages in a publish that must be on disk
	publishes    = 96  // in a round, by all publishers together
	publishTurns = 8
)

// serveEmulatorOnDisk is serveEmulator with a data directory.
func serveEmulatorOnDisk(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp("", "batchfleet-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s, err := emulator.Open(emulator.Config{Log: quietLog()}, dir)
	if err != nil {
		return err
	}
	return errors.Join(serve(ctx, s), s.Close())
}

// onDisk compares publishes that survive a power cut with the disk alone, in
// turns: the same bytes written to one file and synced.
func onDisk(ctx context.Context, r *report) (err error) {
	server, err := startProcess(ctx, "serve-emulator-on-disk", 2)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	b, err := newEmulatorBench(server, 8)
	if err != nil {
		return err
	}
	defer b.close()
	dir, err := os.MkdirTemp("", "batchfleet-bench-") // on the server's disk
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	f, err := os.Create(filepath.Join(dir, "file"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()

	for _, publishers := range []int{1, 8} {
		var rates, disk, ratios []float64
		var cpu time.Duration
		for turn := range publishTurns + 1 {
			before, err := server.cpu()
			if err != nil {
				return err
			}
			rate, err := b.publishDurably(ctx, publishers)
			if err != nil {
				return err
			}
			after, err := server.cpu()
			if err != nil {
				return err
			}
			raw, err := syncedWrites(f)
			if err != nil {
				return err
			}
			if turn == 0 {
				continue // connections were opened, heaps grew
			}
			rates, disk, ratios = append(rates, rate), append(disk, raw), append(ratios, rate/raw)
			cpu += after - before
		}
		what := fmt.Sprintf("data directory, %d publishing %d at a time: ", publishers, publishSize)
		r.add(what+"on disk", median(rates), "messages/s", bar{})
		r.add(what+"the same bytes written and synced", median(disk), "messages/s", bar{})
		r.add(what+"on disk against that", median(ratios), "ratio", atLeast(0.5))
		r.add(what+"processor time of the server", microseconds(cpu)/(publishTurns*publishes*publishSize), "µs/message", bar{})
	}
	peak, err := server.memory("VmHWM")
	if err != nil {
		return err
	}
	r.add(fmt.Sprintf("data directory, peak memory, %d queued", 2*(publishTurns+1)*publishes*publishSize), peak/(1<<20), "MiB", bar{})
	return nil
}

func durablePublish() *pubsubpb.PublishRequest {
	req := &pubsubpb.PublishRequest{Topic: benchTopic}
	for range publishSize {
		req.Messages = append(req.Messages, &pubsubpb.PubsubMessage{Data: make([]byte, messageBytes)})
	}
	return req
}

// publishDurably returns the messages per second of one round.
func (b *emulatorBench) publishDurably(ctx context.Context, publishers int) (float64, error) {
	errs := make([]error, publishers)
	var all sync.WaitGroup
	start := time.Now()
	for i := range publishers {
		all.Go(func() {
			client, req := pubsubpb.NewPublisherClient(b.pubsub[i]), durablePublish()
			for range publishes / publishers {
				if _, errs[i] = client.Publish(ctx, req); errs[i] != nil {
					return
				}
			}
		})
	}
	all.Wait()
	return publishes * publishSize / time.Since(start).Seconds(), errors.Join(errs...)
}

// syncedWrites returns the same for the disk alone.
func syncedWrites(f *os.File) (float64, error) {
	b := make([]byte, proto.Size(durablePublish()))
	start := time.Now()
	for range publishes {
		if _, err := f.Write(b); err != nil {
			return 0, err
		}
		if err := unix.Fdatasync(int(f.Fd())); err != nil {
			return 0, err
		}
	}
	return publishes * publishSize / time.Since(start).Seconds(), nil
}
