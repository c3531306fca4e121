package emulator

import (
	"fmt"
	"sync"
	"testing"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/protobuf/types/known/durationpb"
)

// A record that came before or behind that of what happened at the same time
// would make another state of it.
func TestE06RecordsAreInTheOrderOfWhatHappened(t *testing.T) {
	tests := []struct {
		name         string
		change, then func(t *testing.T, b *broker, topic, sub string)
	}{
		{"a subscription is created while messages are published", func(t *testing.T, b *broker, topic, sub string) {
			t.Helper()
			addSub(t, b, sub+"-more", topic, &pubsubpb.Subscription{})
		}, publishTo},
		{"a topic begins to retain messages while they are published", func(t *testing.T, b *broker, topic, _ string) {
			t.Helper()
			_, err := b.updateTopic(topic, func(pb *pubsubpb.Topic) error {
				pb.MessageRetentionDuration = durationpb.New(minRetention)
				return nil
			})
			must(t, err)
		}, publishTo},
		{"a subscription begins to retain messages while they are acknowledged", func(t *testing.T, b *broker, _, sub string) {
			t.Helper()
			_, err := b.updateSubscription(sub, func(pb *pubsubpb.Subscription) error {
				pb.RetainAckedMessages = true
				return nil
			})
			must(t, err)
		}, ackOne},
		{"a snapshot is taken while messages are acknowledged", func(t *testing.T, b *broker, _, sub string) {
			t.Helper()
			must(t, b.createSnapshot(&pubsubpb.Snapshot{Name: testProject + "/snapshots" + sub[len(testProject+"/subscriptions"):]}, sub))
		}, ackOne},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir)
			for round := range 400 {
				topic, sub := fmt.Sprintf("%s-%d", testTopic, round), fmt.Sprintf("%s-%d", testSub, round)
				must(t, s.broker.createTopic(&pubsubpb.Topic{Name: topic}))
				addSub(t, s.broker, sub, topic, &pubsubpb.Subscription{})
				for range 20 {
					publishTo(t, s.broker, topic, sub)
				}
				var other sync.WaitGroup
				begun := make(chan struct{})
				other.Go(func() {
					close(begun)
					for range 20 {
						test.then(t, s.broker, topic, sub)
					}
				})
				<-begun
				test.change(t, s.broker, topic, sub)
				other.Wait()
			}
			before := sorted(dump(s.broker))
			must(t, s.Close())
			s = open(t, dir)
			if after := sorted(dump(s.broker)); after != before {
				t.Errorf("the state on disk is another than that in memory was")
			}
			must(t, s.Close())
		})
	}
}

func publishTo(t *testing.T, b *broker, topic, _ string) {
	t.Helper()
	to, _, err := b.topicFor(topic)
	if err == nil {
		_, err = b.publish(to, []*pubsubpb.PubsubMessage{{Data: []byte("a")}})
	}
	if err != nil {
		t.Error(err)
	}
}

func ackOne(t *testing.T, b *broker, _, sub string) {
	t.Helper()
	of, err := b.subscriptionFor(sub)
	if err != nil {
		t.Error(err)
		return
	}
	ds, err := of.queue.poll(newWaiter(1, here))
	if err != nil {
		t.Error(err)
	}
	of.queue.acknowledge(numbersOf(ds))
}
