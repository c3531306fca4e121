package pubsub

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/worker"
)

// queued answers pulls with messages m1, m2, …, some time after they come, and keeps for how many
// they ask. Nacks are kept as "ID SECONDS".
type queued struct {
	mu     sync.Mutex
	left   int           // messages
	after  time.Duration // a pull is answered
	stuck  int           // so many pulls are not answered
	asked  []int
	nacked []string
	next   int
}

func (q *queued) server() *answers {
	return &answers{
		pull: func(ctx context.Context, r *pubsubpb.PullRequest) (*pubsubpb.PullResponse, error) {
			q.mu.Lock()
			q.asked = append(q.asked, int(r.GetMaxMessages()))
			wait := q.after
			if q.left == 0 || len(q.asked) <= q.stuck {
				wait = time.Hour
			}
			q.mu.Unlock()
			if jobs.Sleep(ctx, wait) != nil {
				return nil, status.FromContextError(ctx.Err()).Err()
			}
			q.mu.Lock()
			defer q.mu.Unlock()
			reply := &pubsubpb.PullResponse{}
			for range min(q.left, int(r.GetMaxMessages())) {
				q.left--
				q.next++
				id := fmt.Sprintf("m%d", q.next)
				reply.ReceivedMessages = append(reply.ReceivedMessages, &pubsubpb.ReceivedMessage{
					AckId: id, Message: &pubsubpb.PubsubMessage{Data: []byte(`{"job_id":"` + id + `"}`)},
				})
			}
			return reply, nil
		},
		modify: func(r *pubsubpb.ModifyAckDeadlineRequest) error {
			q.mu.Lock()
			defer q.mu.Unlock()
			for _, id := range r.GetAckIds() {
				q.nacked = append(q.nacked, fmt.Sprintf("%s %d", id, r.GetAckDeadlineSeconds()))
			}
			return nil
		},
	}
}

// pulls returns for how many messages pulls have asked.
func (q *queued) pulls() []int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.asked)
}

// handedBack returns the nacks.
func (q *queued) handedBack() []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.nacked)
}

// rest returns how many messages are left.
func (q *queued) rest() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.left
}

// slotsOf starts slots that take a lease each, until ctx ends, and returns what to wait for and the ids
// of the jobs that they got.
func slotsOf(ctx context.Context, src *Source, n int) (slots *sync.WaitGroup, got func() []string) {
	var mu sync.Mutex
	var ids []string
	slots = new(sync.WaitGroup)
	for range n {
		slots.Go(func() {
			lease, err := src.Lease(ctx)
			if err == nil {
				mu.Lock()
				defer mu.Unlock()
				ids = append(ids, string(lease.Job.ID))
			}
		})
		synctest.Wait() // one comes after the other
	}
	return slots, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Sorted(slices.Values(ids))
	}
}

func TestK21OnePullAsksForAsManyMessagesAsSlotsAreFree(t *testing.T) {
	q := &queued{left: 100, after: 10 * time.Millisecond}
	inMemory(t, q.server(), func(t *testing.T, src *Source) {
		slots, got := slotsOf(t.Context(), src, 6)
		slots.Wait()
		if want := []int{1, 5}; !slices.Equal(q.pulls(), want) {
			t.Errorf("pulls asked for %v messages, want %v", q.pulls(), want)
		}
		if want := []string{"m1", "m2", "m3", "m4", "m5", "m6"}; !slices.Equal(got(), want) {
			t.Errorf("slots got %q, want %q", got(), want)
		}
	})
}

// TestK21SlotsThatAreFreeAtTheSameMomentShareAPull has the scheduler choose which slot goes first, so a few tries may fail.
// Without the pause before a pull all of them do: the first slot asks for itself alone.
func TestK21SlotsThatAreFreeAtTheSameMomentShareAPull(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // with an idle processor the pull begins at once
	var asked []int
	for range 100 {
		q := &queued{left: 6, after: 10 * time.Millisecond}
		inMemory(t, q.server(), func(t *testing.T, src *Source) {
			var slots sync.WaitGroup
			for range 6 {
				slots.Go(func() {
					if _, err := src.Lease(t.Context()); err != nil {
						t.Error(err)
					}
				})
			}
			slots.Wait()
		})
		if asked = q.pulls(); asked[0] >= 5 { // one slot asks for the ack deadline first
			return
		}
	}
	t.Errorf("pulls asked for %v messages, want 5 or 6 first", asked)
}

func TestK21OneSlotAsksForOneMessage(t *testing.T) {
	q := &queued{left: 100, after: 10 * time.Millisecond}
	inMemory(t, q.server(), func(t *testing.T, src *Source) {
		for range 3 {
			if _, err := src.Lease(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if want := []int{1, 1, 1}; !slices.Equal(q.pulls(), want) {
			t.Errorf("pulls asked for %v messages, want %v", q.pulls(), want)
		}
	})
}

func TestK21SlotsDoNotWaitForAPullThatIsNotAnswered(t *testing.T) {
	q := &queued{left: 100, after: time.Millisecond, stuck: 1}
	inMemory(t, q.server(), func(t *testing.T, src *Source) {
		ctx, stop := context.WithCancel(t.Context())
		slots, got := slotsOf(ctx, src, 4)
		time.Sleep(pullPatience + 2*q.after)
		if want := []int{1, 3}; !slices.Equal(q.pulls(), want) || len(got()) != 3 {
			t.Errorf("pulls asked for %v messages, want %v; slots got %q", q.pulls(), want, got())
		}
		stop()
		slots.Wait()
	})
}

func TestK21ASlotThatLeftGivesItsMessageBack(t *testing.T) {
	q := &queued{left: 3, after: time.Second}
	inMemory(t, q.server(), func(t *testing.T, src *Source) {
		staying, gotStaying := slotsOf(t.Context(), src, 2)
		ctx, leave := context.WithCancel(t.Context())
		leaving, gotLeaving := slotsOf(ctx, src, 1)
		time.Sleep(2 * pullPatience) // all three are asked for
		leave()
		leaving.Wait()
		if took := len(gotLeaving()); took > 0 {
			t.Fatalf("a slot that left got %d messages", took)
		}
		staying.Wait()
		src.calls.Wait()
		if len(gotStaying()) != 2 || q.rest() != 0 {
			t.Errorf("slots that stayed got %q, %d messages are left", gotStaying(), q.rest())
		}
		if want := []string{"m3 0"}; !slices.Equal(q.handedBack(), want) {
			t.Errorf("handed back %q, want %q", q.handedBack(), want)
		}
	})
}

func TestK21PullsOfSlotsThatHaveAllLeftEnd(t *testing.T) {
	q := &queued{}
	inMemory(t, q.server(), func(t *testing.T, src *Source) {
		ctx, leave := context.WithCancel(t.Context())
		slots, _ := slotsOf(ctx, src, 4)
		time.Sleep(time.Second)
		leave()
		began := time.Now()
		slots.Wait()
		src.calls.Wait()
		if took := time.Since(began); took > replyGrace {
			t.Errorf("they ended after %s, want %s", took, replyGrace)
		}
		if want := []int{1, 3}; !slices.Equal(q.pulls(), want) {
			t.Errorf("pulls asked for %v messages, want %v", q.pulls(), want)
		}
	})
}

func TestK21APullThatFailsIsTheErrorOfEachSlotItWasFor(t *testing.T) {
	a := &answers{pull: func(context.Context, *pubsubpb.PullRequest) (*pubsubpb.PullResponse, error) {
		time.Sleep(time.Millisecond)
		return nil, status.Error(codes.NotFound, "no such subscription")
	}}
	inMemory(t, a, func(t *testing.T, src *Source) {
		var slots sync.WaitGroup
		for range 5 {
			slots.Go(func() {
				if _, err := src.Lease(t.Context()); !errors.Is(err, worker.ErrRefused) {
					t.Errorf("lease: %v", err)
				}
			})
		}
		slots.Wait()
	})
}
