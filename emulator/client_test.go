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
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	send := func(req *pubsubpb.StreamingPullRequest) {
		t.Helper()
		if err := stream.Send(req); err != nil {
			t.Fatal(err)
		}
	}
	receive := func() *pubsubpb.StreamingPullResponse {
		t.Helper()
		resp, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
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
	if err != nil {
		t.Fatal(err)
	}
	if c := receive().GetReceivedMessages(); string(c[0].GetMessage().GetData()) != "c" {
		t.Fatalf("after a unary ack came %v, want c", c)
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if resp, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("closed stream: %v, %v; want a clean end", resp, err)
	}
	waitFor(t, func() bool { return s.Stats()[0].WaitingPulls == 0 })
}

func TestE03StreamEndsWithItsSubscription(t *testing.T) {
	s, addr := start(t)
	_, subs := clients(t, addr)
	stream, err := subs.StreamingPull(soon(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&pubsubpb.StreamingPullRequest{Subscription: testSub, StreamAckDeadlineSeconds: 10}); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { return s.Stats()[0].WaitingPulls == 1 })
	err = subs.DeleteSubscription(soon(t), &pubsubpb.DeleteSubscriptionRequest{Subscription: testSub})
	if err != nil {
		t.Fatal(err)
	}
	_, err = stream.Recv()
	wantCode(t, err, codes.NotFound)
}

func TestStreamRequestsAreChecked(t *testing.T) {
	s, addr := start(t)
	conn := dial(t, addr)
	valid := &pubsubpb.StreamingPullRequest{Subscription: testSub, StreamAckDeadlineSeconds: 10}
	tests := []struct {
		name     string
		requests []*pubsubpb.StreamingPullRequest
		want     codes.Code
	}{
		{"no subscription", []*pubsubpb.StreamingPullRequest{{StreamAckDeadlineSeconds: 10}}, codes.InvalidArgument},
		{"no deadline", []*pubsubpb.StreamingPullRequest{{Subscription: testSub}}, codes.InvalidArgument},
		{"unknown subscription", []*pubsubpb.StreamingPullRequest{{Subscription: testSub + "x", StreamAckDeadlineSeconds: 10}}, codes.NotFound},
		{"subscription twice", []*pubsubpb.StreamingPullRequest{valid, valid}, codes.InvalidArgument},
		{"seconds without ids", []*pubsubpb.StreamingPullRequest{valid, {ModifyDeadlineSeconds: []int32{1}}}, codes.InvalidArgument},
		{"bad extension", []*pubsubpb.StreamingPullRequest{valid, {
			ModifyDeadlineSeconds: []int32{601},
			ModifyDeadlineAckIds:  []string{s.broker.subs[testSub].queue.ackID(1)},
		}}, codes.InvalidArgument},
		{"bad ack id", []*pubsubpb.StreamingPullRequest{valid, {AckIds: []string{"x"}}}, codes.InvalidArgument},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			stream, err := pubsubpb.NewSubscriberClient(conn).StreamingPull(soon(t))
			if err != nil {
				t.Fatal(err)
			}
			for _, req := range tt.requests {
				_ = stream.Send(req) // the error comes with Recv
			}
			_, err = stream.Recv()
			wantCode(t, err, tt.want)
		})
	}
}

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
			s.Name = newSub
			if s.Topic == "" {
				s.Topic = testTopic
			}
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
	attributes := func(n int) map[string]string {
		m := map[string]string{}
		for i := range n {
			m[fmt.Sprint(i)] = ""
		}
		return m
	}
	tests := []struct {
		name string
		call func(context.Context) error
		want codes.Code
		says string
	}{
		{"topic name too short", createTopic(&pubsubpb.Topic{Name: "projects/test/topics/ab"}), codes.InvalidArgument, "3 to 255"},
		{"topic name begins with goog", createTopic(&pubsubpb.Topic{Name: "projects/test/topics/goog-x"}), codes.InvalidArgument, "goog"},
		{"topic name begins with a digit", createTopic(&pubsubpb.Topic{Name: "projects/test/topics/1abc"}), codes.InvalidArgument, "letter"},
		{"topic name with a space", createTopic(&pubsubpb.Topic{Name: "projects/test/topics/a b c"}), codes.InvalidArgument, "letters, digits"},
		{"topic name without a project", createTopic(&pubsubpb.Topic{Name: "topics/abc"}), codes.InvalidArgument, "projects/"},
		{"topic exists", createTopic(&pubsubpb.Topic{Name: testTopic}), codes.AlreadyExists, testTopic},
		{"topic with a key", createTopic(&pubsubpb.Topic{Name: newTopic, KmsKeyName: "k"}), codes.Unimplemented, "kms_key_name"},
		{"topic with a schema", createTopic(&pubsubpb.Topic{Name: newTopic, SchemaSettings: &pubsubpb.SchemaSettings{Schema: "s"}}), codes.InvalidArgument, "schemas/{id}"},
		{"topic with every allowed character", createTopic(&pubsubpb.Topic{Name: "projects/a.b:c-d/topics/aZ09-_.~+%"}), codes.OK, ""},

		{"unknown topic", create(&pubsubpb.Subscription{Topic: newTopic}), codes.NotFound, newTopic},
		{"deadline too short", create(&pubsubpb.Subscription{AckDeadlineSeconds: 9}), codes.InvalidArgument, "ack_deadline_seconds 9"},
		{"deadline too long", create(&pubsubpb.Subscription{AckDeadlineSeconds: 601}), codes.InvalidArgument, "ack_deadline_seconds 601"},
		{"retention too short", create(&pubsubpb.Subscription{MessageRetentionDuration: durationpb.New(time.Minute)}), codes.InvalidArgument, "retention"},
		{"retention too long", create(&pubsubpb.Subscription{MessageRetentionDuration: durationpb.New(32 * 24 * time.Hour)}), codes.InvalidArgument, "retention"},
		{"bad filter", create(&pubsubpb.Subscription{Filter: "attributes:"}), codes.InvalidArgument, "byte 11"},
		{"filter too long", create(&pubsubpb.Subscription{Filter: strings.Repeat(" ", 257)}), codes.InvalidArgument, "257 bytes"},
		{"dead letters to nowhere", create(&pubsubpb.Subscription{DeadLetterPolicy: &pubsubpb.DeadLetterPolicy{DeadLetterTopic: newTopic}}), codes.NotFound, newTopic},
		{"dead letters without a topic", create(&pubsubpb.Subscription{DeadLetterPolicy: &pubsubpb.DeadLetterPolicy{}}), codes.InvalidArgument, "dead_letter_topic"},
		{"dead letters after too few attempts", create(&pubsubpb.Subscription{DeadLetterPolicy: &pubsubpb.DeadLetterPolicy{DeadLetterTopic: testTopic, MaxDeliveryAttempts: 4}}), codes.InvalidArgument, "5 to 100"},
		{"backoff too long", create(&pubsubpb.Subscription{RetryPolicy: &pubsubpb.RetryPolicy{MaximumBackoff: durationpb.New(601 * time.Second)}}), codes.InvalidArgument, "maximum_backoff"},
		{"backoff that shrinks", create(&pubsubpb.Subscription{RetryPolicy: &pubsubpb.RetryPolicy{MaximumBackoff: durationpb.New(time.Second)}}), codes.InvalidArgument, "longer than"},
		{"message transforms", create(&pubsubpb.Subscription{MessageTransforms: []*pubsubpb.MessageTransform{{}}}), codes.Unimplemented, "message_transforms"},
		{"snapshot of nothing", func(ctx context.Context) error {
			_, err := sub.CreateSnapshot(ctx, &pubsubpb.CreateSnapshotRequest{Name: "projects/test/snapshots/snap", Subscription: testSub + "x"})
			return err
		}, codes.NotFound, testSub + "x"},
		{"snapshot with a bad name", func(ctx context.Context) error {
			_, err := sub.CreateSnapshot(ctx, &pubsubpb.CreateSnapshotRequest{Name: "snap", Subscription: testSub})
			return err
		}, codes.InvalidArgument, "snapshots/{id}"},
		{"seek to nothing", func(ctx context.Context) error {
			_, err := sub.Seek(ctx, &pubsubpb.SeekRequest{Subscription: testSub})
			return err
		}, codes.InvalidArgument, "a time or a snapshot"},
		{"seek to no snapshot", func(ctx context.Context) error {
			_, err := sub.Seek(ctx, &pubsubpb.SeekRequest{Subscription: testSub, Target: &pubsubpb.SeekRequest_Snapshot{Snapshot: "projects/test/snapshots/none"}})
			return err
		}, codes.NotFound, "snapshots/none"},
		{"seek to no time", func(ctx context.Context) error {
			_, err := sub.Seek(ctx, &pubsubpb.SeekRequest{Subscription: testSub, Target: &pubsubpb.SeekRequest_Time{Time: &timestamppb.Timestamp{Nanos: -1}}})
			return err
		}, codes.InvalidArgument, "invalid time"},
		{"push", create(&pubsubpb.Subscription{PushConfig: &pubsubpb.PushConfig{PushEndpoint: "http://x"}}), codes.Unimplemented, "push_config"},
		{"time to live", create(&pubsubpb.Subscription{ExpirationPolicy: &pubsubpb.ExpirationPolicy{Ttl: durationpb.New(time.Hour)}}), codes.InvalidArgument, "expiration_policy.ttl"},
		{"empty push and expiration", create(&pubsubpb.Subscription{PushConfig: &pubsubpb.PushConfig{}, ExpirationPolicy: &pubsubpb.ExpirationPolicy{}}), codes.OK, ""},

		{"update without a mask", update(&pubsubpb.Subscription{}), codes.InvalidArgument, "update_mask"},
		{"update of no field", update(&pubsubpb.Subscription{}, "colour"), codes.InvalidArgument, "colour"},
		{"update of the topic", update(&pubsubpb.Subscription{}, "topic"), codes.InvalidArgument, "cannot be changed"},
		{"update of one label", update(&pubsubpb.Subscription{}, "labels.a"), codes.InvalidArgument, "labels.a"},
		{"update of a filter", update(&pubsubpb.Subscription{Filter: "x"}, "filter"), codes.InvalidArgument, "cannot be changed"},
		{"update of the ordering", update(&pubsubpb.Subscription{EnableMessageOrdering: true}, "enable_message_ordering"), codes.InvalidArgument, "cannot be changed"},
		{"update of what is not built", update(&pubsubpb.Subscription{PushConfig: &pubsubpb.PushConfig{PushEndpoint: "http://x"}}, "push_config"), codes.Unimplemented, "push_config"},
		{"update of a part that is not there", update(&pubsubpb.Subscription{}, "retry_policy.colour"), codes.InvalidArgument, "retry_policy.colour"},
		{"update of a part", update(&pubsubpb.Subscription{ExpirationPolicy: &pubsubpb.ExpirationPolicy{Ttl: durationpb.New(48 * time.Hour)}}, "expiration_policy.ttl"), codes.InvalidArgument, "shorter than message_retention_duration"},
		{"update to a bad deadline", update(&pubsubpb.Subscription{AckDeadlineSeconds: 5}, "ack_deadline_seconds"), codes.InvalidArgument, "ack_deadline_seconds 5"},
		{"update to the default deadline", update(&pubsubpb.Subscription{}, "ack_deadline_seconds"), codes.OK, ""},
		{"update that clears what is clear", update(&pubsubpb.Subscription{}, "push_config"), codes.OK, ""},

		{"no messages", publish(), codes.InvalidArgument, "message_count"},
		{"too many messages", publish(make([]*pubsubpb.PubsubMessage, 1001)...), codes.InvalidArgument, "1001"},
		{"empty message", publish(&pubsubpb.PubsubMessage{Data: []byte("x")}, &pubsubpb.PubsubMessage{}), codes.InvalidArgument, "message 1: must have data"},
		{"message too large", publish(&pubsubpb.PubsubMessage{Data: make([]byte, maxMessageBytes+1)}), codes.InvalidArgument, "too large"},
		{"publish too large", publish(&pubsubpb.PubsubMessage{Data: make([]byte, maxMessageBytes/2+1)}, &pubsubpb.PubsubMessage{Data: make([]byte, maxMessageBytes/2)}), codes.InvalidArgument, "too large"},
		{"largest message", publish(&pubsubpb.PubsubMessage{Data: make([]byte, maxMessageBytes)}), codes.OK, ""},
		{"too many attributes", publish(&pubsubpb.PubsubMessage{Attributes: attributes(101)}), codes.InvalidArgument, "attributes"},
		{"attribute begins with goog", publish(&pubsubpb.PubsubMessage{Attributes: map[string]string{"google": ""}}), codes.InvalidArgument, "goog"},
		{"attribute key too long", publish(&pubsubpb.PubsubMessage{Attributes: map[string]string{strings.Repeat("k", 257): ""}}), codes.InvalidArgument, "key"},
		{"attribute value too long", publish(&pubsubpb.PubsubMessage{Attributes: map[string]string{"k": strings.Repeat("v", 1025)}}), codes.InvalidArgument, "1025"},
		{"ordering key too long", publish(&pubsubpb.PubsubMessage{Data: []byte("x"), OrderingKey: strings.Repeat("k", 1025)}), codes.InvalidArgument, "ordering key"},

		{"pull of no messages", pull(testSub, 0), codes.InvalidArgument, "max_messages"},
		{"pull from nowhere", pull(testSub+"x", 1), codes.NotFound, testSub + "x"},
		{"ack of nothing", func(ctx context.Context) error {
			_, err := sub.Acknowledge(ctx, &pubsubpb.AcknowledgeRequest{Subscription: testSub})
			return err
		}, codes.InvalidArgument, "No ack ids"},
		{"extension too long", func(ctx context.Context) error {
			_, err := sub.ModifyAckDeadline(ctx, &pubsubpb.ModifyAckDeadlineRequest{Subscription: testSub, AckIds: []string{strings.Repeat("0", 32)}, AckDeadlineSeconds: 601})
			return err
		}, codes.InvalidArgument, "0 to 600"},
		{"negative page size", func(ctx context.Context) error {
			_, err := pub.ListTopics(ctx, &pubsubpb.ListTopicsRequest{Project: "projects/test", PageSize: -1})
			return err
		}, codes.InvalidArgument, "page_size"},
		{"bad page token", func(ctx context.Context) error {
			_, err := sub.ListSubscriptions(ctx, &pubsubpb.ListSubscriptionsRequest{Project: "projects/test", PageToken: "!"})
			return err
		}, codes.InvalidArgument, "page_token"},
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
		if err := s.EnsureTopic(fmt.Sprintf("projects/paged/topics/t-%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	var names []string
	req := &pubsubpb.ListTopicsRequest{Project: "projects/paged", PageSize: 2}
	for pages := 1; ; pages++ {
		resp, err := pub.ListTopics(soon(t), req)
		if err != nil {
			t.Fatal(err)
		}
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
