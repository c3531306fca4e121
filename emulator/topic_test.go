package emulator

import (
	"testing"
	"testing/synctest"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/protobuf/types/known/durationpb"
)

// held returns how many messages the topic holds, without looking for old ones.
func held(b *broker) int {
	t := b.topics[testTopic]
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.log)
}

func TestE05TopicFreesItsMessagesWithoutAnyCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker()
		must(t, b.createTopic(&pubsubpb.Topic{Name: testTopic, MessageRetentionDuration: durationpb.New(time.Hour)}))
		for range 3 { // each time after the topic was empty
			send(t, b, "a")
			time.Sleep(time.Minute)
			send(t, b, "b")
			time.Sleep(2 * time.Hour)
			synctest.Wait()
			if n := held(b); n != 0 {
				t.Errorf("an hour after its retention the topic holds %d messages", n)
			}
		}
		send(t, b, "a")
		_, err := b.updateTopic(testTopic, func(pb *pubsubpb.Topic) error {
			pb.MessageRetentionDuration = durationpb.New(minRetention)
			return nil
		})
		must(t, err)
		time.Sleep(minRetention)
		synctest.Wait()
		if n := held(b); n != 0 {
			t.Errorf("after its shorter retention the topic holds %d messages", n)
		}
	})
}
