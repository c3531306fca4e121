package pubsub

import (
	"errors"
	"fmt"
	"slices"
	"strings"
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

// settled calls f for each id: for the first at once, and for the others while the first call is
// under way. It returns the errors by id.
func settled(ids []string, f func(jobs.Lease) error) map[string]error {
	var mu sync.Mutex
	errs := map[string]error{}
	var all sync.WaitGroup
	for _, id := range ids {
		all.Go(func() {
			err := f(jobs.Lease{ID: id})
			mu.Lock()
			defer mu.Unlock()
			errs[id] = err
		})
		synctest.Wait()
	}
	all.Wait()
	return errs
}

func TestK21AcksShareCallsAndEachJobHasItsOwnVerdict(t *testing.T) {
	t.Parallel()
	const lost, later = "PERMANENT_FAILURE_INVALID_ACK_ID", "TRANSIENT_FAILURE_INVALID_ACK_ID"
	tests := []struct {
		name  string
		fail  func(ids []string) error // of a call
		calls string
		want  map[string]error // of acks; nil for the rest
	}{
		{"all succeed", func([]string) error { return nil }, "a | b c d e", nil},
		{"one lease is lost, and one is to be tried again", func(ids []string) error {
			reasons := map[string]string{}
			for _, id := range ids {
				switch id {
				case "c":
					reasons[id] = lost
				case "d":
					reasons[id] = later
				}
			}
			if len(reasons) == 0 {
				return nil
			}
			return exactlyOnce(t, reasons)
		}, "a | b c d e | b e", map[string]error{"d": jobs.ErrUnavailable}},
		{"one of them is refused", func(ids []string) error {
			if slices.Contains(ids, "c") {
				return status.Error(codes.InvalidArgument, "what is c?")
			}
			return nil
		}, "a | b c d e | b | c | d | e", map[string]error{"c": worker.ErrRefused}},
		{"the service is away", func(ids []string) error {
			if len(ids) > 1 {
				return status.Error(codes.Unavailable, "down")
			}
			return nil
		}, "a | b c d e", map[string]error{"b": jobs.ErrUnavailable, "c": jobs.ErrUnavailable, "d": jobs.ErrUnavailable, "e": jobs.ErrUnavailable}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var calls []string
			a := &answers{ackAll: func(ids []string) error {
				time.Sleep(slowSettle / 10)
				calls = append(calls, strings.Join(ids, " "))
				return tt.fail(ids)
			}}
			inMemory(t, a, func(t *testing.T, src *Source) {
				got := settled([]string{"a", "b", "c", "d", "e"}, func(l jobs.Lease) error { return src.Ack(t.Context(), l) })
				for id, err := range got {
					if want := tt.want[id]; !errors.Is(err, want) || want == nil && err != nil {
						t.Errorf("ack of %s: %v, want %v", id, err, want)
					}
				}
				if got := strings.Join(calls, " | "); got != tt.calls {
					t.Errorf("calls %q, want %q", got, tt.calls)
				}
			})
		})
	}
}

func TestK21NacksOfTheSameDelayShareCalls(t *testing.T) {
	t.Parallel()
	var calls []string
	a := &answers{modify: func(r *pubsubpb.ModifyAckDeadlineRequest) error {
		time.Sleep(slowSettle / 10)
		calls = append(calls, fmt.Sprintf("%d %s", r.GetAckDeadlineSeconds(), r.GetAckIds()))
		return nil
	}}
	inMemory(t, a, func(t *testing.T, src *Source) {
		settled([]string{"a", "b", "c", "d", "e"}, func(l jobs.Lease) error {
			return src.Nack(t.Context(), l, time.Duration(len(l.ID)+int(l.ID[0]%2))*time.Second)
		})
		slices.Sort(calls[1:])
		if want := []string{"2 [a]", "1 [b d]", "2 [c e]"}; !slices.Equal(calls, want) {
			t.Errorf("calls %q, want %q", calls, want)
		}
	})
}
