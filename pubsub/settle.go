package pubsub

import (
	"context"
	"slices"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"

	"github.com/batchfleet/batchfleet/batch"
	"github.com/batchfleet/batchfleet/jobs"
)

// slowSettle is how long an ack or nack waits for a call that hangs.
const slowSettle = 100 * time.Millisecond

// nack is a lease that ends after a time.
type nack struct {
	id      string
	seconds int32
}

// none is the value of an answer that says only whether there was an error.
type none = struct{}

// Ack implements [worker.Source]. Acks that are made at the same time share a call.
func (s *Source) Ack(ctx context.Context, lease jobs.Lease) error {
	if _, err := s.acks.Do(ctx, lease.ID); err != nil {
		return translate("ack", err)
	}
	return nil
}

// Nack implements [worker.Source]. Pub/Sub counts in whole seconds, up to 600. Nacks of the same delay
// that are made at the same time share a call.
func (s *Source) Nack(ctx context.Context, lease jobs.Lease, delay time.Duration) error {
	if _, err := s.nacks.Do(ctx, nack{lease.ID, seconds(delay)}); err != nil {
		return translate("nack", err)
	}
	return nil
}

// Extend implements [worker.Source].
func (s *Source) Extend(ctx context.Context, leases []jobs.Lease, ttl time.Duration) (map[string]error, error) {
	ids := make([]string, len(leases))
	for i, l := range leases {
		ids[i] = l.ID
	}
	return s.modify(ctx, ids, ttl)
}

// HandBack implements [worker.HandBacker]. An ack id belongs to the subscription and not to the
// connection over which it came.
func (s *Source) HandBack(ctx context.Context, queue string, acks []string) error {
	err := s.client.ModifyAckDeadline(ctx, &pubsubpb.ModifyAckDeadlineRequest{Subscription: queue, AckIds: acks})
	if err == nil || len(permanentFailures(err)) == len(acks) {
		return nil // a lost lease needs no handing back
	}
	return translate("hand back leases of "+queue, err)
}

// ackAll acks leases in one call.
func (s *Source) ackAll(ctx context.Context, ids []string) []batch.Answer[none] {
	return settle(ids, func(ids []string) error {
		return s.client.Acknowledge(ctx, &pubsubpb.AcknowledgeRequest{Subscription: s.subscription, AckIds: ids})
	})
}

// nackAll nacks leases, those of the same delay in one call.
func (s *Source) nackAll(ctx context.Context, nacks []nack) []batch.Answer[none] {
	answers := make([]batch.Answer[none], len(nacks))
	places := map[int32][]int{}
	for i, n := range nacks {
		places[n.seconds] = append(places[n.seconds], i)
	}
	for seconds, at := range places {
		ids := make([]string, len(at))
		for k, i := range at {
			ids[k] = nacks[i].id
		}
		for k, a := range settle(ids, func(ids []string) error { return s.setDeadline(ctx, ids, seconds) }) {
			answers[at[k]] = a
		}
	}
	return answers
}

// settle makes one call for leases and returns what came of each. If the call fails because of some of
// them, it is made again for the others. If it is refused, perhaps because of one of them, it is made for each alone.
func settle(ids []string, call func(ids []string) error) []batch.Answer[none] {
	answers := make([]batch.Answer[none], len(ids))
	err := call(ids)
	if err == nil {
		return answers
	}
	reasons, lost := failures(err), permanentFailures(err)
	var others []string
	var places []int
	for i, id := range ids {
		_, named := reasons[id]
		if !named {
			others, places = append(others, id), append(places, i)
		}
		if lost[id] == nil { // a lost lease needs no settling
			answers[i].Err = err
		}
	}
	together := len(ids)
	switch {
	case len(others) == 0, len(ids) == 1:
		return answers
	case len(others) < len(ids):
	case isRefused(err):
		together = 1
	default:
		return answers
	}
	k := 0
	for part := range slices.Chunk(others, together) {
		for _, a := range settle(part, call) {
			answers[places[k]] = a
			k++
		}
	}
	return answers
}

// modify sets the ack deadline of leases, and returns those that are lost.
func (s *Source) modify(ctx context.Context, ids []string, d time.Duration) (lost map[string]error, err error) {
	err = s.setDeadline(ctx, ids, seconds(d))
	if err == nil {
		return nil, nil
	}
	lost = permanentFailures(err)
	if len(lost) == len(ids) {
		return lost, nil
	}
	return lost, translate("modify ack deadline", err)
}

func (s *Source) setDeadline(ctx context.Context, ids []string, seconds int32) error {
	return s.client.ModifyAckDeadline(ctx, &pubsubpb.ModifyAckDeadlineRequest{
		Subscription: s.subscription, AckIds: ids, AckDeadlineSeconds: seconds,
	})
}

// seconds is a delay as Pub/Sub has it.
func seconds(d time.Duration) int32 {
	d = max(0, min(d, maxAckDeadline))
	return int32((d + time.Second - 1) / time.Second) //nolint:gosec // at most 600
}
