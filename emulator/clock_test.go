package emulator

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/protobuf/types/known/durationpb"
)

// lives runs each of the lives of a server in a bubble of its own, on one
// directory. Every bubble begins at the same time, so a life that begins with
// a long sleep is followed by one whose clock has gone back.
func lives(t *testing.T, each ...func(t *testing.T, b *broker)) {
	t.Helper()
	dir := t.TempDir()
	for _, life := range each {
		synctest.Test(t, func(t *testing.T) {
			s := open(t, dir)
			defer func() { must(t, s.Close()) }()
			life(t, s.broker)
		})
	}
}

// A machine may start with a clock that is wrong, and correct it later.
func TestE06ClockThatWentBackHoldsNoMessageForLonger(t *testing.T) {
	const year = 365 * 24 * time.Hour
	lives(t, func(t *testing.T, b *broker) {
		must(t, b.createTopic(&pubsubpb.Topic{Name: testTopic}))
		addSub(t, b, testSub, testTopic, &pubsubpb.Subscription{
			AckDeadlineSeconds: 600,
			ExpirationPolicy:   &pubsubpb.ExpirationPolicy{},
			RetryPolicy:        &pubsubpb.RetryPolicy{MinimumBackoff: durationpb.New(time.Minute)},
		})
		time.Sleep(year)
		send(t, b, "leased", "delayed", "waiting")
		q := queueOf(t, b, testSub)
		ds := want(t, q, "leased", "delayed", "waiting")
		q.extend(numbersOf(ds[1:2]), 0)
		q.undeliver(ds[2:])
	}, func(t *testing.T, b *broker) {
		q := queueOf(t, b, testSub)
		q.undeliver(want(t, q, "waiting"))
		time.Sleep(11 * time.Minute) // a lease, and the delay after it
		want(t, q, "waiting", "delayed", "leased")
	})
}

func TestE06MessageIDsRiseWhenTheClockWentBack(t *testing.T) {
	var last uint64
	next := func(t *testing.T, b *broker) {
		t.Helper()
		send(t, b, "a")
		ds := want(t, queueOf(t, b, testSub), "a")
		id, err := strconv.ParseUint(ds[0].msg.pb.GetMessageId(), 10, 64)
		must(t, err)
		if id <= last {
			t.Errorf("message id %d follows %d", id, last)
		}
		last = id
		queueOf(t, b, testSub).acknowledge(numbersOf(ds))
		must(t, b.checkpoint(t.Context())) // holds no message
	}
	lives(t, func(t *testing.T, b *broker) {
		must(t, b.createTopic(&pubsubpb.Topic{Name: testTopic}))
		addSub(t, b, testSub, testTopic, &pubsubpb.Subscription{})
		time.Sleep(time.Hour)
		next(t, b)
	}, next, next)
}
