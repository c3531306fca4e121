package clienttest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/api/option"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/batchfleet/batchfleet/internal/testrun"
)

const (
	deadName = "projects/test/topics/dead"
	deadSub  = "projects/test/subscriptions/dead"
)

func hold(*pubsub.Message) {}

// startWithDeadLetters is startGo with a dead letter topic that forwards after
// five attempts.
func startWithDeadLetters(t *testing.T) *goRig {
	t.Helper()
	// The lease is far longer than a test: what comes back comes from a nack.
	g := startGo(t, &pubsubpb.Subscription{AckDeadlineSeconds: 600})
	must(g.topics.CreateTopic(soon(t), &pubsubpb.Topic{Name: deadName}))(t)
	must(g.subs.CreateSubscription(soon(t), &pubsubpb.Subscription{Name: deadSub, Topic: deadName}))(t)
	must(g.subs.UpdateSubscription(soon(t), &pubsubpb.UpdateSubscriptionRequest{
		Subscription: &pubsubpb.Subscription{
			Name:             subName,
			DeadLetterPolicy: &pubsubpb.DeadLetterPolicy{DeadLetterTopic: deadName, MaxDeliveryAttempts: 5},
		},
		UpdateMask: mask("dead_letter_policy"),
	}))(t)
	return g
}

func attempts(ms []*pubsub.Message) []int {
	var all []int
	for _, m := range ms {
		n := 0
		if m.DeliveryAttempt != nil {
			n = *m.DeliveryAttempt
		}
		all = append(all, n)
	}
	return all
}

func TestE04GoNackCountsAttempts(t *testing.T) {
	g := startWithDeadLetters(t)
	g.send(t, &pubsub.Message{Data: []byte("x")})
	r := g.receive(t, pubsub.ReceiveSettings{}, func(m *pubsub.Message) {
		if m.DeliveryAttempt != nil && *m.DeliveryAttempt == 3 {
			m.Ack()
			return
		}
		m.Nack()
	})
	if got := attempts(r.need(t, 3)); !slices.Equal(got, []int{1, 2, 3}) {
		t.Errorf("attempts %v, want 1 2 3", got)
	}
}

func TestE04GoDeadLetterAfterFiveAttempts(t *testing.T) {
	g := startWithDeadLetters(t)
	g.send(t, &pubsub.Message{Data: []byte("x"), Attributes: map[string]string{"k": "v"}})
	r := g.receive(t, pubsub.ReceiveSettings{}, func(m *pubsub.Message) { m.Nack() })
	resp := must(g.subs.Pull(soon(t), &pubsubpb.PullRequest{Subscription: deadSub, MaxMessages: 1}))(t)
	if len(resp.GetReceivedMessages()) != 1 {
		t.Fatal("no dead letter")
	}
	if got := attempts(r.need(t, 5)); !slices.Equal(got, []int{1, 2, 3, 4, 5}) {
		t.Errorf("attempts %v, want 1 to 5", got)
	}
	m := resp.GetReceivedMessages()[0].GetMessage()
	const publishTime = "CloudPubSubDeadLetterSourceTopicPublishTime"
	if m.GetAttributes()[publishTime] == "" {
		t.Errorf("dead letter %v does not tell when it was published", m)
	}
	delete(m.GetAttributes(), publishTime)
	want := map[string]string{
		"k": "v",
		"CloudPubSubDeadLetterSourceDeliveryCount":       "5",
		"CloudPubSubDeadLetterSourceSubscription":        "jobs",
		"CloudPubSubDeadLetterSourceSubscriptionProject": "test",
	}
	if string(m.GetData()) != "x" || !maps.Equal(m.GetAttributes(), want) {
		t.Errorf("dead letter %v, want attributes %v", m, want)
	}
	g.none(t)
}

func TestE04GoRetryPolicyHoldsBackWhatWasNacked(t *testing.T) {
	testrun.Long(t, "it waits for seconds")
	const backoff = 2 * time.Second
	g := startGo(t, &pubsubpb.Subscription{RetryPolicy: &pubsubpb.RetryPolicy{
		MinimumBackoff: durationpb.New(backoff), MaximumBackoff: durationpb.New(backoff),
	}})
	g.send(t, &pubsub.Message{Data: []byte("x")})
	first := g.need(t, 1)[0]
	start := time.Now()
	g.modack(t, 0, first.GetAckId())
	g.none(t)
	g.need(t, 1)
	if took := time.Since(start); took < backoff-100*time.Millisecond {
		t.Errorf("came back after %v, want %v", took, backoff)
	}
}

func TestE04GoOrderIsKeptOverANack(t *testing.T) {
	g := startGo(t, &pubsubpb.Subscription{EnableMessageOrdering: true})
	p := g.Publisher(topicName)
	p.EnableMessageOrdering = true
	const count, nacked = 30, "7"
	var want []string
	for i := range count {
		want = append(want, fmt.Sprint(i))
		for _, key := range []string{"a", "b", "c"} {
			p.Publish(soon(t), &pubsub.Message{Data: fmt.Append(nil, i), OrderingKey: key})
		}
	}
	p.Stop()

	var mu sync.Mutex
	seen := map[string][]string{}
	nacks := 0
	r := g.receive(t, pubsub.ReceiveSettings{}, func(m *pubsub.Message) {
		mu.Lock()
		defer mu.Unlock()
		seen[m.OrderingKey] = append(seen[m.OrderingKey], string(m.Data))
		if m.OrderingKey == "b" && string(m.Data) == nacked && nacks == 0 {
			nacks++
			m.Nack()
			return
		}
		m.Ack()
	})
	for n := 3*count + 1; ; n++ { // more when others were on their way at the nack
		r.need(t, n)
		mu.Lock()
		done := true
		for _, l := range seen {
			done = done && l[len(l)-1] == want[count-1]
		}
		mu.Unlock()
		if done {
			break
		}
	}
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	for _, key := range []string{"a", "c"} {
		if !slices.Equal(seen[key], want) {
			t.Errorf("key %s came as %v", key, seen[key])
		}
	}
	b := seen["b"]
	last := len(b) - 1
	for b[last] != nacked {
		last--
	}
	if !slices.Equal(b[:8], want[:8]) || !slices.Equal(b[last:], want[7:]) {
		t.Errorf("key b, whose message %s was nacked, came as %v", nacked, b)
	}
}

// The client gathers acks for 100 ms: one message of a key at a time would make
// ten a second of them. Here it acks nothing until it has them all.
func TestE08GoWholeKeyIsOutBeforeItsFirstAck(t *testing.T) {
	g := startGo(t, &pubsubpb.Subscription{EnableMessageOrdering: true, AckDeadlineSeconds: 600})
	const count = 1000
	req := &pubsubpb.PublishRequest{Topic: topicName}
	for i := range count {
		req.Messages = append(req.Messages, &pubsubpb.PubsubMessage{Data: fmt.Append(nil, i), OrderingKey: "a"})
	}
	must(g.topics.Publish(soon(t), req))(t)
	r := g.receive(t, pubsub.ReceiveSettings{MaxOutstandingMessages: -1}, hold)
	got := r.need(t, count)
	for i, m := range got {
		if string(m.Data) != fmt.Sprint(i) {
			t.Fatalf("message %d of the key is %s", i, m.Data)
		}
	}
	for _, m := range slices.Backward(got) {
		m.Ack()
	}
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	if s := g.Stats()[0]; s.Delivered != count || s.Leased+s.Undelivered != 0 {
		t.Errorf("after the acks, the last first: %+v", s)
	}
}

func TestE04GoFilter(t *testing.T) {
	g := startGo(t, &pubsubpb.Subscription{Filter: `attributes.kind = "pdf" AND NOT hasPrefix(attributes.lang, "de")`})
	for text, attributes := range map[string]map[string]string{
		"yes":           {"kind": "pdf", "lang": "fr"},
		"no language":   {"kind": "pdf"},
		"german":        {"kind": "pdf", "lang": "de-CH"},
		"other kind":    {"kind": "mock", "lang": "fr"},
		"no attributes": nil,
	} {
		g.send(t, &pubsub.Message{Data: []byte(text), Attributes: attributes})
	}
	wantTexts(t, g.need(t, 2), "no language", "yes")
	g.none(t)
}

func TestE04GoSeekToATime(t *testing.T) {
	g := startGo(t, &pubsubpb.Subscription{RetainAckedMessages: true})
	seek := func(to time.Time) {
		t.Helper()
		must(g.subs.Seek(soon(t), &pubsubpb.SeekRequest{
			Subscription: subName, Target: &pubsubpb.SeekRequest_Time{Time: timestamppb.New(to)},
		}))(t)
	}
	g.send(t, &pubsub.Message{Data: []byte("a")})
	a := g.need(t, 1)[0]
	between := a.GetMessage().GetPublishTime().AsTime().Add(time.Millisecond)
	<-time.After(time.Until(between) + time.Millisecond) // for the next message to be younger
	g.send(t, &pubsub.Message{Data: []byte("b")})
	g.ack(t, a, g.need(t, 1)[0])
	seek(between)
	wantTexts(t, g.need(t, 1), "b")
	g.none(t)
	seek(time.Now().Add(-time.Hour))
	both := g.need(t, 2)
	wantTexts(t, both, "a", "b")
	seek(time.Now().Add(time.Hour))
	g.modack(t, 0, both[0].GetAckId(), both[1].GetAckId())
	g.none(t)
}

func TestE04GoSeekToASnapshot(t *testing.T) {
	const snapshot = "projects/test/snapshots/snap"
	g := startGo(t, &pubsubpb.Subscription{})
	g.send(t, &pubsub.Message{Data: []byte("acked")})
	g.ack(t, g.need(t, 1)...)
	g.send(t, &pubsub.Message{Data: []byte("open")})
	open := g.need(t, 1)
	must(g.subs.CreateSnapshot(soon(t), &pubsubpb.CreateSnapshotRequest{Name: snapshot, Subscription: subName}))(t)
	g.ack(t, open...)
	g.send(t, &pubsub.Message{Data: []byte("later")})
	g.ack(t, g.need(t, 1)...)
	must(g.subs.Seek(soon(t), &pubsubpb.SeekRequest{
		Subscription: subName, Target: &pubsubpb.SeekRequest_Snapshot{Snapshot: snapshot},
	}))(t)
	wantTexts(t, g.need(t, 2), "later", "open")
}

// Topics that keep their messages let a subscription go back to before it was made.
func TestE04GoTopicRetention(t *testing.T) {
	g := startGo(t, &pubsubpb.Subscription{})
	must(g.topics.UpdateTopic(soon(t), &pubsubpb.UpdateTopicRequest{
		Topic:      &pubsubpb.Topic{Name: topicName, MessageRetentionDuration: durationpb.New(time.Hour)},
		UpdateMask: mask("message_retention_duration"),
	}))(t)
	g.send(t, &pubsub.Message{Data: []byte("x")})
	if err := g.subs.DeleteSubscription(soon(t), &pubsubpb.DeleteSubscriptionRequest{Subscription: subName}); err != nil {
		t.Fatal(err)
	}
	pb := must(g.subs.CreateSubscription(soon(t), &pubsubpb.Subscription{Name: subName, Topic: topicName}))(t)
	if got := pb.GetTopicMessageRetentionDuration().AsDuration(); got != time.Hour {
		t.Errorf("subscription tells the topic's retention as %v, want 1h", got)
	}
	g.none(t)
	must(g.subs.Seek(soon(t), &pubsubpb.SeekRequest{
		Subscription: subName, Target: &pubsubpb.SeekRequest_Time{Time: timestamppb.New(time.Now().Add(-time.Hour))},
	}))(t)
	wantTexts(t, g.need(t, 1), "x")
}

// snoop notes the ack ids that come in on streams: the high-level client keeps
// them to itself.
type snoop struct {
	grpc.ClientStream
	ackIDs chan string
}

func (s snoop) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if resp, ok := m.(*pubsubpb.StreamingPullResponse); ok && err == nil {
		for _, r := range resp.GetReceivedMessages() {
			s.ackIDs <- r.GetAckId()
		}
	}
	return err
}

func TestE04GoExactlyOnce(t *testing.T) {
	g := startGo(t, &pubsubpb.Subscription{EnableExactlyOnceDelivery: true, AckDeadlineSeconds: 60})
	ackIDs := make(chan string, 10)
	listen := grpc.WithStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn,
		method string, streamer grpc.Streamer, opts ...grpc.CallOption,
	) (grpc.ClientStream, error) {
		stream, err := streamer(ctx, desc, cc, method, opts...)
		return snoop{stream, ackIDs}, err
	})
	client := must(pubsub.NewClient(t.Context(), "test", append(g.overGRPC(), option.WithGRPCDialOption(listen))...))(t)
	t.Cleanup(func() { closeIt(t, client) })
	g.Client = client

	g.send(t, &pubsub.Message{Data: []byte("x")})
	r := g.receive(t, pubsub.ReceiveSettings{}, hold)
	first := r.need(t, 1)[0]
	stale := <-ackIDs
	g.none(t)             // while it is leased
	g.modack(t, 0, stale) // by somebody else: the stream gets the message again
	second := r.need(t, 2)[1]
	if second.ID != first.ID {
		t.Errorf("redelivered message %s, want %s", second.ID, first.ID)
	}
	got, err := first.AckWithResult().Get(soon(t))
	if got != pubsub.AcknowledgeStatusInvalidAckID {
		t.Errorf("ack with a stale ack id: %v, %v; want AcknowledgeStatusInvalidAckID", got, err)
	}
	if got, err := second.AckWithResult().Get(soon(t)); got != pubsub.AcknowledgeStatusSuccess || err != nil {
		t.Errorf("ack: %v, %v; want AcknowledgeStatusSuccess", got, err)
	}
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	g.none(t)

	_, err = pubsubpb.NewSubscriberClient(g.dial(t)).Acknowledge(soon(t), &pubsubpb.AcknowledgeRequest{Subscription: subName, AckIds: []string{stale}})
	wantError(t, err, codes.FailedPrecondition, "")
	var info *errdetails.ErrorInfo
	for _, d := range status.Convert(err).Details() {
		if i, ok := d.(*errdetails.ErrorInfo); ok {
			info = i
		}
	}
	if want := map[string]string{stale: "PERMANENT_FAILURE_INVALID_ACK_ID"}; !maps.Equal(info.GetMetadata(), want) {
		t.Errorf("metadata %v, want %v", info.GetMetadata(), want)
	}
}
