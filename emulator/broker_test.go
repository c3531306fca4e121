package emulator

import (
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

const testSnapshot = "projects/test/snapshots/snap"

// bubble runs f against a broker with testTopic and testSub in a bubble of
// virtual time; pb may ask anything of the subscription.
func bubble(t *testing.T, pb *pubsubpb.Subscription, f func(t *testing.T, b *broker)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := newBroker()
		must(t, b.createTopic(&pubsubpb.Topic{Name: testTopic}))
		addSub(t, b, testSub, testTopic, pb)
		f(t, b)
		for _, sub := range b.allSubscriptions() {
			must(t, b.deleteSubscription(sub.pb.GetName()))
		}
	})
}

func addSub(t *testing.T, b *broker, name, topic string, pb *pubsubpb.Subscription) {
	t.Helper()
	pb.Name, pb.Topic = name, topic
	must(t, setSubscriptionDefaults(pb))
	must(t, b.createSubscription(pb))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// send publishes to testTopic messages written as "data" or "key/data".
func send(t *testing.T, b *broker, texts ...string) {
	t.Helper()
	var msgs []*pubsubpb.PubsubMessage
	for _, text := range texts {
		m := &pubsubpb.PubsubMessage{Data: []byte(text), Attributes: map[string]string{"data": text}}
		if key, _, ok := strings.Cut(text, "/"); ok {
			m.OrderingKey = key
		}
		msgs = append(msgs, m)
	}
	to, _, err := b.topicFor(testTopic)
	must(t, err)
	_, err = b.publish(to, msgs)
	must(t, err)
}

func queueOf(t *testing.T, b *broker, name string) *queue {
	t.Helper()
	sub, err := b.subscriptionFor(name)
	must(t, err)
	return sub.queue
}

// want polls and compares what is there.
func want(t *testing.T, q *queue, texts ...string) []delivery {
	t.Helper()
	got, ds := takeNow(t, q, 100)
	wantData(t, got, texts...)
	return ds
}

func TestE04FilterLetsOnlyMatchingMessagesIn(t *testing.T) {
	bubble(t, &pubsubpb.Subscription{Filter: `attributes.data = "yes" OR hasPrefix(attributes.data, "may")`}, func(t *testing.T, b *broker) {
		send(t, b, "yes", "no", "maybe", "never")
		want(t, queueOf(t, b, testSub), "yes", "maybe")
	})
}

func TestE04RetryPolicyMakesMessagesWaitLongerEachTime(t *testing.T) {
	policy := &pubsubpb.RetryPolicy{MinimumBackoff: durationpb.New(10 * time.Second), MaximumBackoff: durationpb.New(35 * time.Second)}
	bubble(t, &pubsubpb.Subscription{RetryPolicy: policy}, func(t *testing.T, b *broker) {
		q := queueOf(t, b, testSub)
		send(t, b, "a")
		for attempt, seconds := range []int{10, 20, 35, 35} {
			ds := want(t, q, "a")
			if attempt%2 == 0 {
				q.extend(numbersOf(ds), 0)
			} else {
				time.Sleep(10 * time.Second) // an expired lease waits like a nack
			}
			time.Sleep(time.Duration(seconds)*time.Second - time.Nanosecond)
			want(t, q)
			if s := q.stats(); s.Undelivered != 1 || s.Leased != 0 {
				t.Errorf("a waiting message counts as %d undelivered, %d leased", s.Undelivered, s.Leased)
			}
			time.Sleep(time.Nanosecond)
		}
		want(t, q, "a")
	})
}

func TestE04DeadLetterPolicyMovesMessagesAfterTheLastAttempt(t *testing.T) {
	const deadTopic, deadSub = "projects/test/topics/dead", "projects/test/subscriptions/dead"
	synctest.Test(t, func(t *testing.T) {
		b := newBroker()
		must(t, b.createTopic(&pubsubpb.Topic{Name: testTopic}))
		must(t, b.createTopic(&pubsubpb.Topic{Name: deadTopic}))
		addSub(t, b, deadSub, deadTopic, &pubsubpb.Subscription{})
		addSub(t, b, testSub, testTopic, &pubsubpb.Subscription{DeadLetterPolicy: &pubsubpb.DeadLetterPolicy{DeadLetterTopic: deadTopic}})
		q, dead := queueOf(t, b, testSub), queueOf(t, b, deadSub)
		published := time.Now()
		send(t, b, "key/bad")
		for attempt := range 5 {
			ds := want(t, q, "key/bad")
			if ds[0].attempt != int32(attempt+1) {
				t.Errorf("attempt %d says %d", attempt+1, ds[0].attempt)
			}
			want(t, dead)
			if attempt%2 == 0 {
				q.extend(numbersOf(ds), 0)
			} else {
				time.Sleep(10 * time.Second)
			}
			synctest.Wait()
		}
		want(t, q)
		ds := want(t, dead, "key/bad")
		got := ds[0].msg.pb
		for name, value := range map[string]string{
			"data": "key/bad",
			"CloudPubSubDeadLetterSourceDeliveryCount":       "5",
			"CloudPubSubDeadLetterSourceSubscription":        "jobs",
			"CloudPubSubDeadLetterSourceSubscriptionProject": "test",
			"CloudPubSubDeadLetterSourceTopicPublishTime":    published.UTC().Format(time.RFC3339Nano),
		} {
			if got.GetAttributes()[name] != value {
				t.Errorf("attribute %s is %q, want %q", name, got.GetAttributes()[name], value)
			}
		}
		if s := q.stats(); got.GetOrderingKey() != "key" || s.DeadLettered != 1 || s.Undelivered != 0 {
			t.Errorf("dead letter has key %q; %+v", got.GetOrderingKey(), s)
		}
		must(t, b.deleteSubscription(testSub))
		must(t, b.deleteSubscription(deadSub))
	})
}

func TestE04DeadLetterWithoutATopicComesAgain(t *testing.T) {
	const deadTopic = "projects/test/topics/dead"
	synctest.Test(t, func(t *testing.T) {
		b := newBroker()
		must(t, b.createTopic(&pubsubpb.Topic{Name: testTopic}))
		must(t, b.createTopic(&pubsubpb.Topic{Name: deadTopic}))
		addSub(t, b, testSub, testTopic, &pubsubpb.Subscription{DeadLetterPolicy: &pubsubpb.DeadLetterPolicy{DeadLetterTopic: deadTopic}})
		must(t, b.deleteTopic(deadTopic))
		sub, err := b.subscriptionFor(testSub)
		must(t, err)
		if got := sub.pb.GetDeadLetterPolicy().GetDeadLetterTopic(); got != deletedTopic {
			t.Errorf("dead-letter topic is %q, want %q", got, deletedTopic)
		}
		q := sub.queue
		send(t, b, "bad")
		for range 7 {
			q.extend(numbersOf(want(t, q, "bad")), 0)
			synctest.Wait()
		}
		want(t, q, "bad")
		must(t, b.deleteSubscription(testSub))
	})
}

func TestE04SeekToATimeReplaysWhatIsRetained(t *testing.T) {
	bubble(t, &pubsubpb.Subscription{RetainAckedMessages: true}, func(t *testing.T, b *broker) {
		q := queueOf(t, b, testSub)
		send(t, b, "1")
		time.Sleep(time.Minute)
		middle := time.Now()
		send(t, b, "2")
		time.Sleep(time.Minute)
		send(t, b, "3")
		q.acknowledge(numbersOf(want(t, q, "1", "2", "3"))[:2]) // 3 stays leased

		seekTime(t, b, middle)
		ds := want(t, q, "2", "3")
		q.acknowledge(numbersOf(ds))
		seekTime(t, b, time.Now().Add(time.Hour))
		want(t, q)
		seekTime(t, b, middle.Add(-time.Hour))
		want(t, q, "1", "2", "3")
	})
}

func seekTime(t *testing.T, b *broker, to time.Time) {
	t.Helper()
	must(t, b.seek(&pubsubpb.SeekRequest{Subscription: testSub, Target: &pubsubpb.SeekRequest_Time{Time: timestamppb.New(to)}}))
}

func seekSnapshot(t *testing.T, b *broker, sub string) {
	t.Helper()
	must(t, b.seek(&pubsubpb.SeekRequest{Subscription: sub, Target: &pubsubpb.SeekRequest_Snapshot{Snapshot: testSnapshot}}))
}

func TestE04SeekCannotReplayWhatWasNotRetained(t *testing.T) {
	bubble(t, &pubsubpb.Subscription{}, func(t *testing.T, b *broker) {
		q := queueOf(t, b, testSub)
		start := time.Now()
		send(t, b, "1", "2")
		q.acknowledge(numbersOf(want(t, q, "1", "2"))[:1])
		seekTime(t, b, start)
		want(t, q, "2")
	})
}

func TestE04AckedMessagesAreRetainedForAsLongAsOthers(t *testing.T) {
	pb := &pubsubpb.Subscription{RetainAckedMessages: true, MessageRetentionDuration: durationpb.New(minRetention)}
	bubble(t, pb, func(t *testing.T, b *broker) {
		q := queueOf(t, b, testSub)
		start := time.Now()
		send(t, b, "old")
		time.Sleep(time.Minute)
		send(t, b, "new")
		q.acknowledge(numbersOf(want(t, q, "old", "new")))
		time.Sleep(minRetention - time.Minute)
		seekTime(t, b, start)
		want(t, q, "new")
		time.Sleep(2 * minRetention)
		synctest.Wait()
		if q.order.n != 0 || q.ackedItems.n != 0 {
			t.Errorf("%d messages and %d kept after the retention", q.order.n, q.ackedItems.n)
		}
	})
}

func TestE04TopicRetainsMessagesFromBeforeTheSubscription(t *testing.T) {
	const later = "projects/test/subscriptions/later"
	synctest.Test(t, func(t *testing.T) {
		b := newBroker()
		must(t, b.createTopic(&pubsubpb.Topic{Name: testTopic, MessageRetentionDuration: durationpb.New(minRetention)}))
		start := time.Now()
		send(t, b, "old")
		time.Sleep(time.Minute)
		send(t, b, "new")
		addSub(t, b, testSub, testTopic, &pubsubpb.Subscription{Filter: `attributes.data != "new"`})
		addSub(t, b, later, testTopic, &pubsubpb.Subscription{})
		q := queueOf(t, b, testSub)
		want(t, q)
		seekTime(t, b, start)
		q.acknowledge(numbersOf(want(t, q, "old")))
		seekTime(t, b, start)
		want(t, q, "old")

		time.Sleep(minRetention - time.Minute)
		must(t, b.seek(&pubsubpb.SeekRequest{Subscription: later, Target: &pubsubpb.SeekRequest_Time{Time: timestamppb.New(start)}}))
		want(t, queueOf(t, b, later), "new")
		time.Sleep(time.Hour)
		synctest.Wait()
		if to, _, _ := b.topicFor(testTopic); len(to.log) != 0 {
			t.Errorf("the topic still holds %d messages", len(to.log))
		}
		must(t, b.deleteSubscription(testSub))
		must(t, b.deleteSubscription(later))
	})
}

func TestE04SnapshotHoldsTheBacklogAndWhatFollows(t *testing.T) {
	bubble(t, &pubsubpb.Subscription{}, func(t *testing.T, b *broker) {
		const other = "projects/test/subscriptions/other"
		addSub(t, b, other, testTopic, &pubsubpb.Subscription{RetainAckedMessages: true})
		q := queueOf(t, b, testSub)
		send(t, b, "acked", "leased", "waiting")
		ds := want(t, q, "acked", "leased", "waiting")
		q.acknowledge(numbersOf(ds[:1]))
		q.extend(numbersOf(ds[2:]), 0)
		must(t, b.createSnapshot(&pubsubpb.Snapshot{Name: testSnapshot}, testSub))
		send(t, b, "later")
		q.acknowledge(numbersOf(ds[1:2]))
		q.acknowledge(numbersOf(want(t, q, "waiting", "later")))
		want(t, q)

		seekSnapshot(t, b, testSub)
		q.acknowledge(numbersOf(want(t, q, "leased", "waiting", "later")))
		q2 := queueOf(t, b, other)
		seekSnapshot(t, b, other)
		want(t, q2, "leased", "waiting", "later")
		seekSnapshot(t, b, testSub) // again: nothing is used up
		want(t, q, "leased", "waiting", "later")

		must(t, b.deleteSnapshot(testSnapshot))
		err := b.seek(&pubsubpb.SeekRequest{Subscription: testSub, Target: &pubsubpb.SeekRequest_Snapshot{Snapshot: testSnapshot}})
		wantCode(t, err, codes.NotFound)
	})
}

func TestE04SnapshotExpires(t *testing.T) {
	bubble(t, &pubsubpb.Subscription{}, func(t *testing.T, b *broker) {
		send(t, b, "a")
		time.Sleep(24 * time.Hour)
		must(t, b.createSnapshot(&pubsubpb.Snapshot{Name: testSnapshot}, testSub))
		snap, err := b.snapshotFor(testSnapshot)
		must(t, err)
		if left := time.Until(snap.GetExpireTime().AsTime()); left != 6*24*time.Hour {
			t.Errorf("expires in %v, want 7 days less the age of the oldest message", left)
		}
		time.Sleep(6*24*time.Hour - 1)
		synctest.Wait()
		if _, err := b.snapshotFor(testSnapshot); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		_, err = b.snapshotFor(testSnapshot)
		wantCode(t, err, codes.NotFound)
		if to, _, _ := b.topicFor(testTopic); len(to.snapshots) != 0 {
			t.Error("the topic still feeds the snapshot")
		}
	})
}

func TestE04UnusedSubscriptionExpires(t *testing.T) {
	const day = 24 * time.Hour
	pb := &pubsubpb.Subscription{ExpirationPolicy: &pubsubpb.ExpirationPolicy{Ttl: durationpb.New(7 * day)}}
	synctest.Test(t, func(t *testing.T) {
		b := newBroker()
		must(t, b.createTopic(&pubsubpb.Topic{Name: testTopic}))
		addSub(t, b, testSub, testTopic, pb)
		time.Sleep(6 * day)
		want(t, queueOf(t, b, testSub)) // the pull counts as use
		time.Sleep(7*day - 1)
		synctest.Wait()
		if _, err := b.subscriptionFor(testSub); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		_, err := b.subscriptionFor(testSub)
		wantCode(t, err, codes.NotFound)
	})
}

func TestE04DeadLetterPolicyThatComesLaterCountsEarlierAttempts(t *testing.T) {
	bubble(t, &pubsubpb.Subscription{}, func(t *testing.T, b *broker) {
		const deadTopic = "projects/test/topics/dead"
		must(t, b.createTopic(&pubsubpb.Topic{Name: deadTopic}))
		q := queueOf(t, b, testSub)
		send(t, b, "bad")
		for range 6 {
			ds := want(t, q, "bad")
			if ds[0].attempt != 0 {
				t.Error("an attempt was counted for clients without a policy")
			}
			q.extend(numbersOf(ds), 0)
		}
		_, err := b.updateSubscription(testSub, func(pb *pubsubpb.Subscription) error {
			pb.DeadLetterPolicy = &pubsubpb.DeadLetterPolicy{DeadLetterTopic: deadTopic}
			return completeSubscription(pb)
		})
		must(t, err)
		ds := want(t, q, "bad")
		if ds[0].attempt != 7 {
			t.Errorf("attempt %d, want 7", ds[0].attempt)
		}
		q.extend(numbersOf(ds), 0)
		synctest.Wait()
		want(t, q)
		if got := strconv.FormatUint(q.stats().DeadLettered, 10); got != "1" {
			t.Errorf("%s messages dead-lettered, want 1", got)
		}
	})
}

func TestE04SeekStaysWithinOneTopicAlsoWhenItIsGone(t *testing.T) {
	bubble(t, &pubsubpb.Subscription{}, func(t *testing.T, b *broker) {
		const otherTopic, otherSub = "projects/test/topics/other", "projects/test/subscriptions/other"
		must(t, b.createTopic(&pubsubpb.Topic{Name: otherTopic}))
		addSub(t, b, otherSub, otherTopic, &pubsubpb.Subscription{})
		send(t, b, "secret")
		must(t, b.createSnapshot(&pubsubpb.Snapshot{Name: testSnapshot}, testSub))
		seek := &pubsubpb.SeekRequest{Subscription: otherSub, Target: &pubsubpb.SeekRequest_Snapshot{Snapshot: testSnapshot}}
		wantCode(t, b.seek(seek), codes.InvalidArgument)
		must(t, b.deleteTopic(testTopic))
		must(t, b.deleteTopic(otherTopic))
		wantCode(t, b.seek(seek), codes.FailedPrecondition)
		want(t, queueOf(t, b, otherSub))
	})
}
