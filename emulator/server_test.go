package emulator

import (
	"context"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	pubsubapi "cloud.google.com/go/pubsub/v2/apiv1"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"go.uber.org/goleak"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/batchfleet/batchfleet/internal/testnet"
)

func TestMain(m *testing.M) {
	// Started by an import of Google's client libraries.
	goleak.VerifyTestMain(m,
		goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"),
		// Looks at its context only when its ticker ticks, every 10 s.
		goleak.IgnoreTopFunction("cloud.google.com/go/pubsub/v2.(*messageIterator).streamKeepAliveHandler"))
}

const (
	testTopic = "projects/test/topics/jobs"
	testSub   = "projects/test/subscriptions/jobs"
)

// start returns a running server with testTopic and testSub, and its address.
func start(t *testing.T) (*Server, string) {
	t.Helper()
	s := newServer(t)
	addr, _ := testnet.Serve(t, testnet.AnyPort, s.Serve)
	return s, addr
}

// newServer returns a server with testTopic and testSub that does not run.
func newServer(t *testing.T) *Server {
	t.Helper()
	s := New(Config{Log: slog.New(slog.DiscardHandler)})
	must(t, s.EnsureSubscription(testSub, testTopic, 600*time.Second))
	return s
}

// dial returns a plain gRPC connection.
func dial(t *testing.T, addr string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(t, err)
	t.Cleanup(func() { closeIt(t, conn) })
	return conn
}

// clientOptions are what points Google's clients to the emulator.
func clientOptions(addr string) []option.ClientOption {
	return []option.ClientOption{
		option.WithEndpoint(addr),
		option.WithoutAuthentication(),
		option.WithTelemetryDisabled(),
		option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())),
	}
}

// clients returns Google's low-level clients.
func clients(t *testing.T, addr string) (*pubsubapi.TopicAdminClient, *pubsubapi.SubscriptionAdminClient) {
	t.Helper()
	topics, err := pubsubapi.NewTopicAdminClient(t.Context(), clientOptions(addr)...)
	must(t, err)
	subs, err := pubsubapi.NewSubscriptionAdminClient(t.Context(), clientOptions(addr)...)
	must(t, err)
	t.Cleanup(func() {
		closeIt(t, topics)
		closeIt(t, subs)
	})
	return topics, subs
}

// soon is a context that keeps a broken test from hanging.
func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func publishOne(t *testing.T, topics *pubsubapi.TopicAdminClient, data string) string {
	t.Helper()
	resp, err := topics.Publish(soon(t), &pubsubpb.PublishRequest{
		Topic:    testTopic,
		Messages: []*pubsubpb.PubsubMessage{{Data: []byte(data), Attributes: map[string]string{"k": "v"}}},
	})
	must(t, err)
	return resp.GetMessageIds()[0]
}

func pullOne(t *testing.T, subs *pubsubapi.SubscriptionAdminClient) *pubsubpb.ReceivedMessage {
	t.Helper()
	resp, err := subs.Pull(soon(t), &pubsubpb.PullRequest{Subscription: testSub, MaxMessages: 1})
	must(t, err)
	if len(resp.GetReceivedMessages()) != 1 {
		t.Fatalf("pulled %d messages, want 1", len(resp.GetReceivedMessages()))
	}
	return resp.GetReceivedMessages()[0]
}

func wantCode(t *testing.T, err error, want codes.Code) {
	t.Helper()
	if got := status.Code(err); got != want {
		t.Errorf("error %v, want code %v", err, want)
	}
}

func TestPublishPullAcknowledgeWithGooglesClient(t *testing.T) {
	s, addr := start(t)
	topics, subs := clients(t, addr)
	id := publishOne(t, topics, "hello")
	got := pullOne(t, subs)
	m := got.GetMessage()
	if string(m.GetData()) != "hello" || m.GetAttributes()["k"] != "v" || m.GetMessageId() != id || got.GetDeliveryAttempt() != 0 {
		t.Errorf("pulled %v, want what was published as %s", got, id)
	}
	if age := time.Since(m.GetPublishTime().AsTime()); age < 0 || age > time.Minute {
		t.Errorf("published %v ago", age)
	}
	for range 2 { // the second is stale, and silently accepted
		err := subs.Acknowledge(soon(t), &pubsubpb.AcknowledgeRequest{Subscription: testSub, AckIds: []string{got.GetAckId()}})
		must(t, err)
	}
	if st := s.Stats()[0]; st.Undelivered+st.Leased != 0 || st.Acked != 1 {
		t.Errorf("stats %+v, want nothing left and 1 ack", st)
	}
}

func TestNackBringsTheMessageBackAtOnce(t *testing.T) {
	_, addr := start(t)
	topics, subs := clients(t, addr)
	publishOne(t, topics, "hello")
	first := pullOne(t, subs)
	err := subs.ModifyAckDeadline(soon(t), &pubsubpb.ModifyAckDeadlineRequest{Subscription: testSub, AckIds: []string{first.GetAckId()}})
	must(t, err)
	if again := pullOne(t, subs); again.GetMessage().GetMessageId() != first.GetMessage().GetMessageId() || again.GetAckId() == first.GetAckId() {
		t.Errorf("redelivered %v after %v, want the same message under a new ack id", again, first)
	}
}

func TestE05BlockedPullWakesOnPublish(t *testing.T) {
	s, addr := start(t)
	topics, subs := clients(t, addr)
	got := make(chan *pubsubpb.PullResponse, 1)
	var pulling sync.WaitGroup
	pulling.Go(func() {
		resp, err := subs.Pull(soon(t), &pubsubpb.PullRequest{Subscription: testSub, MaxMessages: 1})
		if err != nil {
			t.Error(err)
		}
		got <- resp
	})
	waitFor(t, func() bool { return s.Stats()[0].WaitingPulls == 1 })
	publishOne(t, topics, "hello")
	pulling.Wait()
	if resp := <-got; len(resp.GetReceivedMessages()) != 1 {
		t.Errorf("blocked pull answered %v, want one message", resp)
	}
}

// waitFor polls, for what a server on another goroutine shows no channel for.
func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for ctx := soon(t); !ok(); {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal("timed out")
		}
	}
}

func TestPullThatTheClientCancelsLeavesMessagesAlone(t *testing.T) {
	s, addr := start(t)
	topics, subs := clients(t, addr)
	ctx, cancel := context.WithCancel(t.Context())
	var pulling sync.WaitGroup
	pulling.Go(func() {
		_, err := subs.Pull(ctx, &pubsubpb.PullRequest{Subscription: testSub, MaxMessages: 1})
		wantCode(t, err, codes.Canceled)
	})
	waitFor(t, func() bool { return s.Stats()[0].WaitingPulls == 1 })
	cancel()
	pulling.Wait()
	waitFor(t, func() bool { return s.Stats()[0].WaitingPulls == 0 })
	publishOne(t, topics, "hello")
	if st := s.Stats()[0]; st.Undelivered != 1 {
		t.Errorf("stats %+v, want the message still there", st)
	}
}

func TestReturnImmediatelyDoesNotWait(t *testing.T) {
	_, addr := start(t)
	_, subs := clients(t, addr)
	resp, err := subs.Pull(soon(t), &pubsubpb.PullRequest{
		Subscription: testSub, MaxMessages: 1, ReturnImmediately: true, //nolint:staticcheck // deprecated, and still sent
	})
	if err != nil || len(resp.GetReceivedMessages()) != 0 {
		t.Errorf("pull: %v, %v; want an empty answer", resp, err)
	}
}

func TestE06ServeStopsAtOnceAndKeepsItsState(t *testing.T) {
	s := newServer(t)
	addr, stop := testnet.Serve(t, testnet.AnyPort, s.Serve)
	_, subs := clients(t, addr)
	silent, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr) // says nothing
	must(t, err)
	defer closeIt(t, silent)

	var pulling sync.WaitGroup
	pulling.Go(func() {
		// Not Google's client: it would try again.
		_, err := pubsubpb.NewSubscriberClient(dial(t, addr)).Pull(soon(t), &pubsubpb.PullRequest{Subscription: testSub, MaxMessages: 1})
		wantCode(t, err, codes.Unavailable)
	})
	pulling.Go(func() {
		resp, err := get(t, "POST", "http://"+addr+"/v1/"+testSub+":pull", `{"maxMessages": 1}`)
		if err == nil && resp.code == 200 {
			t.Errorf("pull over REST answered %v, want it cut", resp)
		}
	})
	stream, err := subs.StreamingPull(soon(t))
	must(t, err)
	must(t, stream.Send(&pubsubpb.StreamingPullRequest{Subscription: testSub, StreamAckDeadlineSeconds: 10}))
	waitFor(t, func() bool { return s.Stats()[0].WaitingPulls == 3 })
	stop()
	pulling.Wait()
	_, err = stream.Recv()
	wantCode(t, err, codes.Unavailable)
	if n := s.Stats()[0].WaitingPulls; n != 0 {
		t.Errorf("%d pulls still wait after the end", n)
	}

	addr, _ = testnet.Serve(t, testnet.AnyPort, s.Serve)
	topics, subs := clients(t, addr)
	publishOne(t, topics, "after")
	pullOne(t, subs)
}

func TestE07FailAndDropReplies(t *testing.T) {
	s, addr := start(t)
	conn := dial(t, addr)
	pub := pubsubpb.NewPublisherClient(conn)
	req := &pubsubpb.PublishRequest{Topic: testTopic, Messages: []*pubsubpb.PubsubMessage{{Data: []byte("x")}}}

	s.Fail("Publish", 2, codes.ResourceExhausted)
	for range 2 {
		_, err := pub.Publish(soon(t), req)
		wantCode(t, err, codes.ResourceExhausted)
	}
	if n := s.Stats()[0].Undelivered; n != 0 {
		t.Errorf("failed calls published %d messages", n)
	}
	s.DropReplies("Publish", 1)
	_, err := pub.Publish(soon(t), req)
	wantCode(t, err, codes.Unavailable)
	if n := s.Stats()[0].Undelivered; n != 1 {
		t.Errorf("%d messages after a lost reply, want 1", n)
	}
	if _, err := pub.Publish(soon(t), req); err != nil {
		t.Errorf("publish after the faults: %v", err)
	}

	s.Fail("Publish", 1, codes.PermissionDenied)
	resp, err := get(t, "POST", "http://"+addr+"/v1/"+testTopic+":publish", `{"messages":[{"data":"eA=="}]}`)
	if err != nil || resp.code != 403 {
		t.Errorf("REST publish: %v, %v, want 403", resp, err)
	}
}

func TestEnsureIsIdempotentAndChecksItsArguments(t *testing.T) {
	s := New(Config{Log: slog.New(slog.DiscardHandler)})
	for range 2 {
		must(t, s.EnsureSubscription(testSub, testTopic, 20*time.Second))
	}
	tests := []struct {
		name       string
		sub, topic string
		deadline   time.Duration
	}{
		{"other topic", testSub, "projects/test/topics/other", 20 * time.Second},
		{"bare name", "jobs", testTopic, 20 * time.Second},
		{"bad topic", "projects/test/subscriptions/new", "jobs", 20 * time.Second},
		{"short deadline", "projects/test/subscriptions/new", testTopic, 5 * time.Second},
		{"long deadline", "projects/test/subscriptions/new", testTopic, 1000 * time.Hour},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := s.EnsureSubscription(tt.sub, tt.topic, tt.deadline); err == nil {
				t.Error("accepted")
			}
		})
	}
}

// closeIt closes what a test opened.
func closeIt(t *testing.T, c io.Closer) {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}
