package pubsub

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apiv1 "cloud.google.com/go/pubsub/v2/apiv1"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"

	"github.com/batchfleet/batchfleet/emulator"
	"github.com/batchfleet/batchfleet/internal/testnet"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/worker"
	"github.com/batchfleet/batchfleet/worker/memory"
)

// seenBy is a source that remembers the kinds of what it was handed.
type seenBy struct {
	*Source
	mu    sync.Mutex
	kinds map[jobs.Kind]int
}

func (s *seenBy) Lease(ctx context.Context) (jobs.Lease, error) {
	l, err := s.Source.Lease(ctx)
	if err == nil {
		s.mu.Lock()
		s.kinds[l.Job.Kind]++
		s.mu.Unlock()
	}
	return l, err
}

// done is a handler whose jobs succeed.
type done struct{}

func (done) Run(context.Context, jobs.Job, func(jobs.Progress)) (jobs.Result, error) {
	return jobs.Result{Object: "o"}, nil
}

func (done) Earlier(context.Context, jobs.Job) (jobs.Result, bool, error) {
	return jobs.Result{}, false, nil
}

// Two workers, each with a kind of its own, and jobs of both: on one subscription, and with a
// filtered one for each.
func TestK13WorkersOfDifferentKindsShareAFleet(t *testing.T) {
	const thumbnails, tallies = "projects/p/subscriptions/thumbnails", "projects/p/subscriptions/tallies"
	tests := []struct {
		name    string
		filters map[string]string // by subscription
		queues  map[jobs.Kind]string
		strict  bool // a worker is handed nothing but its own
	}{
		{"on one subscription", nil, map[jobs.Kind]string{"thumbnail": subName, "tally": subName}, false},
		{
			"with filters",
			map[string]string{thumbnails: `attributes.kind = "thumbnail"`, tallies: `attributes.kind != "thumbnail"`},
			map[jobs.Kind]string{"thumbnail": thumbnails, "tally": tallies},
			true,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, pipes, log := emulator.New(emulator.Config{Log: slog.New(slog.DiscardHandler)}), testnet.NewPipes(), slog.New(slog.DiscardHandler)
				opts, err := Options("127.0.0.1:8085")
				if err != nil {
					t.Fatal(err)
				}
				opts = append(opts, option.WithGRPCDialOption(grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return pipes.Dial(ctx, "", "") })))
				ctx, stop := context.WithCancel(t.Context())
				var running sync.WaitGroup
				running.Go(func() { _ = server.Serve(ctx, pipes) })
				admin, err := apiv1.NewSubscriptionAdminClient(ctx, opts...)
				if err != nil {
					t.Fatal(err)
				}
				if err := server.EnsureSubscription(subName, topicName, 600*time.Second); err != nil {
					t.Fatal(err)
				}
				for name, filter := range tt.filters {
					_, err := admin.CreateSubscription(ctx, &pubsubpb.Subscription{Name: name, Topic: topicName, AckDeadlineSeconds: 600, Filter: filter})
					if err != nil {
						t.Fatal(err)
					}
				}
				pub, err := OpenPublisher(ctx, topicName, Rules{}, opts...)
				if err != nil {
					t.Fatal(err)
				}
				st, sources := new(memory.Status), map[jobs.Kind]*seenBy{}
				leasing, leave := context.WithCancel(ctx)
				var workers sync.WaitGroup
				for kind, queue := range tt.queues {
					src, err := OpenSource(ctx, queue, Rules{DefaultKind: kind}, log, opts...)
					if err != nil {
						t.Fatal(err)
					}
					sources[kind] = &seenBy{Source: src, kinds: map[jobs.Kind]int{}}
					w := &worker.Worker{Source: sources[kind], Status: st, Handlers: map[jobs.Kind]worker.Handler{kind: done{}}, Log: log, Pools: []worker.Pool{{Slots: 2}}}
					workers.Go(func() { _ = w.Run(leasing) })
				}
				var ids []jobs.ID
				for i := range 30 {
					kind := []jobs.Kind{"thumbnail", "tally"}[i%2]
					job := jobs.Job{ID: jobs.ID(fmt.Sprintf("%s-%d", kind, i)), Kind: kind}
					if _, err := pub.Publish(ctx, job); err != nil {
						t.Fatal(err)
					}
					ids = append(ids, job.ID)
				}
				ended := func(id jobs.ID) bool { r, _ := st.Get(id); return r.State.Terminal() }
				for began := time.Now(); slices.ContainsFunc(ids, func(id jobs.ID) bool { return !ended(id) }) && time.Since(began) < 3*time.Hour; {
					time.Sleep(10 * time.Second)
				}
				leave()
				workers.Wait()
				for _, id := range ids {
					if r, _ := st.Get(id); r.State != jobs.Succeeded || r.Attempt != 1 {
						t.Errorf("job %s is %s after %d attempts: %+v; want it to have succeeded at once", id, r.State, r.Attempt, r.Outcome)
					}
				}
				for kind, src := range sources {
					if tt.strict && (len(src.kinds) != 1 || src.kinds[kind] != 15) {
						t.Errorf("the worker of %s was handed %v, want its own 15", kind, src.kinds)
					}
					_ = src.Close()
				}
				_, _ = pub.Close(), admin.Close()
				stop()
				running.Wait()
				time.Sleep(time.Minute)
			})
		})
	}
}
