package emulator

import (
	"log/slog"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
)

// FuzzApply feeds arbitrary records to an image that holds a little of
// everything: a damaged journal must never end the server.
func FuzzApply(f *testing.F) {
	topic, sub := &pubsubpb.Topic{Name: testTopic}, &pubsubpb.Subscription{Topic: testTopic}
	sub.Name, sub.EnableMessageOrdering = testSub, true
	if err := setSubscriptionDefaults(sub); err != nil {
		f.Fatal(err)
	}
	m := &message{id: 9, pb: &pubsubpb.PubsubMessage{Data: []byte("a"), MessageId: "9", OrderingKey: "k"}}
	published := newRecord(recPublished)
	published.string(testTopic)
	published.uint(1)
	published.message(m)
	leased := queueRecord(recLeased, 7, 1)
	leased.uint(m.id)
	leased.time(time.Second)
	leased.uint(1)
	returned := queueRecord(recReturned, 7, 1)
	returned.time(0)
	reset := newRecord(recReset)
	reset.uint(7)
	reset.time(0)
	reset.ids([]*message{m})
	reset.ids(nil)
	sane := []recordWriter{
		epochRecord(time.Now()), topicRecord(topic, 0), subscriptionRecord(sub, 7, 0), published, leased, returned, reset,
		snapshotTakenRecord(&pubsubpb.Snapshot{Name: testSnapshot, Topic: testTopic}, 7, []*message{m}),
		queueRecord(recAcked, 7, 1), queueRecord(recAckedEarly, 7, 1), queueRecord(recUndone, 7, 1), queueRecord(recDeadLettered, 7, 9),
	}
	for _, r := range sane {
		f.Add([]byte(r))
		f.Add([]byte(r[:len(r)-1]))
	}
	f.Add([]byte{byte(recReset), 7, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, record []byte) {
		img := newImage()
		for _, r := range sane[:5] {
			must(t, img.apply(r))
		}
		_ = img.apply(record) // an error is fine
		_ = img.apply(returned)
		b := img.restore(nil, slog.New(slog.DiscardHandler))
		for _, s := range b.allSubscriptions() {
			s.queue.stats()
		}
		b.closeQueues()
	})
}

// The process may end between the last nack of a message and its dead letter,
// or between the dead letter and the record that the message is gone.
func TestE06DeadLetterIsNotLostByARestart(t *testing.T) {
	const deadTopic, deadSub = "projects/test/topics/dead", "projects/test/subscriptions/dead"
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, dir)
		b := s.broker
		must(t, b.createTopic(&pubsubpb.Topic{Name: testTopic}))
		must(t, b.createTopic(&pubsubpb.Topic{Name: deadTopic}))
		addSub(t, b, deadSub, deadTopic, &pubsubpb.Subscription{})
		addSub(t, b, testSub, testTopic, &pubsubpb.Subscription{DeadLetterPolicy: &pubsubpb.DeadLetterPolicy{DeadLetterTopic: deadTopic}})
		q := queueOf(t, b, testSub)
		q.publishDeadLetter = func(*message, int32) error { runtime.Goexit(); return nil } // here the process ends
		send(t, b, "bad")
		for range 5 {
			q.extend(numbersOf(want(t, q, "bad")), 0)
		}
		must(t, b.log.journal.Close())

		s = open(t, dir)
		synctest.Wait()
		want(t, queueOf(t, s.broker, testSub))
		want(t, queueOf(t, s.broker, deadSub), "bad")
		must(t, s.Close())
	})
}
