package clienttest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2"
	pubsubapi "cloud.google.com/go/pubsub/v2/apiv1"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/batchfleet/batchfleet/internal/testrun"
)

const (
	topicName = "projects/test/topics/jobs"
	subName   = "projects/test/subscriptions/jobs"
)

// goRig is a server with one topic and one subscription, and Google's Go
// clients of it.
type goRig struct {
	*rig
	*pubsub.Client
	topics *pubsubapi.TopicAdminClient
	subs   *pubsubapi.SubscriptionAdminClient
}

// startGo starts a server and creates topicName, and subName as pb says. The
// ack deadline is the shortest there is unless pb says otherwise.
func startGo(t *testing.T, pb *pubsubpb.Subscription) *goRig {
	t.Helper()
	t.Parallel()
	r := start(t)
	topics, subs := r.admin(t)
	g := &goRig{r, r.client(t), topics, subs}
	must(topics.CreateTopic(soon(t), &pubsubpb.Topic{Name: topicName}))(t)
	pb.Name, pb.Topic = subName, topicName
	if pb.AckDeadlineSeconds == 0 {
		pb.AckDeadlineSeconds = 10
	}
	must(subs.CreateSubscription(soon(t), pb))(t)
	return g
}

// send publishes one message and returns its id.
func (g *goRig) send(t *testing.T, m *pubsub.Message) string {
	t.Helper()
	p := g.Publisher(topicName)
	defer p.Stop()
	return must(p.Publish(soon(t), m).Get(soon(t)))(t)
}

// pull returns count messages, or those that came within the time.
func (g *goRig) pull(t *testing.T, count int, within time.Duration) []*pubsubpb.ReceivedMessage {
	t.Helper()
	ctx, cancel := context.WithTimeout(soon(t), within)
	defer cancel()
	var got []*pubsubpb.ReceivedMessage
	for len(got) < count && ctx.Err() == nil {
		resp, err := g.subs.Pull(ctx, &pubsubpb.PullRequest{Subscription: subName, MaxMessages: int32(count - len(got))})
		if err != nil && ctx.Err() == nil {
			t.Fatal(err)
		}
		got = append(got, resp.GetReceivedMessages()...)
	}
	return got
}

// need returns count messages.
func (g *goRig) need(t *testing.T, count int) []*pubsubpb.ReceivedMessage {
	t.Helper()
	got := g.pull(t, count, 20*time.Second)
	if len(got) != count {
		t.Fatalf("pulled %d messages in 20 s, want %d", len(got), count)
	}
	return got
}

// none wants no message to be available.
func (g *goRig) none(t *testing.T) {
	t.Helper()
	resp, err := g.subs.Pull(soon(t), &pubsubpb.PullRequest{
		Subscription: subName, MaxMessages: 10, ReturnImmediately: true, //nolint:staticcheck // deprecated, and still sent
	})
	if err != nil || len(resp.GetReceivedMessages()) != 0 {
		t.Errorf("pulled %v, %v; want nothing", resp, err)
	}
}

func (g *goRig) ack(t *testing.T, received ...*pubsubpb.ReceivedMessage) {
	t.Helper()
	req := &pubsubpb.AcknowledgeRequest{Subscription: subName}
	for _, r := range received {
		req.AckIds = append(req.AckIds, r.GetAckId())
	}
	if err := g.subs.Acknowledge(soon(t), req); err != nil {
		t.Fatal(err)
	}
}

func (g *goRig) modack(t *testing.T, seconds int32, ackIDs ...string) {
	t.Helper()
	err := g.subs.ModifyAckDeadline(soon(t), &pubsubpb.ModifyAckDeadlineRequest{
		Subscription: subName, AckIds: ackIDs, AckDeadlineSeconds: seconds,
	})
	if err != nil {
		t.Fatal(err)
	}
}

func texts(received []*pubsubpb.ReceivedMessage) []string {
	var all []string
	for _, r := range received {
		all = append(all, string(r.GetMessage().GetData()))
	}
	slices.Sort(all)
	return all
}

func wantTexts(t *testing.T, received []*pubsubpb.ReceivedMessage, want ...string) {
	t.Helper()
	if got := texts(received); !slices.Equal(got, want) {
		t.Errorf("received %q, want %q", got, want)
	}
}

// receiving is a Receive under way and what it received.
type receiving struct {
	stop func() error // ends Receive and returns its error
	done chan struct{}
	got  chan *pubsub.Message
	seen []*pubsub.Message
}

// receive starts the high-level client. handle settles each message.
func (g *goRig) receive(t *testing.T, settings pubsub.ReceiveSettings, handle func(*pubsub.Message)) *receiving {
	t.Helper()
	sub := g.Subscriber(subName)
	sub.ReceiveSettings = settings
	ctx, cancel := context.WithCancel(t.Context())
	r := &receiving{done: make(chan struct{}), got: make(chan *pubsub.Message, 10_000)}
	var err error
	go func() {
		defer close(r.done)
		err = sub.Receive(ctx, func(_ context.Context, m *pubsub.Message) {
			r.got <- m
			handle(m)
		})
	}()
	r.stop = func() error {
		cancel()
		<-r.done
		return err
	}
	t.Cleanup(func() { _ = r.stop() })
	return r
}

// within reports whether there are count messages in time. It keeps them in seen.
func (r *receiving) within(count int, d time.Duration) bool {
	late := time.After(d)
	for len(r.seen) < count {
		select {
		case m := <-r.got:
			r.seen = append(r.seen, m)
		case <-late:
			return false
		}
	}
	return true
}

// need returns the first count messages.
func (r *receiving) need(t *testing.T, count int) []*pubsub.Message {
	t.Helper()
	if !r.within(count, 30*time.Second) {
		t.Fatalf("received %d messages in 30 s, want %d", len(r.seen), count)
	}
	return r.seen[:count]
}

func ack(m *pubsub.Message) { m.Ack() }

func TestE03GoHighLevelPublishesAndReceives(t *testing.T) {
	g := startGo(t, &pubsubpb.Subscription{})
	attributes := map[string]string{"größe": "naïve ☃", "empty": ""}
	id := g.send(t, &pubsub.Message{Data: []byte("grün 緑 🟢"), Attributes: attributes})
	r := g.receive(t, pubsub.ReceiveSettings{}, ack)
	m := r.need(t, 1)[0]
	if m.ID != id || string(m.Data) != "grün 緑 🟢" || !maps.Equal(m.Attributes, attributes) || m.DeliveryAttempt != nil {
		t.Errorf("received %+v, published as %s", m, id)
	}
	if age := time.Since(m.PublishTime); age < 0 || age > time.Minute {
		t.Errorf("published %v ago", age)
	}
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	g.none(t)
}

func TestE03GoHighLevelThousandInABatchAndOneOfTenMegabytes(t *testing.T) {
	g := startGo(t, &pubsubpb.Subscription{})
	p := g.Publisher(topicName)
	p.PublishSettings.CountThreshold = 1000
	p.PublishSettings.ByteThreshold = 9_000_000
	p.PublishSettings.DelayThreshold = time.Minute
	want := map[string]bool{}
	var results []*pubsub.PublishResult
	for i := range 1000 {
		text := fmt.Sprintf("message %d", i)
		want[text] = true
		results = append(results, p.Publish(soon(t), &pubsub.Message{Data: []byte(text)}))
	}
	for _, r := range results {
		must(r.Get(soon(t)))(t)
	}
	p.Stop()
	large := strings.Repeat("0123456789abcdef", 9_900_000/16)
	g.send(t, &pubsub.Message{Data: []byte(large)})
	want[large] = true

	for _, m := range g.receive(t, pubsub.ReceiveSettings{MaxOutstandingMessages: 100}, ack).need(t, len(want)) {
		delete(want, string(m.Data))
	}
	if len(want) != 0 {
		t.Errorf("%d messages are missing", len(want))
	}
}

func TestE03GoHighLevelRoomForOne(t *testing.T) {
	g := startGo(t, &pubsubpb.Subscription{AckDeadlineSeconds: 60})
	for i := range 20 {
		g.send(t, &pubsub.Message{Data: fmt.Append(nil, i)})
	}
	// Receive has as much room as messages that the handler has not returned from.
	release := make(chan struct{})
	r := g.receive(t, pubsub.ReceiveSettings{MaxOutstandingMessages: 1, NumGoroutines: 1}, func(m *pubsub.Message) {
		<-release
		m.Ack()
	})
	r.need(t, 1)
	g.ack(t, g.need(t, 19)...) // what the stream was not sent, because it has no room
	g.send(t, &pubsub.Message{Data: []byte("next")})
	close(release)
	if m := r.need(t, 2)[1]; string(m.Data) != "next" {
		t.Errorf("received %q, want next", m.Data)
	}
}

func TestE04GoExtensionKeepsAMessageAndAnEndedLeaseBringsItBack(t *testing.T) {
	testrun.Long(t, "it waits for seconds")
	g := startGo(t, &pubsubpb.Subscription{})
	g.send(t, &pubsub.Message{Data: []byte("kept")})
	g.send(t, &pubsub.Message{Data: []byte("lost")})
	first := map[string]string{}
	for _, r := range g.need(t, 2) {
		first[string(r.GetMessage().GetData())] = r.GetAckId()
	}
	start := time.Now()
	g.modack(t, 60, first["kept"])
	again := g.pull(t, 1, 20*time.Second)
	if took := time.Since(start); took < 9*time.Second {
		t.Errorf("a lease of 10 s ended after %v", took)
	}
	wantTexts(t, again, "lost")
	g.none(t)
	g.modack(t, 0, first["kept"])
	back := g.need(t, 1)
	wantTexts(t, back, "kept")
	if back[0].GetAckId() == first["kept"] {
		t.Error("the new delivery has the ack id of the old one")
	}
}

func TestE03GoHighLevelExtendsWhileTheHandlerRuns(t *testing.T) {
	testrun.Long(t, "it waits for seconds")
	g := startGo(t, &pubsubpb.Subscription{})
	g.send(t, &pubsub.Message{Data: []byte("slow")})
	release := make(chan struct{})
	r := g.receive(t, pubsub.ReceiveSettings{MinDurationPerAckExtension: 10 * time.Second, MaxDurationPerAckExtension: 10 * time.Second},
		func(m *pubsub.Message) {
			<-release
			m.Ack()
		})
	r.need(t, 1)
	if r.within(2, 15*time.Second) {
		t.Error("delivered twice while its handler ran for longer than a lease")
	}
	close(release)
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	g.none(t)
}

func TestE03GoHighLevelUpdatesWithMasksAndLists(t *testing.T) {
	g := startGo(t, &pubsubpb.Subscription{Labels: map[string]string{"a": "b"}})
	update := func(pb *pubsubpb.Subscription, paths ...string) (*pubsubpb.Subscription, error) {
		pb.Name = subName
		return g.subs.UpdateSubscription(soon(t), &pubsubpb.UpdateSubscriptionRequest{Subscription: pb, UpdateMask: mask(paths...)})
	}
	pb := must(update(&pubsubpb.Subscription{AckDeadlineSeconds: 30, Labels: map[string]string{"c": "d"}}, "ack_deadline_seconds"))(t)
	if pb.GetAckDeadlineSeconds() != 30 || pb.GetLabels()["a"] != "b" {
		t.Errorf("updated to %v, want only the deadline changed", pb)
	}
	_, err := update(&pubsubpb.Subscription{}, "colour")
	wantError(t, err, codes.InvalidArgument, "colour")

	var want []string
	for i := range 7 {
		name := fmt.Sprintf("projects/lists/topics/topic-%d", i)
		must(g.topics.CreateTopic(soon(t), &pubsubpb.Topic{Name: name}))(t)
		want = append(want, name)
	}
	var got []string
	for topic, err := range g.topics.ListTopics(soon(t), &pubsubpb.ListTopicsRequest{Project: "projects/lists", PageSize: 3}).All() {
		got = append(got, must(topic, err)(t).GetName())
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("topics (-want +got):\n%s", diff)
	}
}

func TestE03GoHighLevelSeesDetachAndDelete(t *testing.T) {
	g := startGo(t, &pubsubpb.Subscription{})
	g.send(t, &pubsub.Message{Data: []byte("x")})
	r := g.receive(t, pubsub.ReceiveSettings{}, ack)
	r.need(t, 1)
	if err := g.subs.DeleteSubscription(soon(t), &pubsubpb.DeleteSubscriptionRequest{Subscription: subName}); err != nil {
		t.Fatal(err)
	}
	wait(t, r.done)
	wantError(t, r.stop(), codes.NotFound, "jobs")

	must(g.subs.CreateSubscription(soon(t), &pubsubpb.Subscription{Name: subName, Topic: topicName}))(t)
	r = g.receive(t, pubsub.ReceiveSettings{}, ack)
	g.send(t, &pubsub.Message{Data: []byte("x")})
	r.need(t, 1)
	must(g.topics.DetachSubscription(soon(t), &pubsubpb.DetachSubscriptionRequest{Subscription: subName}))(t)
	wait(t, r.done)
	wantError(t, r.stop(), codes.FailedPrecondition, "detached")
	if pb := must(g.subs.GetSubscription(soon(t), &pubsubpb.GetSubscriptionRequest{Subscription: subName}))(t); !pb.GetDetached() {
		t.Errorf("detached subscription is %v", pb)
	}
}

func TestE03GoHighLevelGoesOnAfterARestart(t *testing.T) {
	g := startGo(t, &pubsubpb.Subscription{})
	g.send(t, &pubsub.Message{Data: []byte("before")})
	r := g.receive(t, pubsub.ReceiveSettings{}, ack)
	r.need(t, 1)
	g.restart(t)
	g.send(t, &pubsub.Message{Data: []byte("after")})
	if m := r.need(t, 2)[1]; string(m.Data) != "after" {
		t.Errorf("received %q, want after", m.Data)
	}
	if err := r.stop(); err != nil {
		t.Error(err)
	}
}

func TestE07StreamsSendLittleAtATime(t *testing.T) {
	const count, size = 20, 300_000
	g := startGo(t, &pubsubpb.Subscription{AckDeadlineSeconds: 60})
	for range count {
		g.send(t, &pubsub.Message{Data: make([]byte, size)})
	}
	stream := must(g.subs.StreamingPull(soon(t)))(t)
	if err := stream.Send(&pubsubpb.StreamingPullRequest{Subscription: subName, StreamAckDeadlineSeconds: 60}); err != nil {
		t.Fatal(err)
	}
	for got := 0; got < count; {
		n := len(must(stream.Recv())(t).GetReceivedMessages())
		if n*size > 1<<20 {
			t.Errorf("an answer holds %d bytes, want at most 1 MiB: a client that does not read costs that much", n*size)
		}
		got += n
	}
}

func mask(paths ...string) *fieldmaskpb.FieldMask { return &fieldmaskpb.FieldMask{Paths: paths} }

// wait waits for done to close.
func wait(t *testing.T, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-soon(t).Done():
		t.Fatal("timed out")
	}
}
