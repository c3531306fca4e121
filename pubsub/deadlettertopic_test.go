package pubsub

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/batchfleet/batchfleet/emulator"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/worker"
)

// Sorted after subName, so that the statistics of that come first.
const (
	deadTopicName = "projects/test/topics/jobs-dead"
	deadSubName   = "projects/test/subscriptions/jobs-dead"
)

func deadLetterTopic(t *testing.T, addr net.Addr) *DeadLetterTopic {
	t.Helper()
	d, err := OpenDeadLetterTopic(t.Context(), deadTopicName, options(t, addr)...)
	return opened(t, d, err)
}

func deadLetterReader(t *testing.T, addr net.Addr, more ...option.ClientOption) *DeadLetterReader {
	t.Helper()
	r, err := OpenDeadLetterReader(t.Context(), deadSubName, localRules, append(options(t, addr), more...)...)
	return opened(t, r, err)
}

// noneLeft answers a pull at once where nothing is to be had, as if patience had
// ended. So patience may be long: if it ended while dead letters are on their way,
// Collect would miss them.
func noneLeft(s *emulator.Server) option.ClientOption {
	return option.WithGRPCDialOption(grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if pull, ok := req.(*pubsubpb.PullRequest); ok {
			for _, st := range s.Stats() {
				if st.Subscription == pull.GetSubscription() && st.Undelivered == 0 {
					return status.Error(codes.DeadlineExceeded, "none is there")
				}
			}
		}
		return invoke(ctx, method, req, reply, cc, opts...)
	}))
}

// patience is how long Collect waits for a dead letter that is there.
const patience = 20 * time.Second

func ensureDead(t *testing.T, s *emulator.Server) {
	t.Helper()
	if err := s.EnsureSubscription(deadSubName, deadTopicName, 600*time.Second); err != nil {
		t.Fatal(err)
	}
}

func TestF13MissingTopicIsSeenUntilItIsThere(t *testing.T) {
	s, l := startEmulator(t)
	d := deadLetterTopic(t, l.Addr())
	if err := d.Check(within(t)); !errors.Is(err, worker.ErrRefused) || !strings.Contains(err.Error(), deadTopicName) {
		t.Errorf("check: %v, want a refusal that names the topic", err)
	}
	if err := d.Add(within(t), jobs.Lease{Raw: jobs.Raw{ID: "7"}}, worker.DeadLetterInfo{}); !errors.Is(err, worker.ErrRefused) || !strings.Contains(err.Error(), "message 7") {
		t.Errorf("add: %v, want a refusal that names the message", err)
	}
	ensureDead(t, s)
	if err := d.Check(within(t)); err != nil {
		t.Errorf("check: %v, now that it is there", err)
	}
	s.Fail("GetTopic", 1, codes.Unavailable)
	if err := d.Check(within(t)); err != nil {
		t.Errorf("check: %v; it must not ask again while all is well", err)
	}
	s.Fail("Publish", 1, codes.Unavailable)
	if err := d.Add(within(t), jobs.Lease{}, worker.DeadLetterInfo{}); !errors.Is(err, jobs.ErrUnavailable) {
		t.Errorf("add: %v, want ErrUnavailable at once: retries are the worker's", err)
	}
	if err := d.Check(within(t)); !errors.Is(err, jobs.ErrUnavailable) {
		t.Errorf("check: %v; it must ask again once a dead letter was refused", err)
	}
}

func TestF13TopicThatMayNotBeLookedAtIsTrusted(t *testing.T) {
	s, l := startEmulator(t)
	d := deadLetterTopic(t, l.Addr())
	s.Fail("GetTopic", 1, codes.PermissionDenied)
	if err := d.Check(within(t)); err != nil {
		t.Errorf("check: %v; the publisher role may not look", err)
	}
}

func TestF13LetterBoxHoldsAndHandsBack(t *testing.T) {
	s, l := startEmulator(t)
	ensureDead(t, s)
	d := deadLetterTopic(t, l.Addr())
	const n = 250 // more than one answer
	for i := range n {
		lease := jobs.Lease{Job: jobs.Job{ID: jobs.ID(fmt.Sprintf("j%d", i))}, Raw: jobs.Raw{ID: fmt.Sprint(i), Data: fmt.Appendf(nil, `{"job_id":"j%d"}`, i)}}
		if err := d.Add(within(t), lease, worker.DeadLetterInfo{Cause: worker.CauseFailed, At: time.Now(), Reason: "broken"}); err != nil {
			t.Fatal(err)
		}
	}
	first, second := deadLetterReader(t, l.Addr(), noneLeft(s)), deadLetterReader(t, l.Addr(), noneLeft(s))
	got, full, err := first.Collect(within(t), patience)
	if err != nil || full || len(got) != n {
		t.Fatalf("%d dead letters, full %t, %v; want %d", len(got), full, err, n)
	}
	names := map[string]bool{}
	for _, one := range got {
		names[one.Name()] = one.Reason == "broken"
	}
	if len(names) != n {
		t.Errorf("%d different dead letters, want %d", len(names), n)
	}
	if others, _, err := second.Collect(within(t), patience); err != nil || len(others) > 0 {
		t.Errorf("another reader gets %d dead letters, %v; want none while one holds them", len(others), err)
	}
	if err := first.Drop(within(t), got[:10]...); err != nil {
		t.Error(err)
	}
	if err := first.HandBack(within(t), got[10:30]...); err != nil {
		t.Error(err)
	}
	if others, _, err := second.Collect(within(t), patience); err != nil || len(others) != 20 {
		t.Errorf("another reader gets %d dead letters, %v; want the 20 handed back", len(others), err)
	}
	if err := errors.Join(first.HandBackAll(within(t)), second.HandBackAll(within(t))); err != nil {
		t.Error(err)
	}
	if st := s.Stats()[1]; st.Undelivered != n-10 || st.Leased != 0 {
		t.Errorf("%d dead letters undelivered, %d held; want %d and none", st.Undelivered, st.Leased, n-10)
	}
}

func TestF13LetterBoxThatCannotSeeIsNotEmpty(t *testing.T) {
	t.Parallel()
	s, l := startEmulator(t)
	if _, _, err := deadLetterReader(t, l.Addr()).Collect(within(t), 200*time.Millisecond); !errors.Is(err, worker.ErrRefused) || !strings.Contains(err.Error(), deadSubName) {
		t.Errorf("without its subscription: %v, want a refusal that names it", err)
	}
	ensureDead(t, s)
	s.Fail("Pull", 1, codes.Unavailable)
	if _, _, err := deadLetterReader(t, l.Addr()).Collect(within(t), patience); !errors.Is(err, jobs.ErrUnavailable) {
		t.Errorf("with a server in trouble: %v, want ErrUnavailable", err)
	}
	s.Fail("GetSubscription", 1, codes.PermissionDenied)
	if _, _, err := deadLetterReader(t, l.Addr()).Collect(within(t), 200*time.Millisecond); err != nil {
		t.Errorf("as a subscriber who may not look: %v", err)
	}
	dead, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer dead.Close() // never answers, like a silent network
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, _, err := deadLetterReader(t, dead.Addr()).Collect(ctx, 200*time.Millisecond); err == nil {
		t.Error("without an answer there seem to be no dead letters")
	}
}

func TestF13LetterBoxStoppedWhileItCollectsHoldsNothingUnknown(t *testing.T) {
	s, l := startEmulator(t)
	ensureDead(t, s)
	r, d := deadLetterReader(t, l.Addr()), deadLetterTopic(t, l.Addr())
	r.grace = 5 * time.Second                  // the dead letter comes within it
	if err := d.Check(within(t)); err != nil { // the connection stands
		t.Fatal(err)
	}
	cause := errors.New("told to stop")
	ctx, stop := context.WithCancelCause(within(t))
	collected := make(chan error, 1)
	go func() {
		_, _, err := r.Collect(ctx, patience)
		collected <- err
	}()
	wantPulls(t, s, 1)
	stop(cause)
	if err := d.Add(within(t), jobs.Lease{}, worker.DeadLetterInfo{}); err != nil {
		t.Fatal(err)
	}
	if err := <-collected; !errors.Is(err, cause) {
		t.Errorf("collect: %v, want the cause", err)
	}
	if err := r.HandBackAll(within(t)); err != nil {
		t.Error(err)
	}
	if st := s.Stats()[1]; st.Undelivered != 1 || st.Leased != 0 {
		t.Errorf("%d dead letters undelivered, %d still leased", st.Undelivered, st.Leased)
	}
}

func TestF13K13RedrivenMessageIsTheOneThatDied(t *testing.T) {
	s, l := startEmulator(t)
	ensureDead(t, s)
	src := source(t, l.Addr())
	raw(t, l.Addr(), &pubsubpb.PubsubMessage{Data: []byte(`{"job_id":"a", "odd": [1]}`), Attributes: map[string]string{"traceparent": goodTrace, "x": "y"}})
	first, err := src.Lease(within(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := deadLetterTopic(t, l.Addr()).Add(within(t), first, worker.DeadLetterInfo{Cause: worker.CauseFailed, At: time.Now(), Reason: "broken", Attempt: 1}); err != nil {
		t.Fatal(err)
	}
	if err := src.Ack(within(t), first); err != nil {
		t.Fatal(err)
	}
	got, _, err := deadLetterReader(t, l.Addr(), noneLeft(s)).Collect(within(t), patience)
	if err != nil || len(got) != 1 {
		t.Fatal(got, err)
	}
	if err := publisher(t, l.Addr()).Resend(within(t), got[0]); err != nil {
		t.Fatal(err)
	}
	want := maps.Clone(first.Raw.Attributes)
	want["kind"] = string(first.Job.Kind) // for the filters of subscriptions
	again, err := src.Lease(within(t))
	if err != nil || string(again.Raw.Data) != string(first.Raw.Data) || fmt.Sprint(again.Raw.Attributes) != fmt.Sprint(want) {
		t.Errorf("leased again as %s %v, %v; want %s %v", again.Raw.Data, again.Raw.Attributes, err, first.Raw.Data, want)
	}
}

func TestF13LettersAreKeptWhileTheyLieOnTheDesk(t *testing.T) {
	type call struct {
		at      time.Duration
		ids     int
		seconds int32
	}
	var calls []call
	begin := time.Time{}
	batches := 0
	a := &answers{
		pull: func(ctx context.Context, _ *pubsubpb.PullRequest) (*pubsubpb.PullResponse, error) {
			if batches++; batches > 25 {
				<-ctx.Done()
				return nil, status.FromContextError(ctx.Err()).Err()
			}
			reply := &pubsubpb.PullResponse{}
			for i := range 100 {
				reply.ReceivedMessages = append(reply.ReceivedMessages, &pubsubpb.ReceivedMessage{AckId: fmt.Sprintf("%d/%d", batches, i), Message: &pubsubpb.PubsubMessage{}})
			}
			return reply, nil
		},
		modify: func(r *pubsubpb.ModifyAckDeadlineRequest) error {
			calls = append(calls, call{time.Since(begin), len(r.GetAckIds()), r.GetAckDeadlineSeconds()})
			if len(calls) == 7 && !begin.IsZero() {
				return status.Error(codes.Unavailable, "for once")
			}
			return nil
		},
	}
	inMemory(t, a, func(t *testing.T, src *Source) {
		r := &DeadLetterReader{client: src.client, subscription: subName, grace: replyGrace, held: map[string]struct{}{}}
		got, _, err := r.Collect(t.Context(), time.Second)
		if err != nil || len(got) != 2500 || len(calls) != 25 || calls[24].ids != 100 || calls[24].seconds != 30 {
			t.Fatalf("%d dead letters, %v, held by %v; want each batch held for 30 s", len(got), err, calls)
		}
		calls, begin = nil, time.Now()
		ctx, stop := context.WithTimeout(t.Context(), 99*time.Second)
		defer stop()
		time.AfterFunc(15*time.Second, func() { _ = r.HandBack(t.Context(), got[:1500]...) })
		r.Keep(ctx)
		want := []call{{10 * time.Second, 1000, 30}, {10 * time.Second, 1000, 30}, {10 * time.Second, 500, 30}, {15 * time.Second, 1000, 0}, {15 * time.Second, 500, 0}}
		for at := 20 * time.Second; at < 99*time.Second; at += 10 * time.Second {
			want = append(want, call{at, 1000, 30})
		}
		if fmt.Sprint(calls) != fmt.Sprint(want) {
			t.Errorf("kept by\n%v, want\n%v", calls, want)
		}
	})
}
