package emulator

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// errStreamClosed is why a stream ends whose client has closed it.
var errStreamClosed = errors.New("stream closed by the client")

// A stream is one StreamingPull call. Messages go out on the handler's
// goroutine, requests come in on one of their own.
type stream struct {
	call   pubsubpb.Subscriber_StreamingPullServer
	broker *broker
	queue  *queue
	waiter *waiter
	// ping receives when a keepalive is to be answered. It has room for one: one
	// answer is enough for several.
	ping chan struct{}
	// confirm holds answers to acks and extensions that are to be sent. When it is
	// full, because the client does not read, no more requests are read.
	confirm chan *pubsubpb.StreamingPullResponse
}

// StreamingPull sends messages until the client closes the stream. Acks and
// extensions on it are handled like those of unary calls.
func (s subscriber) StreamingPull(call pubsubpb.Subscriber_StreamingPullServer) error {
	first, err := call.Recv()
	if err != nil {
		return err
	}
	ctx, end := context.WithCancelCause(call.Context())
	defer end(nil)
	st, err := s.open(ctx, call, first)
	if err != nil {
		return err
	}
	// Recv returns only once this handler has, so the receiver cannot be joined
	// here: Serve does, after the last call has ended.
	s.receivers.Go(func() { end(st.receive(ctx, first)) })
	return st.send(ctx)
}

// open checks the first request of a stream.
func (s subscriber) open(ctx context.Context, call pubsubpb.Subscriber_StreamingPullServer, first *pubsubpb.StreamingPullRequest) (*stream, error) {
	sub, err := s.broker.subscriptionFor(first.GetSubscription())
	if err == nil {
		err = s.broker.log.err()
	}
	if err != nil {
		return nil, err
	}
	lease, err := streamDeadline(first.GetStreamAckDeadlineSeconds())
	if err != nil {
		return nil, err
	}
	w := newWaiter(maxPullCount, ctx.Err)
	w.maxBytes = maxStreamBytes
	w.lease = lease
	w.flow = &flow{
		maxCount: int(max(first.GetMaxOutstandingMessages(), 0)),
		maxBytes: int(max(first.GetMaxOutstandingBytes(), 0)),
	}
	st := &stream{
		call: call, queue: sub.queue, waiter: w, broker: s.broker,
		confirm: make(chan *pubsubpb.StreamingPullResponse, 16),
	}
	if first.GetProtocolVersion() >= 1 { // the client waits for answers to its keepalives
		st.ping = make(chan struct{}, 1)
	}
	return st, nil
}

// send delivers messages until ctx ends or the subscription closes.
func (st *stream) send(ctx context.Context) error {
	for {
		if err := st.answerWaiting(); err != nil {
			return err
		}
		got, err := st.queue.pullOrWait(st.waiter)
		if err == nil && got == nil {
			got, err = st.next(ctx)
		}
		if err != nil {
			return err
		}
		if got == nil {
			return nil
		}
		if err = st.broker.written(ctx); err == nil {
			err = st.call.Send(&pubsubpb.StreamingPullResponse{
				ReceivedMessages:       st.queue.received(got),
				SubscriptionProperties: st.queue.properties(),
			})
		}
		if err != nil {
			st.queue.undeliver(got)
			return err
		}
	}
}

// next waits for messages and answers keepalives meanwhile. It returns nothing
// when the client has closed the stream.
func (st *stream) next(ctx context.Context) ([]delivery, error) {
	for {
		var resp *pubsubpb.StreamingPullResponse
		select {
		case got, open := <-st.waiter.got:
			if !open {
				return nil, st.queue.whyClosed()
			}
			return got, nil
		case <-st.ping:
			resp = &pubsubpb.StreamingPullResponse{}
		case resp = <-st.confirm:
		case <-ctx.Done():
			st.queue.cancelWait(st.waiter)
			if err := context.Cause(ctx); !errors.Is(err, errStreamClosed) {
				return nil, err
			}
			return nil, st.answerWaiting()
		}
		if err := st.answer(resp); err != nil {
			return nil, err
		}
	}
}

// answerWaiting sends the answers that are due. They must not wait for the end
// of a backlog: meanwhile no acks would be read, and the leases would end.
func (st *stream) answerWaiting() error {
	for range cap(st.confirm) + cap(st.ping) {
		var resp *pubsubpb.StreamingPullResponse
		select {
		case resp = <-st.confirm:
		case <-st.ping:
			resp = &pubsubpb.StreamingPullResponse{}
		default:
			return nil
		}
		if err := st.answer(resp); err != nil {
			return err
		}
	}
	return nil
}

// answer sends a response without messages.
func (st *stream) answer(resp *pubsubpb.StreamingPullResponse) error {
	resp.SubscriptionProperties = st.queue.properties()
	err := st.call.Send(resp)
	if err != nil {
		st.queue.cancelWait(st.waiter)
	}
	return err
}

// receive reads requests until the call ends, and returns why it did.
func (st *stream) receive(ctx context.Context, first *pubsubpb.StreamingPullRequest) error {
	if err := st.settle(ctx, first); err != nil {
		return err
	}
	for {
		req, err := st.call.Recv()
		if errors.Is(err, io.EOF) {
			return errStreamClosed
		}
		if err != nil {
			return err
		}
		if err := st.handle(ctx, req); err != nil {
			return err
		}
	}
}

// handle handles a request that is not the first.
func (st *stream) handle(ctx context.Context, req *pubsubpb.StreamingPullRequest) error {
	if req.GetSubscription() != "" || req.GetClientId() != "" || req.GetProtocolVersion() != 0 ||
		req.GetMaxOutstandingMessages() != 0 || req.GetMaxOutstandingBytes() != 0 {
		return status.Error(codes.InvalidArgument,
			"subscription, client_id, protocol_version and max_outstanding_* may be set only in the first request of a stream")
	}
	if seconds := req.GetStreamAckDeadlineSeconds(); seconds != 0 {
		lease, err := streamDeadline(seconds)
		if err != nil {
			return err
		}
		st.queue.setLease(st.waiter, lease)
	}
	if len(req.GetAckIds()) == 0 && len(req.GetModifyDeadlineAckIds()) == 0 {
		select {
		case st.ping <- struct{}{}:
		default:
		}
	}
	return st.settle(ctx, req)
}

// settle does the acks and extensions of a request, and confirms them where the
// subscription delivers exactly once.
func (st *stream) settle(ctx context.Context, req *pubsubpb.StreamingPullRequest) error {
	acks, err := st.queue.deliveries(req.GetAckIds())
	if err != nil {
		return err
	}
	ids, seconds := req.GetModifyDeadlineAckIds(), req.GetModifyDeadlineSeconds()
	if len(ids) != len(seconds) {
		return status.Errorf(codes.InvalidArgument,
			"%d modify_deadline_ack_ids but %d modify_deadline_seconds", len(ids), len(seconds))
	}
	var answer pubsubpb.StreamingPullResponse
	if len(acks) > 0 {
		answer.AcknowledgeConfirmation = st.acknowledge(req.GetAckIds(), acks)
	}
	if len(ids) > 0 {
		answer.ModifyAckDeadlineConfirmation = &pubsubpb.StreamingPullResponse_ModifyAckDeadlineConfirmation{}
	}
	for len(ids) > 0 {
		n := 1 // clients send long runs of the same deadline
		for n < len(ids) && seconds[n] == seconds[0] {
			n++
		}
		d, err := extension(seconds[0])
		if err != nil {
			return err
		}
		numbers, err := st.queue.deliveries(ids[:n])
		if err != nil {
			return err
		}
		valid, invalid := split(ids[:n], st.queue.extend(numbers, d))
		c := answer.ModifyAckDeadlineConfirmation
		c.AckIds, c.InvalidAckIds = append(c.AckIds, valid...), append(c.InvalidAckIds, invalid...)
		ids, seconds = ids[n:], seconds[n:]
	}
	return st.confirmed(ctx, &answer)
}

// acknowledge acks deliveries and returns the result of each.
func (st *stream) acknowledge(ids []string, numbers []uint64) *pubsubpb.StreamingPullResponse_AcknowledgeConfirmation {
	stale, early := st.queue.acknowledge(numbers)
	c := new(pubsubpb.StreamingPullResponse_AcknowledgeConfirmation)
	_, c.InvalidAckIds = split(ids, stale)
	_, c.UnorderedAckIds = split(ids, early)
	refused := append(stale, early...)
	slices.Sort(refused)
	c.AckIds, _ = split(ids, refused)
	return c
}

// confirmed sends a confirmation, if the subscription delivers exactly once, when
// the acks and extensions are on disk.
func (st *stream) confirmed(ctx context.Context, answer *pubsubpb.StreamingPullResponse) error {
	if answer.AcknowledgeConfirmation == nil && answer.ModifyAckDeadlineConfirmation == nil || !st.queue.isExact() {
		return nil
	}
	if err := st.broker.commitAcks(ctx, st.queue); err != nil {
		return err
	}
	select {
	case st.confirm <- answer:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func streamDeadline(seconds int32) (time.Duration, error) {
	d := time.Duration(seconds) * time.Second
	if d < minAckDeadline || d > maxAckDeadline {
		return 0, status.Errorf(codes.InvalidArgument, "invalid stream_ack_deadline_seconds %d: want 10 to 600", seconds)
	}
	return d, nil
}
