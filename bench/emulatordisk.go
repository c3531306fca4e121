package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"golang.org/x/sync/errgroup"
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
	b, err := startEmulatorBench(ctx, "serve-emulator-on-disk", 2, 8)
	if err != nil {
		return err
	}
	defer b.close()
	f, err := os.Create(filepath.Join(r.dir, "file")) // on the server's disk
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()

	for _, publishers := range []int{1, 8} {
		var rates, disk, ratios []float64
		var cpu time.Duration
		for turn := range publishTurns + 1 {
			var rate float64
			used, err := b.server.cpuDuring(func() (err error) {
				rate, err = b.publishDurably(ctx, publishers)
				return err
			})
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
			cpu += used
		}
		what := fmt.Sprintf("data directory, %d publishing %d at a time: ", publishers, publishSize)
		r.add(what+"on disk", median(rates), "messages/s", bar{})
		r.add(what+"the same bytes written and synced", median(disk), "messages/s", bar{})
		r.add(what+"on disk against that", median(ratios), "ratio", atLeast(0.5))
		r.add(what+"processor time of the server", microseconds(cpu)/(publishTurns*publishes*publishSize), "µs/message", bar{})
	}
	peak, err := b.server.memory("VmHWM")
	if err != nil {
		return err
	}
	r.add(fmt.Sprintf("data directory, peak memory, %d queued", 2*(publishTurns+1)*publishes*publishSize), peak/(1<<20), "MiB", bar{})
	return nil
}

// publishDurably returns the messages per second of one round.
func (b *emulatorBench) publishDurably(ctx context.Context, publishers int) (float64, error) {
	var all errgroup.Group
	start := time.Now()
	for i := range publishers {
		all.Go(func() error {
			client, req := pubsubpb.NewPublisherClient(b.pubsub[i]), publishRequest(publishSize, "")
			for range publishes / publishers {
				if _, err := client.Publish(ctx, req); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err := all.Wait()
	return publishes * publishSize / time.Since(start).Seconds(), err
}

// syncedWrites returns the same for the disk alone.
func syncedWrites(f *os.File) (float64, error) {
	b := make([]byte, proto.Size(publishRequest(publishSize, "")))
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
