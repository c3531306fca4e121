package member_test

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"testing"

	"github.com/batchfleet/batchfleet/grid/link"
	"github.com/batchfleet/batchfleet/grid/member"
	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/worker"
)

// BenchmarkJobs is what a job costs beside running it, over loopback and with a directory on disk.
func BenchmarkJobs(b *testing.B) {
	l, err := new(net.ListenConfig).Listen(b.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	m := &member.Member{Leaders: []string{l.Addr().String()}, MaxParallel: 4, Dir: b.TempDir(), Log: slog.New(slog.DiscardHandler)}
	if err := m.Open(b.Context()); err != nil {
		b.Fatal(err)
	}
	w := &worker.Worker{Source: m, Status: m, Log: m.Log, Pools: []worker.Pool{{Slots: 4}}, Handlers: map[jobs.Kind]worker.Handler{
		member.Kind: m.Handler(handler(answer)),
	}}
	ctx, stop := context.WithCancel(b.Context())
	var running sync.WaitGroup
	running.Go(func() { m.Run(ctx) })
	running.Go(func() { _ = w.Run(ctx) })
	conn, err := l.Accept()
	if err != nil {
		b.Fatal(err)
	}
	c := link.New(conn, link.Options{})
	b.ResetTimer()
	for assigned, ended := 0, 0; ended < b.N; {
		f, err := c.Receive()
		if err != nil {
			b.Fatal(err)
		}
		switch f.Type {
		case wire.HelloWorker:
			_ = c.Send(wire.Frame{Type: wire.Welcome, Payload: must(wire.WelcomeInfo{Proto: 2, Features: features})})
		case wire.AckJob:
			ended++
			_ = c.Send(wire.Frame{Type: wire.ResultAck, Payload: wire.AppendGUIDs(nil, f.CorrID)})
		case wire.Credit:
			n, _ := wire.ParseCredit(f.Payload)
			for ; n > 0 && assigned < b.N; n-- {
				f := assignment(0, 0)
				f.MsgID = wire.NewGUID()
				f.CorrID = wire.NewGUID()
				f.Payload = must(wire.JobRequest{JobID: f.MsgID, ClientID: "clientA", ExecName: "calcA"})
				_ = c.Send(f)
				assigned++
			}
		default:
		}
	}
	b.StopTimer()
	stop()
	running.Wait()
	c.Abort(nil)
	_, _ = l.Close(), m.Close()
}
