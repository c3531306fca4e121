package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"runtime"
	"sync"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/batchfleet/batchfleet/emulator"
)

const (
	benchTopic = "projects/bench/topics/jobs"
	benchSub   = "projects/bench/subscriptions/jobs"

	messageBytes = 200  // a job message of the fleet
	roundSize    = 1000 // messages pulled and acknowledged in one round
	turns        = 5    // in one round: a CPU's time is known to 10 ms
	rounds       = 24

	shallow, deep = 1_000, 1_000_000 // messages queued
)

// serveEmulator is the server process: the emulator, and on a second address a
// service that does nothing, with the same gRPC options.
func serveEmulator(ctx context.Context) error {
	return serve(ctx, emulator.New(emulator.Config{Log: quietLog()}))
}

// quietLog is for servers: what goes wrong, and nothing else.
func quietLog() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

func serve(ctx context.Context, s *emulator.Server) error {
	shareCPUs()
	if err := s.EnsureSubscription(benchSub, benchTopic, 600*time.Second); err != nil {
		return err
	}
	l, err := listen(ctx)
	if err != nil {
		return err
	}
	el, err := listen(ctx)
	if err != nil {
		return err
	}
	echo := grpc.NewServer(emulator.ServerOptions()...)
	echo.RegisterService(&echoService, nil)
	var running sync.WaitGroup
	running.Go(func() {
		if err := echo.Serve(el); err != nil {
			fmt.Fprintln(os.Stderr, "echo:", err)
		}
	})
	fmt.Println(l.Addr())
	fmt.Println(el.Addr())
	err = s.Serve(ctx, l)
	echo.Stop()
	running.Wait()
	return err
}

// shareCPUs leaves half of the CPUs to the client, as the command does.
func shareCPUs() { runtime.GOMAXPROCS(max(1, runtime.NumCPU()/2)) }

func listen(ctx context.Context) (net.Listener, error) {
	return new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
}

// echoService answers what it is sent, and collects garbage when it is told to.
var echoService = grpc.ServiceDesc{
	ServiceName: "bench.Echo",
	HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{{
		MethodName: "Echo",
		Handler: func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			in := new(wrapperspb.BytesValue)
			err := decode(in)
			return in, err
		},
	}, {
		MethodName: "Collect",
		Handler: func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			in := new(wrapperspb.BytesValue)
			err := decode(in)
			runtime.GC()
			return in, err
		},
	}},
}

func emulatorSection(ctx context.Context, r *report) error {
	// A CPU for the client and one for the server: what a client does with more
	// is not the server's speed.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	ratios := map[int]map[int]float64{} // by pullers, then by queued
	for _, queued := range []int{shallow, deep} {
		if err := measureDepth(ctx, r, queued, ratios); err != nil {
			return err
		}
	}
	for _, pullers := range []int{1, 8} {
		// Of the ratios, not the rates: a machine that is busier now than it was
		// at the first depth cancels out.
		flat := ratios[pullers][deep] / ratios[pullers][shallow]
		r.add(fmt.Sprintf("%s, that ratio at %d queued against %d", plural(pullers), deep, shallow), flat, "ratio", atLeast(0.85))
	}
	for _, measure := range []func(context.Context, *report) error{ordering, drains, onDisk, starts} {
		if err := measure(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// measureDepth takes all numbers of a server that holds queued messages.
func measureDepth(ctx context.Context, r *report, queued int, ratios map[int]map[int]float64) error {
	b, err := startEmulatorBench(ctx, "serve-emulator", 2, 8)
	if err != nil {
		return err
	}
	defer b.close()

	if queued == shallow {
		if err := b.latency(ctx, r); err != nil {
			return err
		}
	}
	before, full, err := b.fill(ctx, r, queued)
	if err != nil {
		return err
	}
	for _, pullers := range []int{1, 8} {
		ratio, err := b.rate(ctx, r, pullers, queued)
		if err != nil {
			return err
		}
		if ratios[pullers] == nil {
			ratios[pullers] = map[int]float64{}
		}
		ratios[pullers][queued] = ratio
	}
	peak, err := b.server.memory("VmHWM")
	if err != nil {
		return err
	}
	r.add(fmt.Sprintf("peak memory of the server, %d queued", queued), peak/(1<<20), "MiB", bar{})
	if queued == shallow { // too few to tell from everything else
		return nil
	}
	return b.empty(ctx, r, queued, before, full)
}

// An emulatorBench is a server and clients of it, one connection each.
type emulatorBench struct {
	server *process
	pubsub []*grpc.ClientConn
	echo   []*grpc.ClientConn
}

// startEmulatorBench starts one of servers, which has so many addresses.
func startEmulatorBench(ctx context.Context, program string, addresses, clients int) (*emulatorBench, error) {
	server, err := startProcess(ctx, program, addresses)
	if err != nil {
		return nil, err
	}
	b := &emulatorBench{server: server}
	for range clients {
		for i, conns := range []*[]*grpc.ClientConn{&b.pubsub, &b.echo}[:addresses] {
			conn, err := grpc.NewClient(server.lines[i], grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				b.close()
				return nil, err
			}
			*conns = append(*conns, conn)
		}
	}
	return b, nil
}

func (b *emulatorBench) close() {
	for _, conn := range append(b.pubsub, b.echo...) {
		_ = conn.Close() // the server is about to end anyway
	}
	_ = b.server.stop() // all is measured
}

// fill publishes n messages and reports what one of them costs in memory. It
// returns the server's memory before and after, in bytes.
func (b *emulatorBench) fill(ctx context.Context, r *report, n int) (before, after float64, err error) {
	before, err = b.server.memory("RssAnon")
	if err != nil {
		return 0, 0, err
	}
	start := time.Now()
	if err := b.publish(ctx, n); err != nil {
		return 0, 0, err
	}
	took := time.Since(start)
	after, err = b.server.memory("RssAnon")
	if err != nil || n < deep { // too few to tell from everything else
		return before, after, err
	}
	r.add(fmt.Sprintf("publish in batches of %d", roundSize), float64(n)/took.Seconds(), "messages/s", bar{})
	each := (after - before) / float64(n)
	r.add(fmt.Sprintf("memory for one queued message, beside its %d bytes", messageBytes), each-messageBytes, "bytes", atMost(800))
	return before, after, nil
}

func (b *emulatorBench) publish(ctx context.Context, n int) error {
	client := pubsubpb.NewPublisherClient(b.pubsub[0])
	for ; n > 0; n -= roundSize {
		if _, err := client.Publish(ctx, publishRequest(min(n, roundSize), "")); err != nil {
			return err
		}
	}
	return nil
}

// publishRequest publishes n messages with an ordering key, which may be empty.
func publishRequest(n int, key string) *pubsubpb.PublishRequest {
	req, data := &pubsubpb.PublishRequest{Topic: benchTopic}, make([]byte, messageBytes)
	for range n {
		req.Messages = append(req.Messages, &pubsubpb.PubsubMessage{Data: data, OrderingKey: key})
	}
	return req
}

// rate measures pull and ack of single messages, in turns with two bare calls,
// and returns the ratio of the two. The turns are short, so that the machine is as
// busy for one as for the other.
// The queue is never below its nominal depth: every round is published before
// it is pulled.
func (b *emulatorBench) rate(ctx context.Context, r *report, pullers, queued int) (float64, error) {
	var pulls, echoes, ratios []float64
	var client, server time.Duration
	for round := range rounds + 1 {
		if err := b.publish(ctx, roundSize); err != nil {
			return 0, err
		}
		var pulling, echoing time.Duration
		for range turns {
			ownBefore := ownCPU()
			used, err := b.server.cpuDuring(func() error {
				took, err := inParallel(pullers, func(i int) error { return b.pullAndAck(ctx, i) })
				pulling += took
				return err
			})
			if err != nil {
				return 0, err
			}
			if round > 0 {
				client += ownCPU() - ownBefore
				server += used
			}
			took, err := inParallel(pullers, func(i int) error { return b.echoTwice(ctx, i) })
			if err != nil {
				return 0, err
			}
			echoing += took
		}
		if round == 0 {
			continue // connections were opened, heaps grew
		}
		pulls, echoes = append(pulls, roundSize/pulling.Seconds()), append(echoes, roundSize/echoing.Seconds())
		ratios = append(ratios, echoing.Seconds()/pulling.Seconds())
	}
	what := fmt.Sprintf("%s, %d queued: ", plural(pullers), queued)
	r.add(what+"pull and ack", median(pulls), "messages/s", bar{})
	r.add(what+"best round", quantile(pulls, 1), "messages/s", bar{})
	r.add(what+"two bare calls", median(echoes), "pairs/s", bar{})
	r.add(what+"pull and ack against two bare calls", median(ratios), "ratio", atLeast(0.95))
	r.add(what+"processor time of the server", microseconds(server)/(rounds*roundSize), "µs/message", bar{})
	r.add(what+"processor time of the client", microseconds(client)/(rounds*roundSize), "µs/message", bar{})
	return median(ratios), nil
}

func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

func plural(pullers int) string {
	if pullers == 1 {
		return "1 puller"
	}
	return fmt.Sprintf("%d pullers", pullers)
}

// inParallel calls f roundSize/turns times, by as many goroutines, and returns
// how long that took. f is told which goroutine it runs on.
func inParallel(goroutines int, f func(i int) error) (time.Duration, error) {
	var running errgroup.Group
	start := time.Now()
	for i := range goroutines {
		running.Go(func() error {
			for range roundSize / turns / goroutines {
				if err := f(i); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err := running.Wait()
	return time.Since(start), err
}

func (b *emulatorBench) pullAndAck(ctx context.Context, i int) error {
	id, err := b.pull(ctx, i)
	if err != nil {
		return err
	}
	return b.ack(ctx, i, id)
}

// pull waits for one message, on connection i, and returns its ack id.
func (b *emulatorBench) pull(ctx context.Context, i int) (string, error) {
	resp, err := pubsubpb.NewSubscriberClient(b.pubsub[i]).Pull(ctx, &pubsubpb.PullRequest{Subscription: benchSub, MaxMessages: 1})
	if err != nil {
		return "", err
	}
	if len(resp.GetReceivedMessages()) != 1 {
		return "", errors.New("pull: no message")
	}
	return resp.GetReceivedMessages()[0].GetAckId(), nil
}

func (b *emulatorBench) ack(ctx context.Context, i int, id string) error {
	_, err := pubsubpb.NewSubscriberClient(b.pubsub[i]).Acknowledge(ctx, &pubsubpb.AcknowledgeRequest{
		Subscription: benchSub,
		AckIds:       []string{id},
	})
	return err
}

func (b *emulatorBench) echoTwice(ctx context.Context, i int) error {
	for range 2 {
		in := wrapperspb.Bytes(make([]byte, messageBytes))
		if err := b.echo[i].Invoke(ctx, "/bench.Echo/Echo", in, new(wrapperspb.BytesValue)); err != nil {
			return err
		}
	}
	return nil
}

// latency measures from the start of a publish to the end of the pull that
// waited for it.
func (b *emulatorBench) latency(ctx context.Context, r *report) error {
	const samples = 2000
	type answer struct {
		at  time.Time
		id  string
		err error
	}
	answers := make(chan answer)
	var took []time.Duration
	for i := range samples {
		go func() {
			id, err := b.pull(ctx, 1)
			answers <- answer{time.Now(), id, err}
		}()
		// Long enough for the pull to be waiting at the server.
		time.Sleep(2 * time.Millisecond)
		start := time.Now()
		err := b.publish(ctx, 1)
		got := <-answers
		if err := errors.Join(err, got.err); err != nil {
			return err
		}
		if err := b.ack(ctx, 1, got.id); err != nil {
			return err
		}
		if i >= samples/10 { // connections were opened, heaps grew
			took = append(took, got.at.Sub(start))
		}
	}
	r.add("publish to the answer of a blocked pull, p50", microseconds(quantile(took, 0.5)), "µs", atMost(1000))
	r.add("publish to the answer of a blocked pull, p99", microseconds(quantile(took, 0.99)), "µs", bar{})
	return nil
}
