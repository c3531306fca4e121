package client

import (
	"context"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/batchfleet/batchfleet/grid/link"
	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/internal/testnet"
)

// BenchmarkNullJobs submits jobs over loopback to a leader that answers each at once, and waits for their results: 64 at a time,
// each decoded.
func BenchmarkNullJobs(b *testing.B) {
	address, _ := testnet.Serve(b, testnet.AnyPort, serveNull)
	m, err := New(Config{ClientID: "bench", Leaders: []string{address}, Desired: 64, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = m.Run(ctx) })
	defer running.Wait()
	defer cancel()
	b.ReportAllocs()
	b.ResetTimer()
	var left atomic.Int64
	left.Store(int64(b.N))
	var callers sync.WaitGroup
	for range 64 {
		callers.Go(func() {
			for left.Add(-1) >= 0 {
				j, err := m.Submit(ctx, wire.JobRequest{ExecName: "null"})
				if err != nil {
					b.Error(err)
					return
				}
				if r, err := j.Wait(ctx); err != nil || r.Status != wire.OK {
					b.Error(r, err)
					return
				}
			}
		})
	}
	callers.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
}

// serveNull is a leader that runs nothing.
func serveNull(ctx context.Context, l net.Listener) error {
	context.AfterFunc(ctx, func() { _ = l.Close() })
	var serving sync.WaitGroup
	defer serving.Wait()
	for {
		raw, err := l.Accept()
		if err != nil {
			return nil // the listener is closed at the end
		}
		serving.Go(func() {
			c := link.New(raw, link.Options{})
			defer c.Abort(io.EOF)
			context.AfterFunc(ctx, func() { c.Abort(io.EOF) })
			var frames []wire.Frame
			for {
				f, err := c.Receive()
				if err != nil {
					return
				}
				switch f.Type {
				case wire.HelloClient:
					frames = append(frames, wire.Frame{Type: wire.Welcome, Payload: []byte(`{"Proto":2,"Features":["submitack","resultack","ping"]}`)})
				case wire.SubmitJob:
					frames = append(frames, wire.Frame{Type: wire.SubmitAck, Payload: wire.AppendGUIDs(nil, f.MsgID)}, resultOf(f.MsgID, ""))
				default: // acknowledgments
				}
				if !c.Ready() {
					_ = c.Send(frames...)
					frames = frames[:0]
				}
			}
		})
	}
}
