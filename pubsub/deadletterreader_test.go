package pubsub

import (
	"fmt"
	"testing"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
)

// On a subscription that delivers exactly once a call fails for one lease that
// is lost. The other letters must not pay for it.
func TestF13LostLetterDoesNotCostTheOthersTheirLeases(t *testing.T) {
	s, l := startEmulator(t)
	ensureDead(t, s)
	d, box := deadLetterTopic(t, l.Addr()), letterBox(t, l.Addr(), noneLeft(s))
	_, err := box.client.UpdateSubscription(within(t), &pubsubpb.UpdateSubscriptionRequest{
		Subscription: &pubsubpb.Subscription{Name: deadSubName, EnableExactlyOnceDelivery: true},
		UpdateMask:   &fieldmaskpb.FieldMask{Paths: []string{"enable_exactly_once_delivery"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	const letters = maxAckIDs + 200
	for i := range letters {
		if _, err := d.pub.send(within(t), &pubsubpb.PubsubMessage{Data: fmt.Append(nil, i)}); err != nil {
			t.Fatal(err)
		}
	}
	got, _, err := box.Collect(within(t), patience)
	if err != nil || len(got) != letters {
		t.Fatalf("collected %d letters, %v", len(got), err)
	}
	lost := got[:1] // somebody else drops it
	if err := box.client.Acknowledge(within(t), &pubsubpb.AcknowledgeRequest{Subscription: deadSubName, AckIds: leasesOf(lost)}); err != nil {
		t.Fatal(err)
	}
	if err := box.modify(within(t), letterLease, leasesOf(got)); err != nil {
		t.Errorf("keep: %v", err)
	}
	if held := len(box.ids()); held != letters-1 {
		t.Errorf("the box holds %d letters, want all but the lost one", held)
	}
	if err := box.HandBack(within(t), got...); err != nil {
		t.Errorf("hand back: %v", err)
	}
	for _, st := range s.Stats() {
		if st.Subscription == deadSubName && (st.Leased != 0 || st.Undelivered != letters-1) {
			t.Errorf("%d letters are still held, %d are there", st.Leased, st.Undelivered)
		}
	}
}
