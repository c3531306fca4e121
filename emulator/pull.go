package emulator

import (
	"context"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
)

// Pull answers as soon as there is a message. An answer without one means that
// none came: at once when the client asked for that, shortly before its own
// deadline, or after noDeadlinePull where it has none.
func (s subscriber) Pull(ctx context.Context, req *pubsubpb.PullRequest) (*pubsubpb.PullResponse, error) {
	sub, err := s.broker.subscriptionFor(req.GetSubscription())
	if err != nil {
		return nil, err
	}
	if req.GetMaxMessages() <= 0 {
		return nil, status.Errorf(codes.InvalidArgument, "invalid max_messages %d: it must be greater than 0", req.GetMaxMessages())
	}
	w := newWaiter(min(int(req.GetMaxMessages()), maxPullCount), clientLeaving(ctx))

	var got []delivery
	if req.GetReturnImmediately() { //nolint:staticcheck // deprecated, and still sent
		got, err = sub.queue.poll(w)
	} else {
		got, err = sub.queue.pull(ctx, w)
	}
	if err != nil {
		return nil, err
	}
	err = w.ctxErr() // the client may have left meanwhile
	if err == nil {
		err = s.broker.written(ctx)
	}
	if err != nil && got != nil {
		sub.queue.undeliver(got)
		return nil, err
	}
	return &pubsubpb.PullResponse{ReceivedMessages: sub.queue.received(got)}, nil
}

// pull blocks until there are messages for w, it is time to answer without any,
// or ctx ends.
func (q *queue) pull(ctx context.Context, w *waiter) ([]delivery, error) {
	got, err := q.pullOrWait(w)
	if err != nil || got != nil {
		return got, err
	}
	idle := time.NewTimer(idleTime(ctx))
	defer idle.Stop()
	select {
	case got, open := <-w.got:
		if !open {
			return nil, q.whyClosed()
		}
		return got, nil
	case <-idle.C:
		q.cancelWait(w)
		return nil, nil
	case <-ctx.Done():
		q.cancelWait(w)
		return nil, ctx.Err()
	}
}

// clientLeaving returns a function that returns why a client will not see an answer
// sent now: its call has ended, or is about to. Without this a client whose
// deadlines are shorter than a round trip would lease every message and see none.
func clientLeaving(ctx context.Context) func() error {
	const answerTime = time.Millisecond // over loopback, on a busy machine
	deadline, ok := ctx.Deadline()
	if !ok {
		return ctx.Err
	}
	return func() error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if time.Until(deadline) < answerTime {
			return context.DeadlineExceeded
		}
		return nil
	}
}

// idleTime returns how long a pull may wait. It ends before the client's
// deadline: a message delivered while the client cancels would stay leased, unseen,
// until its lease ends, and an empty answer that comes too late is an error to the
// client.
func idleTime(ctx context.Context) time.Duration {
	const wayBack = 100 * time.Millisecond // at least, on a busy machine
	deadline, ok := ctx.Deadline()
	if !ok {
		return noDeadlinePull
	}
	left := time.Until(deadline)
	return min(left-min(max(wayBack, left/10), left/2), maxIdlePull)
}

// received returns the deliveries in the form in which they are sent.
func (q *queue) received(ds []delivery) []*pubsubpb.ReceivedMessage {
	msgs := make([]*pubsubpb.ReceivedMessage, len(ds))
	for i, d := range ds {
		msgs[i] = &pubsubpb.ReceivedMessage{AckId: q.ackID(d.number), Message: d.msg.pb, DeliveryAttempt: d.attempt}
	}
	return msgs
}

// Acknowledge ignores ids whose lease has ended, unless the subscription delivers
// exactly once: then they are an error, as are those that come before their turn.
// The others are acknowledged all the same.
func (s subscriber) Acknowledge(ctx context.Context, req *pubsubpb.AcknowledgeRequest) (*emptypb.Empty, error) {
	q, numbers, err := s.resolveAckIDs(req.GetSubscription(), req.GetAckIds())
	if err != nil {
		return nil, err
	}
	stale, early := q.acknowledge(numbers)
	if err := s.broker.commitAcks(ctx, q); err != nil {
		return nil, err
	}
	return &emptypb.Empty{}, q.settleError(req.GetAckIds(), stale, early)
}

// ModifyAckDeadline treats ids whose lease has ended as Acknowledge does.
func (s subscriber) ModifyAckDeadline(ctx context.Context, req *pubsubpb.ModifyAckDeadlineRequest) (*emptypb.Empty, error) {
	q, numbers, err := s.resolveAckIDs(req.GetSubscription(), req.GetAckIds())
	if err != nil {
		return nil, err
	}
	d, err := extension(req.GetAckDeadlineSeconds())
	if err != nil {
		return nil, err
	}
	stale := q.extend(numbers, d)
	if err := s.broker.commitAcks(ctx, q); err != nil {
		return nil, err
	}
	return &emptypb.Empty{}, q.settleError(req.GetAckIds(), stale, nil)
}

func (s subscriber) resolveAckIDs(name string, ids []string) (*queue, []uint64, error) {
	sub, err := s.broker.subscriptionFor(name)
	if err != nil {
		return nil, nil, err
	}
	if len(ids) == 0 {
		return nil, nil, status.Error(codes.InvalidArgument, "No ack ids specified.")
	}
	numbers, err := sub.queue.deliveries(ids)
	return sub.queue, numbers, err
}

// extension checks the seconds of a modack: 0 is a nack.
func extension(seconds int32) (time.Duration, error) {
	d := time.Duration(seconds) * time.Second
	if d < 0 || d > maxAckDeadline {
		return 0, status.Errorf(codes.InvalidArgument, "invalid ack_deadline_seconds %d: want 0 to 600", seconds)
	}
	return d, nil
}
