package pubsub

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/batchfleet/batchfleet/internal/testrun"
	"github.com/batchfleet/batchfleet/jobs"
)

// A client that cannot reach the queue must hear so within seconds, and why: the
// library alone tries for a minute and then says that the time was over.
func TestF63PublishToNobodySaysWhy(t *testing.T) {
	t.Parallel()
	testrun.Long(t, "it waits for seconds")
	opts, err := Options("127.0.0.1:1") // nothing listens there
	if err != nil {
		t.Fatal(err)
	}
	p, err := OpenPublisher(t.Context(), topicName, Rules{}, opts...)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	_, err = p.Publish(t.Context(), jobs.Job{ID: "a"})
	if !errors.Is(err, jobs.ErrUnavailable) || !strings.Contains(err.Error(), "cannot reach Pub/Sub at 127.0.0.1:1: connection refused") {
		t.Errorf("publish: %v", err)
	}
}

// away answers no call until after the given time.
func away(after time.Duration, called func(time.Duration)) option.ClientOption {
	begun := time.Now()
	return option.WithGRPCDialOption(grpc.WithChainUnaryInterceptor(
		func(_ context.Context, _ string, _, reply any, _ *grpc.ClientConn, _ grpc.UnaryInvoker, _ ...grpc.CallOption) error {
			called(time.Since(begun))
			if time.Since(begun) < after {
				return status.Error(codes.Unavailable, "not now")
			}
			reply.(*pubsubpb.PublishResponse).MessageIds = []string{"m"}
			return nil
		}))
}

func TestPublishIsTriedForAsLongAsItSays(t *testing.T) {
	for _, tt := range []struct {
		name string
		away time.Duration
		want error
	}{
		{"back in time", sendPatience, nil},
		{"away for longer", sendPatience + 1, jobs.ErrUnavailable},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for range 50 { // the waits are at random
				synctest.Test(t, func(t *testing.T) {
					var tries []time.Duration
					opts, err := Options("127.0.0.1:1")
					if err != nil {
						t.Fatal(err)
					}
					p, err := OpenPublisher(t.Context(), topicName, Rules{}, append(opts, away(tt.away, func(at time.Duration) { tries = append(tries, at) }))...)
					if err != nil {
						t.Fatal(err)
					}
					defer p.Close()
					if _, err := p.Publish(t.Context(), jobs.Job{ID: "a"}); !errors.Is(err, tt.want) {
						t.Errorf("publish: %v, want %v", err, tt.want)
					}
					if last := tries[len(tries)-1]; last != sendPatience {
						t.Errorf("the last try was after %s, want %s", last, sendPatience)
					}
					for i, at := range tries[1:] {
						if at-tries[i] > time.Second {
							t.Errorf("no try from %s to %s", tries[i], at)
						}
					}
				})
			}
		})
	}
}
