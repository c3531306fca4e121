package pubsub

import (
	"fmt"
	"testing"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
)

// On a subscription that delivers exactly once a call fails for one lease that
// is lost. The others must keep their leases.
func TestF13LostLetterDoesNotCostTheOthersTheirLeases(t *testing.T) {
	s, l := startEmulator(t)
	ensureDead(t, s)
	d, r := deadLetterTopic(t, l.Addr()), deadLetterReader(t, l.Addr(), noneLeft(s))
	_, err := r.client.UpdateSubscription(within(t), &pubsubpb.UpdateSubscriptionRequest{
		Subscription: &pubsubpb.Subscription{Name: deadSubName, EnableExactlyOnceDelivery: true},
		UpdateMask:   &fieldmaskpb.FieldMask{Paths: []string{"enable_exactly_once_delivery"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	const n = maxAckIDs + 200
	for i := range n {
		if _, err := d.pub.send(within(t), &pubsubpb.PubsubMessage{Data: fmt.Append(nil, i)}); err != nil {
			t.Fatal(err)
		}
	}
	got, _, err := r.Collect(within(t), patience)
	if err != nil || len(got) != n {
		t.Fatalf("collected %d dead letters, %v", len(got), err)
	}
	lost := got[:1] // somebody else drops it
	if err := r.client.Acknowledge(within(t), &pubsubpb.AcknowledgeRequest{Subscription: deadSubName, AckIds: leasesOf(lost)}); err != nil {
		t.Fatal(err)
	}
	if err := r.modify(within(t), deadLetterLease, leasesOf(got)); err != nil {
		t.Errorf("keep: %v", err)
	}
	if held := len(r.ids()); held != n-1 {
		t.Errorf("the reader holds %d dead letters, want all but the lost one", held)
	}
	if err := r.HandBack(within(t), got...); err != nil {
		t.Errorf("hand back: %v", err)
	}
	for _, st := range s.Stats() {
		if st.Subscription == deadSubName && (st.Leased != 0 || st.Undelivered != n-1) {
			t.Errorf("%d dead letters are still leased, %d are there", st.Leased, st.Undelivered)
		}
	}
}
