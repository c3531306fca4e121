package emulator

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
)

// A departure is a context of a client that leaves after its second look.
type departure struct {
	context.Context
	looks int
}

func (d *departure) Err() error {
	if d.looks++; d.looks > 1 {
		return context.Canceled
	}
	return nil
}

// direct returns the services of a server with testTopic and testSub.
func direct(t *testing.T) (*Server, publisher, subscriber) {
	t.Helper()
	s := newServer(t)
	return s, publisher{s.broker}, subscriber{broker: s.broker}
}

func TestMessageOfAClientThatLeavesInTheLastMomentGoesBack(t *testing.T) {
	s, pub, sub := direct(t)
	req := &pubsubpb.PublishRequest{Topic: testTopic, Messages: []*pubsubpb.PubsubMessage{{Data: []byte("x")}}}
	if _, err := pub.Publish(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	_, err := sub.Pull(&departure{Context: t.Context()}, &pubsubpb.PullRequest{Subscription: testSub, MaxMessages: 1})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("pull: %v, want canceled", err)
	}
	if st := s.Stats()[0]; st.Undelivered != 1 || st.Leased != 0 {
		t.Errorf("stats %+v, want the message back", st)
	}
}

func TestUpdatedAckDeadlineHoldsForLaterDeliveries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, pub, sub := direct(t)
		for range 2 {
			req := &pubsubpb.PublishRequest{Topic: testTopic, Messages: []*pubsubpb.PubsubMessage{{Data: []byte("x")}}}
			if _, err := pub.Publish(t.Context(), req); err != nil {
				t.Fatal(err)
			}
		}
		pull := &pubsubpb.PullRequest{Subscription: testSub, MaxMessages: 1}
		if _, err := sub.Pull(t.Context(), pull); err != nil {
			t.Fatal(err)
		}
		_, err := sub.UpdateSubscription(t.Context(), &pubsubpb.UpdateSubscriptionRequest{
			Subscription: &pubsubpb.Subscription{Name: testSub, AckDeadlineSeconds: 20},
			UpdateMask:   &fieldmaskpb.FieldMask{Paths: []string{"ack_deadline_seconds"}},
		})
		must(t, err)
		if _, err := sub.Pull(t.Context(), pull); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Second)
		if st := s.Stats()[0]; st.Undelivered != 1 || st.Leased != 1 {
			t.Errorf("stats %+v, want the second delivery expired and the first not", st)
		}
	})
}
