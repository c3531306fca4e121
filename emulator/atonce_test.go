package emulator

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/batchfleet/batchfleet/internal/testrun"
	"github.com/batchfleet/batchfleet/journal"
)

// Whatever is done at the same time, with checkpoints in between, the state on
// disk is the state in memory.
func TestE06StateSurvivesARestartWhenEverythingHappensAtOnce(t *testing.T) {
	testrun.Long(t, "it waits for seconds")
	dir := t.TempDir()
	log := slog.New(slog.DiscardHandler)
	s, err := openJournal(Config{Log: log}, dir, journal.Options{Log: log, CheckpointAfter: 10_000})
	must(t, err)
	h := &havoc{t: t, Server: s, pub: publisher{s.broker}, sub: subscriber{s.broker, new(sync.WaitGroup)}, schemas: schemas{s.broker}}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	var running sync.WaitGroup
	running.Go(func() { s.checkpointLoop(ctx) })
	for _, do := range []func(){h.configure, h.publish, h.publish, h.consume, h.consume, h.consume, h.seek, h.snapshot, h.schema, h.look} {
		running.Go(func() {
			for ctx.Err() == nil {
				do()
			}
		})
	}
	running.Wait()
	h.settle()
	before := sorted(dump(s.broker))
	must(t, s.Close())

	s = open(t, dir)
	defer func() { must(t, s.Close()) }()
	if after := sorted(dump(s.broker)); after != before {
		t.Errorf("before the restart:\n%s\nafter:\n%s", before, after)
	}
}

// A havoc does one thing after the other to a few resources that all share.
type havoc struct {
	t *testing.T
	*Server
	pub     publisher
	sub     subscriber
	schemas schemas
}

func (h *havoc) ctx() context.Context { return h.t.Context() }

// may fails the test for errors that no race explains.
func (h *havoc) may(err error) {
	switch status.Code(err) {
	case codes.OK, codes.NotFound, codes.AlreadyExists, codes.FailedPrecondition:
	default:
		h.t.Errorf("%v", err)
	}
}

func oneOf(collection string) string {
	return fmt.Sprintf("%s/%s/one-%d", testProject, collection, rand.N(3))
}

func (h *havoc) configure() {
	var err error
	topic, sub := oneOf("topics"), oneOf("subscriptions")
	switch rand.N(12) {
	case 0, 1, 2:
		pb := &pubsubpb.Topic{Name: topic}
		if rand.N(2) == 0 {
			pb.MessageRetentionDuration = durationpb.New(time.Hour)
		}
		_, err = h.pub.CreateTopic(h.ctx(), pb)
	case 3:
		_, err = h.pub.DeleteTopic(h.ctx(), &pubsubpb.DeleteTopicRequest{Topic: topic})
	case 4:
		_, err = h.pub.UpdateTopic(h.ctx(), &pubsubpb.UpdateTopicRequest{
			Topic:      &pubsubpb.Topic{Name: topic, Labels: map[string]string{"a": fmt.Sprint(rand.N(9))}},
			UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"labels"}},
		})
	case 5, 6, 7, 8:
		pb := &pubsubpb.Subscription{
			Name: sub, Topic: topic, AckDeadlineSeconds: 600,
			RetainAckedMessages: rand.N(2) == 0, EnableMessageOrdering: rand.N(2) == 0, EnableExactlyOnceDelivery: rand.N(2) == 0,
		}
		if rand.N(2) == 0 {
			pb.DeadLetterPolicy = &pubsubpb.DeadLetterPolicy{DeadLetterTopic: oneOf("topics")}
		}
		_, err = h.sub.CreateSubscription(h.ctx(), pb)
	case 9:
		_, err = h.sub.DeleteSubscription(h.ctx(), &pubsubpb.DeleteSubscriptionRequest{Subscription: sub})
	case 10:
		_, err = h.pub.DetachSubscription(h.ctx(), &pubsubpb.DetachSubscriptionRequest{Subscription: sub})
	case 11:
		_, err = h.sub.UpdateSubscription(h.ctx(), &pubsubpb.UpdateSubscriptionRequest{
			Subscription: &pubsubpb.Subscription{Name: sub, RetainAckedMessages: rand.N(2) == 0},
			UpdateMask:   &fieldmaskpb.FieldMask{Paths: []string{"retain_acked_messages"}},
		})
	}
	h.may(err)
	time.Sleep(time.Duration(rand.N(10)) * time.Millisecond)
}

func (h *havoc) publish() {
	msgs := make([]*pubsubpb.PubsubMessage, 1+rand.N(5))
	for i := range msgs {
		msgs[i] = &pubsubpb.PubsubMessage{Data: fmt.Append(nil, rand.N(1_000_000)), OrderingKey: []string{"", "a", "b"}[rand.N(3)]}
	}
	_, err := h.pub.Publish(h.ctx(), &pubsubpb.PublishRequest{Topic: oneOf("topics"), Messages: msgs})
	h.may(err)
}

func (h *havoc) consume() {
	name := oneOf("subscriptions")
	got, err := h.sub.Pull(h.ctx(), &pubsubpb.PullRequest{Subscription: name, MaxMessages: 1 + rand.Int32N(20), ReturnImmediately: true}) //nolint:staticcheck // deprecated, and still sent
	h.may(err)
	if len(got.GetReceivedMessages()) == 0 {
		return
	}
	var ids []string
	for _, m := range got.GetReceivedMessages() {
		ids = append(ids, m.GetAckId())
	}
	switch rand.N(4) {
	case 0:
		_, err = h.sub.ModifyAckDeadline(h.ctx(), &pubsubpb.ModifyAckDeadlineRequest{Subscription: name, AckIds: ids})
	case 1:
		_, err = h.sub.ModifyAckDeadline(h.ctx(), &pubsubpb.ModifyAckDeadlineRequest{Subscription: name, AckIds: ids, AckDeadlineSeconds: 500})
	case 2: // keep them
	default:
		_, err = h.sub.Acknowledge(h.ctx(), &pubsubpb.AcknowledgeRequest{Subscription: name, AckIds: ids})
	}
	h.may(err)
}

func (h *havoc) seek() {
	to := &pubsubpb.SeekRequest{Subscription: oneOf("subscriptions")}
	if rand.N(2) == 0 {
		to.Target = &pubsubpb.SeekRequest_Time{Time: timestamppb.New(time.Now().Add(-time.Duration(rand.N(500)) * time.Millisecond))}
	} else {
		to.Target = &pubsubpb.SeekRequest_Snapshot{Snapshot: oneOf("snapshots")}
	}
	_, err := h.sub.Seek(h.ctx(), to)
	if status.Code(err) != codes.InvalidArgument { // a snapshot of another topic
		h.may(err)
	}
	time.Sleep(time.Duration(rand.N(50)) * time.Millisecond)
}

func (h *havoc) snapshot() {
	var err error
	if rand.N(3) == 0 {
		_, err = h.sub.DeleteSnapshot(h.ctx(), &pubsubpb.DeleteSnapshotRequest{Snapshot: oneOf("snapshots")})
	} else {
		_, err = h.sub.CreateSnapshot(h.ctx(), &pubsubpb.CreateSnapshotRequest{Name: oneOf("snapshots"), Subscription: oneOf("subscriptions")})
	}
	h.may(err)
	time.Sleep(time.Duration(rand.N(3)) * time.Millisecond)
}

func (h *havoc) schema() {
	name := oneOf("schemas")
	var err error
	switch rand.N(3) {
	case 0:
		_, err = h.schemas.CreateSchema(h.ctx(), &pubsubpb.CreateSchemaRequest{Parent: testProject, SchemaId: name[len(testProject+"/schemas/"):], Schema: avroSchema(avroOne)})
	case 1:
		_, err = h.schemas.CommitSchema(h.ctx(), &pubsubpb.CommitSchemaRequest{Name: name, Schema: avroSchema(avroOne)})
	case 2:
		_, err = h.schemas.DeleteSchema(h.ctx(), &pubsubpb.DeleteSchemaRequest{Name: name})
	}
	h.may(err)
	time.Sleep(time.Duration(rand.N(50)) * time.Millisecond)
}

func (h *havoc) look() {
	h.Stats()
	_, err := h.pub.ListTopicSnapshots(h.ctx(), &pubsubpb.ListTopicSnapshotsRequest{Topic: oneOf("topics")})
	h.may(err)
	_, err = h.pub.ListTopicSubscriptions(h.ctx(), &pubsubpb.ListTopicSubscriptionsRequest{Topic: oneOf("topics")})
	h.may(err)
	time.Sleep(time.Millisecond)
}

// settle waits until no message is on its way to a dead-letter topic.
func (h *havoc) settle() {
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		dead := 0
		for _, sub := range h.broker.allSubscriptions() {
			q := sub.queue
			q.mu.Lock()
			for it := range q.order.all {
				if it.state == deadLettering {
					dead++
				}
			}
			q.mu.Unlock()
		}
		if dead == 0 {
			return
		}
		if time.Now().After(deadline) {
			h.t.Fatalf("%d messages are still on their way to a dead-letter topic", dead)
		}
	}
}
