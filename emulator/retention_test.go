package emulator

import (
	"testing"
	"testing/synctest"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/protobuf/types/known/durationpb"
)

// What was dropped for its age stays away, though the retention has become
// longer before a restart.
func TestE06LongerRetentionBringsNothingBackAtARestart(t *testing.T) {
	const otherSub = "projects/test/subscriptions/other"
	retain := func(t *testing.T, b *broker, d *durationpb.Duration) {
		t.Helper()
		for _, name := range []string{testSub, otherSub} {
			_, err := b.updateSubscription(name, func(pb *pubsubpb.Subscription) error {
				pb.MessageRetentionDuration = d
				return completeSubscription(pb)
			})
			must(t, err)
		}
		_, err := b.updateTopic(testTopic, func(pb *pubsubpb.Topic) error {
			pb.MessageRetentionDuration = d
			return nil
		})
		must(t, err)
	}
	tests := []struct {
		name string
		do   func(t *testing.T, b *broker)
	}{
		{"longer", func(t *testing.T, b *broker) {
			t.Helper()
			time.Sleep(minRetention)
			retain(t, b, durationpb.New(time.Hour))
		}},
		{"shorter and longer again", func(t *testing.T, b *broker) {
			t.Helper()
			retain(t, b, durationpb.New(time.Hour))
			time.Sleep(20 * time.Minute)
			retain(t, b, durationpb.New(minRetention))
			retain(t, b, durationpb.New(time.Hour))
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				s := open(t, dir)
				b := s.broker
				must(t, b.createTopic(&pubsubpb.Topic{Name: testTopic}))
				for _, name := range []string{testSub, otherSub} {
					addSub(t, b, name, testTopic, &pubsubpb.Subscription{RetainAckedMessages: true})
				}
				retain(t, b, durationpb.New(minRetention))
				send(t, b, "old")
				queueOf(t, b, otherSub).acknowledge(numbersOf(want(t, queueOf(t, b, otherSub), "old")))
				test.do(t, b)
				send(t, b, "new")
				before := sorted(dump(b))
				must(t, s.Close())

				s = open(t, dir)
				defer func() { must(t, s.Close()) }()
				if after := sorted(dump(s.broker)); after != before {
					t.Errorf("before the restart:\n%s\nafter:\n%s", before, after)
				}
				want(t, queueOf(t, s.broker, testSub), "new")
			})
		})
	}
}
