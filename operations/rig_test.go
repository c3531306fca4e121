package operations

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apiv1 "cloud.google.com/go/pubsub/v2/apiv1"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/redis/go-redis/v9"
	"google.golang.org/api/iterator"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/batchfleet/batchfleet/emulator"
	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/internal/testnet"
	"github.com/batchfleet/batchfleet/jobapi/engine"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/pubsub"
	"github.com/batchfleet/batchfleet/redisdb"
	"github.com/batchfleet/batchfleet/status"
	"github.com/batchfleet/batchfleet/status/redistest"
	"github.com/batchfleet/batchfleet/storage"
)

const project = "projects/local-dev"

var testNames = Names{
	Jobs:        Queue{project + "/topics/jobs", project + "/subscriptions/jobs"},
	Priority:    Queue{project + "/topics/urgent", project + "/subscriptions/urgent"},
	Dead:        Queue{project + "/topics/dead", project + "/subscriptions/dead"},
	AckDeadline: 20 * time.Second,
	Kinds:       []string{"pdf", "mock"},
}

// rig is a fleet and a gateway without workers: a real Redis, a Pub/Sub without
// topics, and a directory.
type rig struct {
	*testing.T
	Deps
	redis    *redistest.Server
	rdb      *redis.Client
	emulator *emulator.Server
	opts     []option.ClientOption
	dir      string
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{T: t, redis: redistest.New(t), dir: t.TempDir(), emulator: emulator.New(emulator.Config{Log: slog.New(slog.DiscardHandler)})}
	r.rdb = patient(redisdb.Connect(redisdb.Options{Host: r.redis.Host, Port: r.redis.Port}).(*redis.Client)) // as the commands do
	addr, _ := testnet.Serve(t, testnet.AnyPort, r.emulator.Serve)
	var err error
	if r.opts, err = pubsub.Options(addr); err != nil {
		t.Fatal(err)
	}
	store, err := storage.NewLocal(r.dir)
	admin, err2 := pubsub.OpenAdmin(t.Context(), r.opts...)
	publish, err3 := pubsub.OpenPublisher(t.Context(), testNames.Jobs.Topic, pubsub.Rules{}, r.opts...)
	reader, err4 := pubsub.OpenDeadLetterReader(t.Context(), testNames.Dead.Subscription, pubsub.Rules{}, append(slices.Clone(r.opts), noneLeft(r.emulator))...)
	if err := errors.Join(err, err2, err3, err4); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = errors.Join(admin.Close(), publish.Close(), reader.Close(), store.Close(), r.rdb.Close())
	})
	r.Deps = Deps{
		Status: status.New(r.rdb), Queue: queue.New(r.rdb, queue.DefaultRules), PubSub: admin,
		Publish: publish, DeadLetters: reader, Storage: store, Names: testNames, Batch: Batch{MaxSize: 1000, MaxConcurrency: 20},
	}
	return r
}

// patient returns a client like c that waits long for an answer: what is asked
// again because the first answer came late has been done already.
func patient(c *redis.Client) *redis.Client {
	defer c.Close()
	o := *c.Options()
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout = time.Minute, time.Minute, time.Minute
	// As they were given, not as c has read them.
	o.Dialer, o.PoolTimeout, o.MinRetryBackoff, o.MaxRetryBackoff = nil, 0, -1, -1
	return redis.NewClient(&o)
}

// noneLeft answers a pull at once where nothing is to be had, as if the timeout had
// ended. So the timeout may be long: a short one may end before all dead letters
// have arrived.
func noneLeft(s *emulator.Server) option.ClientOption {
	return option.WithGRPCDialOption(grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if pull, ok := req.(*pubsubpb.PullRequest); ok {
			for _, st := range s.Stats() {
				if st.Subscription == pull.GetSubscription() && st.Undelivered == 0 {
					return grpcstatus.Error(codes.DeadlineExceeded, "none is there")
				}
			}
		}
		return invoke(ctx, method, req, reply, cc, opts...)
	}))
}

// withQueues creates the topics and subscriptions.
func (r *rig) withQueues() {
	r.Helper()
	for _, q := range testNames.queues() {
		if err := r.emulator.EnsureSubscription(q.Subscription, q.Topic, testNames.AckDeadline); err != nil {
			r.Fatal(err)
		}
	}
}

func (r *rig) put(name string, age time.Duration) {
	r.Helper()
	if err := r.Storage.Put(r.Context(), name, strings.NewReader("content of "+name)); err != nil {
		r.Fatal(err)
	}
	at := time.Now().Add(-age)
	if err := os.Chtimes(filepath.Join(r.dir, name), at, at); err != nil {
		r.Fatal(err)
	}
}

// files returns the names of all files in the storage.
func (r *rig) files() (names []string) {
	r.Helper()
	err := filepath.WalkDir(r.dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && path != r.dir {
			names = append(names, strings.TrimPrefix(path, r.dir+"/"))
		}
		return err
	})
	if err != nil {
		r.Fatal(err)
	}
	return names
}

// world is everything that an operation may change, as text.
func (r *rig) world() string {
	r.Helper()
	var b strings.Builder
	keys, err := r.rdb.Keys(r.Context(), "*").Result()
	if err != nil {
		r.Fatal(err)
	}
	slices.Sort(keys)
	for _, key := range keys {
		dump, err := r.rdb.Dump(r.Context(), key).Result()
		if err != nil {
			r.Fatal(err)
		}
		fmt.Fprintf(&b, "%s %x\n", key, dump)
	}
	admin, err := apiv1.NewTopicAdminClient(r.Context(), r.opts...)
	if err != nil {
		r.Fatal(err)
	}
	defer admin.Close()
	topics := admin.ListTopics(r.Context(), &pubsubpb.ListTopicsRequest{Project: project})
	for {
		topic, err := topics.Next()
		if errors.Is(err, iterator.Done) {
			break
		}
		if err != nil {
			r.Fatal(err)
		}
		fmt.Fprintln(&b, topic.GetName())
	}
	for _, s := range r.emulator.Stats() {
		fmt.Fprintln(&b, s.Subscription, s.Topic, s.Undelivered, s.Leased, s.Published, s.Delivered, s.Acked)
	}
	for _, name := range r.files() {
		info, err := os.Stat(filepath.Join(r.dir, name))
		if err != nil {
			r.Fatal(err)
		}
		fmt.Fprintln(&b, name, info.Size(), info.ModTime())
	}
	return b.String()
}

// request reads a request of an operation as the server does, and checks it.
func (r *rig) request(op, body string) (engine.Request, error) {
	r.Helper()
	for _, o := range append(System(r.Deps), Utils(r.Deps)...) {
		if o.Name != op {
			continue
		}
		req := o.New()
		dec := json.NewDecoder(strings.NewReader(body))
		dec.DisallowUnknownFields()
		if err := dec.Decode(req); err != nil {
			r.Fatal(err)
		}
		switch req := req.(type) {
		case *drain:
			req.notice = 0
		case *redrive:
			req.timeout = time.Minute // see noneLeft
		case *submitBatch:
			req.retryFor = 300 * time.Millisecond
		}
		return req, req.Check()
	}
	r.Fatalf("there is no operation %s", op)
	return nil, nil
}

func (r *rig) good(op, body string) engine.Request {
	r.Helper()
	req, err := r.request(op, body)
	if err != nil {
		r.Fatalf("%s %s: %v", op, body, err)
	}
	return req
}

// plan does what a dry run does.
func (r *rig) plan(op, body string) (lines []string) {
	r.Helper()
	for _, s := range r.good(op, body).Steps() {
		reason, skip, err := s.Description, false, error(nil)
		if s.AlreadyDone != nil {
			var said string
			if said, skip, err = s.AlreadyDone(r.Context()); said != "" {
				reason = said
			}
		}
		if err != nil {
			reason = "error: " + err.Error()
		}
		action := "run"
		if skip {
			action = "skip"
		}
		lines = append(lines, s.Name+" "+action+": "+reason)
	}
	return lines
}

// ran is what became of a job that the rig has run, as an engine would, and its
// [engine.Run].
type ran struct {
	mu      sync.Mutex
	lines   []string // of its steps
	log     bytes.Buffer
	now     string // the message
	result  any
	err     error
	changed chan struct{} // gets one when the message changes, if somebody waits
}

func (j *ran) ID() string { return "job_01TEST" }

func (j *ran) Logf(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	fmt.Fprintf(&j.log, format+"\n", args...)
}

func (j *ran) Message(text string) {
	j.mu.Lock()
	j.now = text
	j.mu.Unlock()
	select {
	case j.changed <- struct{}{}:
	default:
	}
}

func (j *ran) Result(v any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.result = v
}

// text returns the result as JSON.
func (j *ran) text() string {
	b, err := json.Marshal(j.result)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// do runs a job to its end.
func (r *rig) do(op, body string) *ran {
	r.Helper()
	j := &ran{changed: make(chan struct{}, 1)}
	j.run(r.Context(), r.good(op, body))
	return j
}

func (j *ran) run(ctx context.Context, req engine.Request) {
	for _, s := range req.Steps() {
		message, skip := "", false
		if s.AlreadyDone != nil {
			message, skip, j.err = s.AlreadyDone(ctx)
		}
		if !skip && j.err == nil {
			message, j.err = s.Run(ctx, j)
		}
		switch {
		case j.err != nil:
			j.lines = append(j.lines, s.Name+" failed: "+j.err.Error())
			return
		case skip:
			j.lines = append(j.lines, s.Name+" skipped: "+message)
		default:
			j.lines = append(j.lines, s.Name+" succeeded: "+message)
		}
	}
}

// background runs a job, and returns what waits for its end.
func (r *rig) background(ctx context.Context, op, body string) (*ran, func() *ran) {
	r.Helper()
	j, req := &ran{changed: make(chan struct{}, 1)}, r.good(op, body)
	var running sync.WaitGroup
	running.Go(func() { j.run(ctx, req) })
	r.Cleanup(running.Wait)
	return j, func() *ran { running.Wait(); return j }
}

// says waits until the job has a message with that in it.
func (r *rig) says(j *ran, want string) {
	r.Helper()
	for limit := time.After(30 * time.Second); ; {
		j.mu.Lock()
		now := j.now
		j.mu.Unlock()
		if strings.Contains(now, want) {
			return
		}
		select {
		case <-j.changed:
		case <-limit:
			r.Fatalf("after 30 s the job says %q, want %q", now, want)
		}
	}
}

// wantLines compares the ends of steps.
func (r *rig) wantLines(got []string, want ...string) {
	r.Helper()
	if !slices.Equal(got, want) {
		r.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// work takes a message of the jobs' subscription, claims the job and returns what
// ends it.
func (r *rig) work() (jobs.Job, func(jobs.Outcome)) {
	r.Helper()
	source, err := pubsub.OpenSource(r.Context(), testNames.Jobs.Subscription, pubsub.Rules{DefaultKind: "pdf"}, slog.New(slog.DiscardHandler), r.opts...)
	if err != nil {
		r.Fatal(err)
	}
	lease, err := source.Lease(r.Context())
	if err != nil {
		r.Fatal(err)
	}
	claim, err := r.Status.Claim(r.Context(), lease.Job, time.Minute, jobs.Claim{})
	if err != nil {
		r.Fatal(err)
	}
	return lease.Job, func(o jobs.Outcome) {
		r.Helper()
		_, err := r.Status.Finish(r.Context(), claim, o)
		if err := errors.Join(err, source.Ack(r.Context(), lease), source.Close()); err != nil {
			r.Error(err)
		}
	}
}
