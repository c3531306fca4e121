package pubsub

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apiv1 "cloud.google.com/go/pubsub/v2/apiv1"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/api/option"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/batchfleet/batchfleet/emulator"
	"github.com/batchfleet/batchfleet/internal/testrun"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/worker"
)

const (
	topicName = "projects/test/topics/jobs"
	subName   = "projects/test/subscriptions/jobs"
)

// countingListener counts the connections it accepts.
type countingListener struct {
	net.Listener
	accepted atomic.Int32
}

func (l *countingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err == nil {
		l.accepted.Add(1)
	}
	return conn, err
}

// startEmulator serves the project's own emulator, with one subscription, until
// the test ends.
func startEmulator(t *testing.T) (*emulator.Server, *countingListener) {
	t.Helper()
	s := emulator.New(emulator.Config{Log: slog.New(slog.DiscardHandler)})
	if err := s.EnsureSubscription(subName, topicName, 600*time.Second); err != nil {
		t.Fatal(err)
	}
	inner, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &countingListener{Listener: inner}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := s.Serve(ctx, l); err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return s, l
}

// options are those of clients of the emulator at addr.
func options(t *testing.T, addr net.Addr) []option.ClientOption {
	t.Helper()
	opts, err := Options(addr.String())
	if err != nil {
		t.Fatal(err)
	}
	return opts
}

// opened checks what an Open function returned, and closes it with the test.
func opened[C io.Closer](t *testing.T, c C, err error) C {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// source opens a source on the emulator at addr.
func source(t *testing.T, addr net.Addr) *Source {
	t.Helper()
	s, err := OpenSource(t.Context(), subName, localRules, slog.New(slog.DiscardHandler), options(t, addr)...)
	return opened(t, s, err)
}

// publisher opens a publisher to the emulator at addr.
func publisher(t *testing.T, addr net.Addr) *Publisher {
	t.Helper()
	p, err := OpenPublisher(t.Context(), topicName, localRules, options(t, addr)...)
	return opened(t, p, err)
}

func publish(t *testing.T, p *Publisher, job jobs.Job) {
	t.Helper()
	if _, err := p.Publish(within(t), job); err != nil {
		t.Fatal(err)
	}
}

// within is a context that keeps a broken test from hanging.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// wantCounts waits until the subscription has so many messages undelivered and
// leased.
func wantCounts(t *testing.T, s *emulator.Server, undelivered, leased int) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	var got emulator.SubscriptionStats
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); <-tick.C {
		if got = s.Stats()[0]; got.Undelivered == undelivered && got.Leased == leased {
			return
		}
	}
	t.Fatalf("%d messages undelivered, %d leased; want %d and %d", got.Undelivered, got.Leased, undelivered, leased)
}

// wantPulls waits until so many pulls wait for a message, of all subscriptions
// together.
func wantPulls(t *testing.T, s *emulator.Server, want int) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	got := 0
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); <-tick.C {
		got = 0
		for _, st := range s.Stats() {
			got += st.WaitingPulls
		}
		if got == want {
			return
		}
	}
	t.Fatalf("%d pulls wait, want %d", got, want)
}

func TestF03PublishedJobIsLeasedWhole(t *testing.T) {
	s, l := startEmulator(t)
	src := source(t, l.Addr())
	want := jobs.Job{ID: "a", Kind: "mock", Input: "uploads/a/報告.pdf", Pages: 3, Submitted: time.Unix(1_800_000_000, 0).UTC(), Trace: goodTrace}
	publish(t, publisher(t, l.Addr()), want)
	before := time.Now()
	lease, err := src.Lease(within(t))
	if err != nil || lease.Invalid != nil {
		t.Fatalf("lease: %v, %v", err, lease.Invalid)
	}
	if diff := cmp.Diff(want, lease.Job); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if until := lease.Until.Sub(before); until < 600*time.Second || until > 620*time.Second {
		t.Errorf("lease lasts %s, want the subscription's 600 s", until)
	}
	wantCounts(t, s, 0, 1)
	if err := src.Ack(within(t), lease); err != nil {
		t.Error(err)
	}
	wantCounts(t, s, 0, 0)
}

func TestF01EightSlotsShareOneConnection(t *testing.T) {
	_, l := startEmulator(t)
	src := source(t, l.Addr())
	ctx := within(t)
	var slots sync.WaitGroup
	var mu sync.Mutex
	seen := map[jobs.ID]bool{}
	for range 8 {
		slots.Go(func() {
			for range 5 {
				lease, err := src.Lease(ctx)
				if err != nil {
					t.Error(err)
					return
				}
				if err := src.Ack(ctx, lease); err != nil {
					t.Error(err)
				}
				mu.Lock()
				seen[lease.Job.ID] = true
				mu.Unlock()
			}
		})
	}
	if _, err := src.Check(ctx); err != nil {
		t.Error(err)
	}
	conns := l.accepted.Load()
	p := publisher(t, l.Addr())
	for i := range 40 {
		publish(t, p, jobs.Job{ID: jobs.ID(fmt.Sprintf("j%d", i))})
	}
	slots.Wait()
	if len(seen) != 40 {
		t.Errorf("%d different jobs leased, want 40", len(seen))
	}
	// The publisher is a process of its own.
	if after := l.accepted.Load() - 1; conns != 1 || after != 1 {
		t.Errorf("the source made %d connections, then %d, want 1", conns, after)
	}
}

func TestF01BlockedLeaseWakesOnPublish(t *testing.T) {
	_, l := startEmulator(t)
	src := source(t, l.Addr())
	p := publisher(t, l.Addr())
	type answer struct {
		lease jobs.Lease
		at    time.Time
	}
	leased := make(chan answer)
	ctx, stop := context.WithCancel(within(t))
	defer stop()
	go func() {
		defer close(leased)
		for {
			lease, err := src.Lease(ctx)
			if err != nil {
				if ctx.Err() == nil {
					t.Error(err)
				}
				return
			}
			leased <- answer{lease, time.Now()}
		}
	}()
	const soon = 200 * time.Millisecond
	fastest := time.Hour
	// Of a machine that does other things meanwhile, the best try counts.
	for i := 0; i < 5 || i < 100 && fastest > soon; i++ {
		published := time.Now()
		publish(t, p, jobs.Job{ID: jobs.ID(fmt.Sprintf("j%d", i))})
		got, ok := <-leased
		if want := jobs.ID(fmt.Sprintf("j%d", i)); !ok || got.lease.Job.ID != want {
			t.Fatalf("leased %q, want %s", got.lease.Job.ID, want)
		}
		fastest = min(fastest, got.at.Sub(published))
	}
	if fastest > soon {
		t.Errorf("a lease came %s after the publish at best", fastest)
	}
	stop()
	<-leased // closed
}

func TestF17LeaseEndsSoonWithTheCauseOfItsContext(t *testing.T) {
	s, l := startEmulator(t)
	src := source(t, l.Addr())
	cause := errors.New("told to stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error)
	go func() {
		_, err := src.Lease(ctx)
		ended <- err
	}()
	wantPulls(t, s, 1)
	began := time.Now()
	cancel(cause)
	if err := <-ended; !errors.Is(err, cause) {
		t.Errorf("lease returned %v, want the cause", err)
	}
	if took := time.Since(began); took > 30*time.Second { // a pull lasts 60 s and more
		t.Errorf("it took %s", took)
	}
	wantPulls(t, s, 0) // the server hears of the end on another connection than of the job
	// A lease that was called off takes nothing, nor one that begins afterwards.
	publish(t, publisher(t, l.Addr()), jobs.Job{ID: "a"})
	if lease, err := src.Lease(ctx); !errors.Is(err, cause) {
		t.Errorf("lease after the end returned %+v, %v, want the cause", lease, err)
	}
	wantCounts(t, s, 1, 0)
}

// raw publishes messages as they stand and returns their ids.
func raw(t *testing.T, addr net.Addr, messages ...*pubsubpb.PubsubMessage) []string {
	t.Helper()
	topics, err := apiv1.NewTopicAdminClient(t.Context(), options(t, addr)...)
	if err != nil {
		t.Fatal(err)
	}
	defer topics.Close()
	ids := make([]string, len(messages))
	for i, m := range messages {
		reply, err := topics.Publish(within(t), &pubsubpb.PublishRequest{Topic: topicName, Messages: []*pubsubpb.PubsubMessage{m}})
		if err != nil {
			t.Fatalf("publish %.40q: %v", m.GetData(), err)
		}
		ids[i] = reply.GetMessageIds()[0]
	}
	return ids
}

func TestF04MalformedMessageIsLeasedWithoutAJob(t *testing.T) {
	_, l := startEmulator(t)
	src := source(t, l.Addr())
	for name, data := range malformed {
		m := &pubsubpb.PubsubMessage{Data: []byte(data), Attributes: map[string]string{"note": name}}
		want := jobs.Raw{ID: raw(t, l.Addr(), m)[0], Queue: subName, Data: m.GetData(), Attributes: m.GetAttributes()}
		lease, err := src.Lease(within(t))
		if err != nil || lease.Job.ID != "" || !errors.Is(lease.Invalid, errMalformed) {
			t.Fatalf("%s: lease of job %q that is invalid for %v, %v; want no job", name, lease.Job.ID, lease.Invalid, err)
		}
		got := lease.Raw
		if !bytes.Equal(got.Data, want.Data) {
			t.Errorf("%s: leased with %d bytes, want the %d that were sent", name, len(got.Data), len(want.Data))
		}
		got.Data, want.Data = nil, nil // some are large
		want.Ack = lease.ID
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if err := src.Ack(within(t), lease); err != nil {
			t.Error(err)
		}
	}
}

func TestF04JobOfABadMessageIsLeasedToBeFailed(t *testing.T) {
	_, l := startEmulator(t)
	src := source(t, l.Addr())
	publish(t, publisher(t, l.Addr()), jobs.Job{ID: "a", Input: "../secret"})
	lease, err := src.Lease(within(t))
	if err != nil || lease.Job.ID != "a" || lease.Invalid == nil || !strings.Contains(lease.Invalid.Error(), "pdf_path") {
		t.Errorf("lease = %+v, %v; want one that is invalid for its pdf_path", lease, err)
	}
}

func TestF06NackedJobComesBackAndExtendedOneStays(t *testing.T) {
	s, l := startEmulator(t)
	src := source(t, l.Addr())
	publish(t, publisher(t, l.Addr()), jobs.Job{ID: "a"})
	first, err := src.Lease(within(t))
	if err != nil {
		t.Fatal(err)
	}
	if lost, err := src.Extend(within(t), []jobs.Lease{first}, 600*time.Second); err != nil || len(lost) > 0 {
		t.Errorf("extend: %v, %v", lost, err)
	}
	wantCounts(t, s, 0, 1)
	if err := src.Nack(within(t), first, 0); err != nil {
		t.Fatal(err)
	}
	second, err := src.Lease(within(t))
	if err != nil || second.Job.ID != "a" || second.ID == first.ID {
		t.Errorf("lease = %+v, %v; want the same job under another lease", second, err)
	}
	// The first lease is over: its ack is no error and ends nothing.
	if err := src.Ack(within(t), first); err != nil {
		t.Error(err)
	}
	wantCounts(t, s, 0, 1)
}

func TestF15EmulatorThatFailsIsUnavailable(t *testing.T) {
	s, l := startEmulator(t)
	src := source(t, l.Addr())
	s.Fail("Pull", 1, codes.Unavailable)
	if _, err := src.Lease(within(t)); !errors.Is(err, jobs.ErrUnavailable) {
		t.Errorf("lease: %v, want ErrUnavailable", err)
	}
	publish(t, publisher(t, l.Addr()), jobs.Job{ID: "a"})
	if lease, err := src.Lease(within(t)); err != nil || lease.Job.ID != "a" {
		t.Errorf("lease = %+v, %v; want the job once the trouble is over", lease, err)
	}
}

func TestF15MissingQueueIsRefused(t *testing.T) {
	_, l := startEmulator(t)
	src := source(t, l.Addr())
	src.subscription = "projects/test/subscriptions/other"
	if _, err := src.Lease(within(t)); !errors.Is(err, worker.ErrRefused) || !strings.Contains(err.Error(), src.subscription) {
		t.Errorf("lease: %v, want worker.ErrRefused and the name", err)
	}
	if _, err := src.Check(within(t)); !errors.Is(err, worker.ErrRefused) {
		t.Errorf("check: %v, want worker.ErrRefused", err)
	}
	p := publisher(t, l.Addr())
	p.topic = "projects/test/topics/other"
	if err := p.Check(within(t)); !errors.Is(err, worker.ErrRefused) {
		t.Errorf("check of the topic: %v, want worker.ErrRefused", err)
	}
	if _, err := p.Publish(within(t), jobs.Job{ID: "a"}); !errors.Is(err, worker.ErrRefused) || !strings.Contains(err.Error(), "publish job a") {
		t.Errorf("publish: %v, want worker.ErrRefused", err)
	}
}

func TestF15ProbeSaysWhetherPubSubAnswers(t *testing.T) {
	for _, tt := range []struct {
		name string
		code codes.Code
		want error
	}{
		{"it answers", codes.OK, nil},
		{"it answers that the subscription may not be looked at", codes.PermissionDenied, nil},
		{"it cannot be reached", codes.Unavailable, jobs.ErrUnavailable},
		{"the subscription is not there", codes.NotFound, worker.ErrRefused},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := &answers{look: func() (*pubsubpb.Subscription, error) {
				return &pubsubpb.Subscription{AckDeadlineSeconds: 10}, status.Error(tt.code, "so it is")
			}}
			inMemory(t, a, func(t *testing.T, src *Source) {
				both := &PrioritySource{Priority: src.Beside(subName + "-priority"), Normal: src}
				for _, prober := range []worker.Prober{src, both} {
					if err := prober.Probe(t.Context()); !errors.Is(err, tt.want) {
						t.Errorf("probe of %T: %v, want %v", prober, err, tt.want)
					}
				}
			})
		})
	}
}

func TestF05EmulatorHost(t *testing.T) {
	tests := []struct{ host, want string }{ // want is part of the error
		{"", ""},
		{"localhost:8085", ""},
		{"[::1]:8085", ""},
		{"http://localhost:8085", `without "http://"`},
		{"https://localhost:8085", `without "https://"`},
		{"localhost", "give host:port"},
		{"localhost:", "give host:port"},
		{"::1", "give host:port"},
	}
	for _, tt := range tests {
		t.Run(tt.host, func(t *testing.T) {
			opts, err := Options(tt.host)
			switch {
			case tt.want == "" && err != nil, tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "PUBSUB_EMULATOR_HOST")):
				t.Errorf("error %v, want %q", err, tt.want)
			case (err == nil) != (len(opts) > 0):
				t.Errorf("%d options for host %q", len(opts), tt.host) // keepalive is for Google's too
			}
		})
	}
}

func TestF05SubscriptionNames(t *testing.T) {
	tests := []struct {
		project, name, want string // want is empty for an error
	}{
		{"p", "s", "projects/p/subscriptions/s"},
		{"p", "projects/q/subscriptions/s", "projects/q/subscriptions/s"},
		{"", "projects/q/subscriptions/s", "projects/q/subscriptions/s"},
		{"", "s", ""},
		{"p", "", ""},
		{"p", "projects/q/topics/s", ""},
		{"p", "projects/q/subscriptions/", ""},
		{"p", "projects/q/subscriptions/s/t", ""},
		{"p", "subscriptions/s", ""},
	}
	for _, tt := range tests {
		got, err := SubscriptionName("PUBSUB_SUBSCRIPTION", tt.project, tt.name)
		if got != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("SubscriptionName(%q, %q) = %q, %v; want %q", tt.project, tt.name, got, err, tt.want)
		}
		if err != nil && !strings.Contains(err.Error(), "PUBSUB_SUBSCRIPTION") {
			t.Errorf("error %q names no variable", err)
		}
	}
	if got, err := TopicName("PUBSUB_TOPIC", "p", "t"); got != "projects/p/topics/t" || err != nil {
		t.Errorf("TopicName = %q, %v", got, err)
	}
}

// answers is a Pub/Sub server that says what a test wants.
type answers struct {
	pubsubpb.UnimplementedSubscriberServer
	pubsubpb.UnimplementedPublisherServer
	pull   func(context.Context, *pubsubpb.PullRequest) (*pubsubpb.PullResponse, error)
	modify func(*pubsubpb.ModifyAckDeadlineRequest) error
	ack    error
	ackAll func(ids []string) error
	acked  atomic.Int32
	look   func() (*pubsubpb.Subscription, error)
}

func (a *answers) Pull(ctx context.Context, r *pubsubpb.PullRequest) (*pubsubpb.PullResponse, error) {
	return a.pull(ctx, r)
}

func (a *answers) ModifyAckDeadline(_ context.Context, r *pubsubpb.ModifyAckDeadlineRequest) (*emptypb.Empty, error) {
	return &emptypb.Empty{}, a.modify(r)
}

func (a *answers) Acknowledge(_ context.Context, r *pubsubpb.AcknowledgeRequest) (*emptypb.Empty, error) {
	a.acked.Add(1)
	if a.ackAll != nil {
		return &emptypb.Empty{}, a.ackAll(r.GetAckIds())
	}
	return &emptypb.Empty{}, a.ack
}

func (a *answers) GetSubscription(context.Context, *pubsubpb.GetSubscriptionRequest) (*pubsubpb.Subscription, error) {
	if a.look == nil {
		return &pubsubpb.Subscription{AckDeadlineSeconds: 600}, nil
	}
	return a.look()
}

func (a *answers) Publish(context.Context, *pubsubpb.PublishRequest) (*pubsubpb.PublishResponse, error) {
	return &pubsubpb.PublishResponse{}, nil
}

// inMemory runs test in virtual time with a source on a connection that is no
// network.
func inMemory(t *testing.T, a *answers, test func(*testing.T, *Source)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := bufconn.Listen(1 << 20)
		server := grpc.NewServer()
		pubsubpb.RegisterSubscriberServer(server, a)
		pubsubpb.RegisterPublisherServer(server, a)
		var serving sync.WaitGroup
		serving.Go(func() { _ = server.Serve(l) })
		opts := []option.ClientOption{
			option.WithEndpoint("passthrough:///memory"), option.WithoutAuthentication(), option.WithTelemetryDisabled(),
			option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())),
			option.WithGRPCDialOption(grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) })),
		}
		src, err := OpenSource(t.Context(), subName, localRules, slog.New(slog.DiscardHandler), opts...)
		if err != nil {
			t.Fatal(err)
		}
		test(t, src)
		if err := src.Close(); err != nil {
			t.Error(err)
		}
		server.Stop()
		serving.Wait()
	})
}

func message() *pubsubpb.PullResponse {
	return &pubsubpb.PullResponse{ReceivedMessages: []*pubsubpb.ReceivedMessage{{
		AckId: "ack1", Message: &pubsubpb.PubsubMessage{MessageId: "1", Data: []byte(`{"job_id":"a"}`)}, DeliveryAttempt: 4,
	}}}
}

func TestF02PullAsksForOneMessageWithALongDeadline(t *testing.T) {
	var mu sync.Mutex // a client gives up a moment before its server sees it
	var took []time.Duration
	a := &answers{pull: func(ctx context.Context, r *pubsubpb.PullRequest) (*pubsubpb.PullResponse, error) {
		deadline, ok := ctx.Deadline()
		if !ok || r.GetMaxMessages() != 1 || r.GetSubscription() != subName || r.GetReturnImmediately() { //nolint:staticcheck // must stay unset
			t.Errorf("pull %v, deadline %t", r, ok)
		}
		mu.Lock()
		took = append(took, time.Until(deadline))
		last := len(took) == 30
		mu.Unlock()
		if last {
			return message(), nil
		}
		<-ctx.Done() // a server that never answers
		return nil, status.FromContextError(ctx.Err()).Err()
	}}
	inMemory(t, a, func(t *testing.T, src *Source) {
		lease, err := src.Lease(t.Context())
		if err != nil || lease.Job.ID != "a" || lease.ID != "ack1" || lease.Delivery != 4 {
			t.Errorf("lease = %+v, %v", lease, err)
		}
		different := map[time.Duration]bool{}
		for _, d := range took {
			if d < 60*time.Second-time.Millisecond || d > 90*time.Second {
				t.Errorf("a pull has %s, want 60 to 90 s", d)
			}
			different[d.Round(time.Second)] = true
		}
		if len(different) < 5 {
			t.Errorf("deadlines %v: a fleet would pull in step", took)
		}
	})
}

func TestF02EmptyAnswersAtOnceDoNotSpin(t *testing.T) {
	tests := []struct {
		name string
		err  error
	}{
		{"empty", nil},
		{"deadline exceeded", status.Error(codes.DeadlineExceeded, "nothing there")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var pulls atomic.Int64
			a := &answers{pull: func(context.Context, *pubsubpb.PullRequest) (*pubsubpb.PullResponse, error) {
				pulls.Add(1)
				return &pubsubpb.PullResponse{}, tt.err
			}}
			inMemory(t, a, func(t *testing.T, src *Source) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if _, err := src.Lease(ctx); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("lease: %v, want the end of its context", err)
				}
				if n := pulls.Load(); n < 55 || n > 61 {
					t.Errorf("%d pulls in a minute, want one a second", n)
				}
			})
		})
	}
}

func TestF02LateEmptyAnswerIsFollowedByTheNextPullAtOnce(t *testing.T) {
	var at []time.Time
	a := &answers{pull: func(context.Context, *pubsubpb.PullRequest) (*pubsubpb.PullResponse, error) {
		at = append(at, time.Now())
		if len(at) == 2 {
			return message(), nil
		}
		time.Sleep(30 * time.Second)
		return &pubsubpb.PullResponse{}, nil
	}}
	inMemory(t, a, func(t *testing.T, src *Source) {
		if _, err := src.Lease(t.Context()); err != nil {
			t.Fatal(err)
		}
		if gap := at[1].Sub(at[0]); gap != 30*time.Second {
			t.Errorf("the next pull came after %s, want 30 s", gap)
		}
	})
}

func TestF17ReplyOnItsWayIsStillTaken(t *testing.T) {
	tests := []struct {
		name  string
		after time.Duration // from the end of ctx to the reply
		taken bool
	}{
		{"just in time", 150 * time.Millisecond, true},
		{"too late", 250 * time.Millisecond, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cause := errors.New("told to stop")
			a := &answers{pull: func(ctx context.Context, _ *pubsubpb.PullRequest) (*pubsubpb.PullResponse, error) {
				select {
				case <-ctx.Done():
					return nil, status.FromContextError(ctx.Err()).Err()
				case <-time.After(10*time.Second + tt.after):
					return message(), nil
				}
			}}
			inMemory(t, a, func(t *testing.T, src *Source) {
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(10*time.Second, func() { cancel(cause) })
				began := time.Now()
				lease, err := src.Lease(ctx)
				if tt.taken && (err != nil || lease.Job.ID != "a") || !tt.taken && !errors.Is(err, cause) {
					t.Errorf("lease = %+v, %v; want taken: %t", lease, err, tt.taken)
				}
				if took := time.Since(began) - 10*time.Second; took > replyGrace {
					t.Errorf("it returned %s after the end of its context, want at most %s", took, replyGrace)
				}
			})
		})
	}
}

func TestF07LeaseLastsAsLongAsTheSubscriptionSays(t *testing.T) {
	tests := []struct {
		name string
		look func() (*pubsubpb.Subscription, error)
		want time.Duration
	}{
		{"usual", nil, 600 * time.Second},
		{"short", func() (*pubsubpb.Subscription, error) {
			return &pubsubpb.Subscription{AckDeadlineSeconds: 10}, nil
		}, 10 * time.Second}, // the shortest Pub/Sub gives
		{"may not be asked", func() (*pubsubpb.Subscription, error) {
			return nil, status.Error(codes.PermissionDenied, "no viewer")
		}, 0},
		{"cannot be asked", func() (*pubsubpb.Subscription, error) {
			return nil, status.Error(codes.Unavailable, "down")
		}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := &answers{look: tt.look, pull: func(context.Context, *pubsubpb.PullRequest) (*pubsubpb.PullResponse, error) {
				return message(), nil
			}}
			inMemory(t, a, func(t *testing.T, src *Source) {
				lease, err := src.Lease(t.Context())
				if got := time.Until(lease.Until); err != nil || got != tt.want {
					t.Errorf("lease lasts %s, %v; want %s", got, err, tt.want)
				}
			})
		})
	}
}

func TestF06ExtensionsAndNacksAreInWholeSeconds(t *testing.T) {
	var got *pubsubpb.ModifyAckDeadlineRequest
	a := &answers{modify: func(r *pubsubpb.ModifyAckDeadlineRequest) error {
		got = r
		return nil
	}}
	inMemory(t, a, func(t *testing.T, src *Source) {
		tests := []struct {
			d    time.Duration
			want int32
		}{
			{600 * time.Second, 600},
			{599*time.Second + 1, 600},
			{time.Second, 1},
			{time.Second + 1, 2},
			{time.Millisecond, 1},
			{0, 0},
			{-time.Hour, 0},
			{601 * time.Second, 600},
			{time.Hour, 600},
			{1<<63 - 1, 600},
		}
		for _, tt := range tests {
			if err := src.Nack(t.Context(), jobs.Lease{ID: "x"}, tt.d); err != nil || got.GetAckDeadlineSeconds() != tt.want {
				t.Errorf("nack after %s became %d s, %v; want %d", tt.d, got.GetAckDeadlineSeconds(), err, tt.want)
			}
		}
		leases := []jobs.Lease{{ID: "x"}, {ID: "y"}}
		if lost, err := src.Extend(t.Context(), leases, 45*time.Second); err != nil || len(lost) > 0 {
			t.Errorf("extend: %v, %v", lost, err)
		}
		if diff := cmp.Diff([]string{"x", "y"}, got.GetAckIds()); diff != "" || got.GetAckDeadlineSeconds() != 45 || got.GetSubscription() != subName {
			t.Errorf("extend asked for %v", got)
		}
	})
}

// exactlyOnce is the error of a subscription with exactly-once delivery. Its details
// hold a reason for each ack id.
func exactlyOnce(t *testing.T, reasons map[string]string) error {
	t.Helper()
	s, err := status.New(codes.FailedPrecondition, "Some acknowledgement ids in the request were invalid.").
		WithDetails(&errdetails.ErrorInfo{Reason: "EXACTLY_ONCE_ACKID_FAILURE", Domain: "pubsub.googleapis.com", Metadata: reasons})
	if err != nil {
		t.Fatal(err)
	}
	return s.Err()
}

func TestF08ExactlyOnceAnswersToAnExtension(t *testing.T) {
	const lost, later = "PERMANENT_FAILURE_INVALID_ACK_ID", "TRANSIENT_FAILURE_INVALID_ACK_ID"
	tests := []struct {
		name    string
		reasons map[string]string
		lost    string
		fails   bool
	}{
		{"all lost", map[string]string{"x": lost, "y": lost}, "x y", false},
		{"one lost, one to be tried again", map[string]string{"x": lost, "y": later}, "x", true},
		{"all to be tried again", map[string]string{"x": later, "y": later}, "", true},
		{"no detail", nil, "", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := &answers{modify: func(*pubsubpb.ModifyAckDeadlineRequest) error { return exactlyOnce(t, tt.reasons) }}
			inMemory(t, a, func(t *testing.T, src *Source) {
				lost, err := src.Extend(t.Context(), []jobs.Lease{{ID: "x"}, {ID: "y"}}, time.Minute)
				var names []string
				for _, id := range []string{"x", "y"} {
					if lost[id] != nil {
						names = append(names, id)
					}
				}
				if got := strings.Join(names, " "); got != tt.lost || len(lost) != len(names) {
					t.Errorf("lost %v, want %q", lost, tt.lost)
				}
				if (err != nil) != tt.fails || err != nil && !errors.Is(err, jobs.ErrUnavailable) {
					t.Errorf("error %v, want one: %t", err, tt.fails)
				}
			})
		})
	}
}

func TestF08ExactlyOnceAnswersToAnAck(t *testing.T) {
	tests := []struct {
		name, reason string
		want         error
	}{
		{"lost lease: nothing to ack", "PERMANENT_FAILURE_INVALID_ACK_ID", nil},
		{"try again", "TRANSIENT_FAILURE_INVALID_ACK_ID", jobs.ErrUnavailable},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			answer := exactlyOnce(t, map[string]string{"x": tt.reason})
			a := &answers{ack: answer, modify: func(*pubsubpb.ModifyAckDeadlineRequest) error { return answer }}
			inMemory(t, a, func(t *testing.T, src *Source) {
				if err := src.Ack(t.Context(), jobs.Lease{ID: "x"}); !errors.Is(err, tt.want) || tt.want == nil && err != nil {
					t.Errorf("ack: %v, want %v", err, tt.want)
				}
				if err := src.Nack(t.Context(), jobs.Lease{ID: "x"}, 0); !errors.Is(err, tt.want) || tt.want == nil && err != nil {
					t.Errorf("nack: %v, want %v", err, tt.want)
				}
			})
		})
	}
}

func TestF15ErrorsTellWhetherAPersonMustMendThem(t *testing.T) {
	for code := codes.Canceled; code <= codes.Unauthenticated; code++ {
		want := jobs.ErrUnavailable
		switch code { //nolint:exhaustive // the rest may pass
		case codes.NotFound, codes.PermissionDenied, codes.Unauthenticated, codes.InvalidArgument:
			want = worker.ErrRefused
		case codes.DeadlineExceeded:
			continue // of a pull it means: no message
		}
		t.Run(code.String(), func(t *testing.T) {
			refusal := status.Error(code, "so it is")
			pulls := 0
			a := &answers{
				pull: func(context.Context, *pubsubpb.PullRequest) (*pubsubpb.PullResponse, error) {
					pulls++
					return nil, refusal
				},
				modify: func(*pubsubpb.ModifyAckDeadlineRequest) error { return refusal },
				ack:    refusal,
			}
			inMemory(t, a, func(t *testing.T, src *Source) {
				_, leaseErr := src.Lease(t.Context())
				_, extendErr := src.Extend(t.Context(), []jobs.Lease{{ID: "x"}}, time.Minute)
				for what, err := range map[string]error{
					"lease": leaseErr, "extend": extendErr,
					"nack": src.Nack(t.Context(), jobs.Lease{ID: "x"}, 0), "ack": src.Ack(t.Context(), jobs.Lease{ID: "x"}),
				} {
					if !errors.Is(err, want) || errors.Is(err, jobs.ErrUnavailable) == errors.Is(err, worker.ErrRefused) || !strings.Contains(err.Error(), "so it is") {
						t.Errorf("%s: %v, want %v", what, err, want)
					}
				}
				if pulls != 1 {
					t.Errorf("%d pulls, want 1: retries are the worker's", pulls)
				}
			})
		})
	}
}

func TestPublishWithoutAnAnswerIsNoSuccess(t *testing.T) {
	t.Parallel()
	testrun.Long(t, "it waits for seconds")
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	pubsubpb.RegisterPublisherServer(server, &answers{})
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) })
	defer serving.Wait()
	defer server.Stop()
	if id, err := publisher(t, l.Addr()).Publish(within(t), jobs.Job{ID: "a"}); !errors.Is(err, jobs.ErrUnavailable) {
		t.Errorf("publish = %q, %v; want ErrUnavailable", id, err)
	}
}

func TestF02IdleSourceLogsNothing(t *testing.T) {
	var log bytes.Buffer
	a := &answers{pull: func(context.Context, *pubsubpb.PullRequest) (*pubsubpb.PullResponse, error) {
		return &pubsubpb.PullResponse{}, nil
	}}
	inMemory(t, a, func(t *testing.T, src *Source) {
		src.log = slog.New(slog.NewTextHandler(&log, nil))
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if _, err := src.Lease(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("lease: %v", err)
		}
		if log.Len() > 0 {
			t.Errorf("an idle hour logged:\n%s", &log)
		}
	})
}
