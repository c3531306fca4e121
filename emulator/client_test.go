package emulator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// highLevel returns Google's high-level client.
func highLevel(t *testing.T, addr string) *pubsub.Client {
	t.Helper()
	client, err := pubsub.NewClient(t.Context(), "test", clientOptions(addr)...)
	must(t, err)
	t.Cleanup(func() { closeIt(t, client) })
	return client
}

func TestE03HighLevelClientReceivesEveryMessageOnce(t *testing.T) {
	s, addr := start(t)
	client := highLevel(t, addr)
	const count = 500
	publisher := client.Publisher(testTopic)
	for i := range count {
		publisher.Publish(t.Context(), &pubsub.Message{Data: fmt.Appendf(nil, "%d", i)})
	}
	publisher.Stop()

	sub := client.Subscriber(testSub)
	sub.ReceiveSettings.MaxOutstandingMessages = 100
	ctx, cancel := context.WithCancel(soon(t))
	defer cancel()
	var mu sync.Mutex
	seen := map[string]int{}
	nacked := false
	err := sub.Receive(ctx, func(_ context.Context, m *pubsub.Message) {
		mu.Lock()
		defer mu.Unlock()
		if string(m.Data) == "7" && !nacked {
			nacked = true
			m.Nack()
			return
		}
		seen[string(m.Data)]++
		m.Ack()
		if len(seen) == count {
			cancel()
		}
	})
	must(t, err)
	if len(seen) != count || !nacked {
		t.Errorf("received %d different messages, want %d, one of them after a nack", len(seen), count)
	}
	for data, n := range seen {
		if n != 1 {
			t.Errorf("message %s was received %d times", data, n)
		}
	}
	waitFor(t, func() bool { st := s.Stats()[0]; return st.Undelivered+st.Leased == 0 })
}

func TestE03StreamTakesAcksExtensionsAndPings(t *testing.T) {
	s, addr := start(t)
	topics, subs := clients(t, addr)
	publishOne(t, topics, "a")
	publishOne(t, topics, "b")
	stream, err := subs.StreamingPull(soon(t))
	must(t, err)
	send := func(req *pubsubpb.StreamingPullRequest) {
		t.Helper()
		must(t, stream.Send(req))
	}
	receive := func() *pubsubpb.StreamingPullResponse {
		t.Helper()
		resp, err := stream.Recv()
		must(t, err)
		return resp
	}
	send(&pubsubpb.StreamingPullRequest{
		Subscription: testSub, StreamAckDeadlineSeconds: 60, MaxOutstandingMessages: 1, ProtocolVersion: 1,
	})
	a := receive().GetReceivedMessages()
	if len(a) != 1 {
		t.Fatalf("got %d messages, want 1: the stream has credit for one", len(a))
	}
	send(&pubsubpb.StreamingPullRequest{})
	if pong := receive(); len(pong.GetReceivedMessages()) != 0 {
		t.Fatalf("ping answered with %v", pong)
	}
	send(&pubsubpb.StreamingPullRequest{ModifyDeadlineAckIds: []string{a[0].GetAckId()}, ModifyDeadlineSeconds: []int32{0}})
	a = receive().GetReceivedMessages()
	if string(a[0].GetMessage().GetData()) != "a" {
		t.Fatalf("after a nack came %v, want a again", a)
	}
	send(&pubsubpb.StreamingPullRequest{AckIds: []string{a[0].GetAckId()}})
	b := receive().GetReceivedMessages()
	if string(b[0].GetMessage().GetData()) != "b" {
		t.Fatalf("after the ack came %v, want b", b)
	}
	// A unary ack of a streamed message, as the Python client sends them, gives
	// credit back too.
	publishOne(t, topics, "c")
	err = subs.Acknowledge(soon(t), &pubsubpb.AcknowledgeRequest{Subscription: testSub, AckIds: []string{b[0].GetAckId()}})
	must(t, err)
	if c := receive().GetReceivedMessages(); string(c[0].GetMessage().GetData()) != "c" {
		t.Fatalf("after a unary ack came %v, want c", c)
	}
	must(t, stream.CloseSend())
	if resp, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("closed stream: %v, %v; want a clean end", resp, err)
	}
	waitFor(t, func() bool { return s.Stats()[0].WaitingPulls == 0 })
}

func TestE03StreamEndsWithItsSubscription(t *testing.T) {
	s, addr := start(t)
	_, subs := clients(t, addr)
	stream, err := subs.StreamingPull(soon(t))
	must(t, err)
	must(t, stream.Send(&pubsubpb.StreamingPullRequest{Subscription: testSub, StreamAckDeadlineSeconds: 10}))
	waitFor(t, func() bool { return s.Stats()[0].WaitingPulls == 1 })
	err = subs.DeleteSubscription(soon(t), &pubsubpb.DeleteSubscriptionRequest{Subscription: testSub})
	must(t, err)
	_, err = stream.Recv()
	wantCode(t, err, codes.NotFound)
}

// The rest is in clienttest, over gRPC and REST alike.
func TestRequestsAreChecked(t *testing.T) {
	_, addr := start(t)
	conn := dial(t, addr)
	pub, sub := pubsubpb.NewPublisherClient(conn), pubsubpb.NewSubscriberClient(conn)
	const newTopic, newSub = "projects/test/topics/new", "projects/test/subscriptions/new"
	publish := func(msgs ...*pubsubpb.PubsubMessage) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := pub.Publish(ctx, &pubsubpb.PublishRequest{Topic: testTopic, Messages: msgs})
			return err
		}
	}
	createTopic := func(topic *pubsubpb.Topic) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := pub.CreateTopic(ctx, topic)
			return err
		}
	}
	create := func(s *pubsubpb.Subscription) func(context.Context) error {
		return func(ctx context.Context) error {
			s.Name, s.Topic = newSub, testTopic
			_, err := sub.CreateSubscription(ctx, s)
			return err
		}
	}
	update := func(s *pubsubpb.Subscription, paths ...string) func(context.Context) error {
		return func(ctx context.Context) error {
			s.Name = testSub
			_, err := sub.UpdateSubscription(ctx, &pubsubpb.UpdateSubscriptionRequest{Subscription: s, UpdateMask: &fieldmaskpb.FieldMask{Paths: paths}})
			return err
		}
	}
	pull := func(name string, most int32) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := sub.Pull(ctx, &pubsubpb.PullRequest{Subscription: name, MaxMessages: most})
			return err
		}
	}
	tests := []struct {
		name string
		call func(context.Context) error
		want codes.Code
		says string
	}{
		{"topic name without a project", createTopic(&pubsubpb.Topic{Name: "topics/abc"}), codes.InvalidArgument, "projects/"},
		{"topic with a key", createTopic(&pubsubpb.Topic{Name: newTopic, KmsKeyName: "k"}), codes.Unimplemented, "kms_key_name"},
		{"topic with a schema", createTopic(&pubsubpb.Topic{Name: newTopic, SchemaSettings: &pubsubpb.SchemaSettings{Schema: "s"}}), codes.InvalidArgument, "schemas/{id}"},
		{"topic with every allowed character", createTopic(&pubsubpb.Topic{Name: "projects/a.b:c-d/topics/aZ09-_.~+%"}), codes.OK, ""},
		{"message transforms", create(&pubsubpb.Subscription{MessageTransforms: []*pubsubpb.MessageTransform{{}}}), codes.Unimplemented, "message_transforms"},
		{"snapshot with a bad name", func(ctx context.Context) error {
			_, err := sub.CreateSnapshot(ctx, &pubsubpb.CreateSnapshotRequest{Name: "snap", Subscription: testSub})
			return err
		}, codes.InvalidArgument, "snapshots/{id}"},
		{"seek to no time", func(ctx context.Context) error {
			_, err := sub.Seek(ctx, &pubsubpb.SeekRequest{Subscription: testSub, Target: &pubsubpb.SeekRequest_Time{Time: &timestamppb.Timestamp{Nanos: -1}}})
			return err
		}, codes.InvalidArgument, "invalid time"},
		{"push", create(&pubsubpb.Subscription{PushConfig: &pubsubpb.PushConfig{PushEndpoint: "http://x"}}), codes.Unimplemented, "push_config"},
		{"empty push and expiration", create(&pubsubpb.Subscription{PushConfig: &pubsubpb.PushConfig{}, ExpirationPolicy: &pubsubpb.ExpirationPolicy{}}), codes.OK, ""},
		{"update of what is not built", update(&pubsubpb.Subscription{PushConfig: &pubsubpb.PushConfig{PushEndpoint: "http://x"}}, "push_config"), codes.Unimplemented, "push_config"},
		{"update of a part that is not there", update(&pubsubpb.Subscription{}, "retry_policy.colour"), codes.InvalidArgument, "retry_policy.colour"},
		{"update of a part", update(&pubsubpb.Subscription{ExpirationPolicy: &pubsubpb.ExpirationPolicy{Ttl: durationpb.New(48 * time.Hour)}}, "expiration_policy.ttl"), codes.InvalidArgument, "shorter than message_retention_duration"},
		{"update to the default deadline", update(&pubsubpb.Subscription{}, "ack_deadline_seconds"), codes.OK, ""},
		{"update that clears what is clear", update(&pubsubpb.Subscription{}, "push_config"), codes.OK, ""},
		{"publish too large", publish(&pubsubpb.PubsubMessage{Data: make([]byte, maxMessageBytes/2+1)}, &pubsubpb.PubsubMessage{Data: make([]byte, maxMessageBytes/2)}), codes.InvalidArgument, "too large"},
		{"largest message", publish(&pubsubpb.PubsubMessage{Data: make([]byte, maxMessageBytes)}), codes.OK, ""},
		{"pull from nowhere", pull(testSub+"x", 1), codes.NotFound, testSub + "x"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.call(soon(t))
			wantCode(t, err, tt.want)
			if tt.says != "" && !strings.Contains(fmt.Sprint(err), tt.says) {
				t.Errorf("error %v does not say %q", err, tt.says)
			}
		})
	}
}

func TestListsComeInPages(t *testing.T) {
	s, addr := start(t)
	conn := dial(t, addr)
	pub := pubsubpb.NewPublisherClient(conn)
	for i := range 5 {
		must(t, s.EnsureTopic(fmt.Sprintf("projects/paged/topics/t-%d", i)))
	}
	var names []string
	req := &pubsubpb.ListTopicsRequest{Project: "projects/paged", PageSize: 2}
	for pages := 1; ; pages++ {
		resp, err := pub.ListTopics(soon(t), req)
		must(t, err)
		for _, topic := range resp.GetTopics() {
			names = append(names, topic.GetName()[len("projects/paged/topics/"):])
		}
		if req.PageToken = resp.GetNextPageToken(); req.PageToken == "" {
			if pages != 3 {
				t.Errorf("%d pages, want 3", pages)
			}
			break
		}
	}
	if got := strings.Join(names, " "); got != "t-0 t-1 t-2 t-3 t-4" {
		t.Errorf("listed %s", got)
	}
}

func TestAnswersAreBoundedInBytes(t *testing.T) {
	_, addr := start(t)
	topics, subs := clients(t, addr)
	for range 3 {
		publishOne(t, topics, strings.Repeat("x", maxPullBytes/2-10))
	}
	resp, err := subs.Pull(soon(t), &pubsubpb.PullRequest{Subscription: testSub, MaxMessages: 10})
	if err != nil || len(resp.GetReceivedMessages()) != 2 {
		t.Errorf("pulled %d messages, %v; want 2 of 3", len(resp.GetReceivedMessages()), err)
	}
}
