package worker

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/batch"
	"github.com/batchfleet/batchfleet/internal/pipenet"
	"github.com/batchfleet/batchfleet/internal/testlog"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/status"
	"github.com/batchfleet/batchfleet/worker/memory"
)

// queue is a memory.Queue that can fail, and remembers what the worker told it.
type queue struct {
	*memory.Queue
	mu       sync.Mutex
	open     map[string]*open // by lease id: neither acked nor handed back
	said     []string         // what the worker told
	start    time.Time
	leases   int           // how many were given
	down     error         // what Lease says instead of a job
	deaf     bool          // Extend gets no answer
	longest  time.Duration // for which Nack delays a job; 0 for any time
	extends  []time.Duration
	onAck    func(jobs.ID)
	onReturn func() error // what Return says
}

type open struct {
	lease jobs.Lease
	until time.Time
}

func newQueue(ids ...jobs.ID) *queue {
	q := &queue{open: map[string]*open{}, start: time.Now()}
	q.replace()
	q.add(ids...)
	return q
}

// replace makes messages all that the queue holds.
func (q *queue) replace(messages ...memory.Message) {
	q.Queue = &memory.Queue{Name: "q"}
	q.Add(messages...)
}

func (q *queue) add(ids ...jobs.ID) {
	for _, id := range ids {
		q.Add(memory.Message{Job: jobs.Job{ID: id, Kind: "test"}})
	}
}

func (q *queue) note(format string, args ...any) { // q.mu is held
	q.said = append(q.said, fmt.Sprintf(format, args...))
}

func (q *queue) Lease(ctx context.Context) (jobs.Lease, error) {
	q.mu.Lock()
	down := q.down
	q.mu.Unlock()
	if down != nil {
		return jobs.Lease{}, down
	}
	l, err := q.Queue.Lease(ctx)
	if err != nil {
		return l, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.leases++
	for id, o := range q.open {
		if o.lease.Raw.ID == l.Raw.ID {
			q.note("%s expired", l.Job.ID)
			delete(q.open, id)
		}
	}
	q.open[l.ID] = &open{l, l.Until}
	return l, nil
}

func (q *queue) Extend(ctx context.Context, leases []jobs.Lease, ttl time.Duration) (map[string]error, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.extends = append(q.extends, time.Since(q.start))
	if q.deaf {
		q.mu.Unlock()
		<-ctx.Done()
		q.mu.Lock()
		return nil, ctx.Err()
	}
	lost, err := q.Queue.Extend(ctx, leases, ttl)
	for _, l := range leases {
		if o := q.open[l.ID]; o != nil && lost[l.ID] == nil {
			o.until = time.Now().Add(ttl)
		}
	}
	return lost, err
}

// ends notes what ends a lease, unless that is over. q.mu is held.
func (q *queue) ends(lease, what string) {
	if o := q.open[lease]; o != nil && time.Now().Before(o.until) {
		q.note("%s %s", what, o.lease.Job.ID)
		delete(q.open, lease)
	}
}

func (q *queue) Ack(ctx context.Context, lease jobs.Lease) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.onAck != nil {
		q.onAck(lease.Job.ID)
	}
	q.ends(lease.ID, "ack")
	return q.Queue.Ack(ctx, lease)
}

func (q *queue) Nack(ctx context.Context, lease jobs.Lease, delay time.Duration) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ends(lease.ID, "nack")
	if q.longest > 0 {
		delay = min(delay, q.longest)
	}
	return q.Queue.Nack(ctx, lease, delay)
}

func (q *queue) HandBack(ctx context.Context, name string, acks []string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, id := range acks {
		switch o := q.open[id]; {
		case o == nil || name != "q":
			q.note("return %s of %s, which is not leased", id, name)
		case q.onReturn != nil:
			q.note("return %s", o.lease.Job.ID)
			if err := q.onReturn(); err != nil {
				return err
			}
		}
		q.ends(id, "return")
	}
	return q.Queue.HandBack(ctx, name, acks)
}

func (q *queue) told() string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return strings.Join(q.said, ", ")
}

func (q *queue) locked(f func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	f()
}

// handler is a Handler made of functions.
type handler struct {
	run     func(ctx context.Context, job jobs.Job, report func(jobs.Progress)) (jobs.Result, error)
	earlier func(jobs.Job) (jobs.Result, bool, error)
}

func (h handler) Run(ctx context.Context, job jobs.Job, report func(jobs.Progress)) (jobs.Result, error) {
	return h.run(ctx, job, report)
}

func (h handler) Earlier(_ context.Context, job jobs.Job) (jobs.Result, bool, error) {
	if h.earlier == nil {
		return jobs.Result{}, false, nil
	}
	return h.earlier(job)
}

// takes returns a handler whose jobs take d, report a page a second and succeed.
func takes(d time.Duration) handler {
	return handler{run: func(ctx context.Context, job jobs.Job, report func(jobs.Progress)) (jobs.Result, error) {
		total := int(d / time.Second)
		for n := range total {
			if err := jobs.Sleep(ctx, time.Second); err != nil {
				return jobs.Result{}, err
			}
			report(jobs.Progress{Done: n + 1, Total: total, Message: fmt.Sprintf("Page %d/%d analyzing...", n+1, total)})
		}
		return jobs.Result{Object: "results/" + string(job.ID) + "/result.json", Pages: total}, nil
	}}
}

// untilStopped is a handler whose jobs do not end by themselves.
var untilStopped = handler{run: func(ctx context.Context, _ jobs.Job, _ func(jobs.Progress)) (jobs.Result, error) {
	<-ctx.Done()
	return jobs.Result{}, ctx.Err()
}}

// fails returns a handler whose jobs end with err at once.
func fails(err error) handler {
	return handler{run: func(context.Context, jobs.Job, func(jobs.Progress)) (jobs.Result, error) {
		return jobs.Result{}, err
	}}
}

// flaky is a Status that can be cut off.
type flaky struct {
	*status.Store
	mu      sync.Mutex
	down    bool
	frozen  bool // calls hang until their context ends
	deaf    bool // reports and failed attempts are written, but the answers are lost
	reports int  // with progress
	calls   int  // all reports
	most    int  // lines that one had
	// turns, unless nil, is what reports wait for before they are sent.
	turns *batch.Group[string, struct{}]
}

func (f *flaky) cut(down bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.down = down
}

func (f *flaky) lose(answers bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.deaf = answers
}

func (f *flaky) freeze(frozen bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.frozen = frozen
}

func (f *flaky) err(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.frozen {
		f.mu.Unlock()
		<-ctx.Done()
		f.mu.Lock()
		return fmt.Errorf("%w: %w", jobs.ErrUnavailable, ctx.Err())
	}
	if f.down {
		return fmt.Errorf("%w: redis is away", jobs.ErrUnavailable)
	}
	return nil
}

func (f *flaky) check(ctx context.Context) error { return f.err(ctx) }

func (f *flaky) Claim(ctx context.Context, job jobs.Job, hold time.Duration, again jobs.Claim) (jobs.Claim, error) {
	if err := f.err(ctx); err != nil {
		return again, err
	}
	return f.Store.Claim(ctx, job, hold, again)
}

func (f *flaky) Report(ctx context.Context, c jobs.Claim, hold time.Duration, p *jobs.Progress, lines jobs.Lines) error {
	if err := f.err(ctx); err != nil {
		return err
	}
	if f.turns != nil {
		if _, err := f.turns.Do(ctx, "report"); err != nil {
			return fmt.Errorf("report: %w", err)
		}
	}
	f.mu.Lock()
	if p != nil {
		f.reports++
	}
	f.calls++
	f.most = max(f.most, len(lines.Text))
	f.mu.Unlock()
	err := f.Store.Report(ctx, c, hold, p, lines)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil && f.deaf {
		return fmt.Errorf("%w: the answer was lost", jobs.ErrUnavailable)
	}
	return err
}

func (f *flaky) Finish(ctx context.Context, c jobs.Claim, o jobs.Outcome) (jobs.State, error) {
	return f.FinishLast(ctx, c, o, nil, jobs.Lines{})
}

func (f *flaky) FinishLast(ctx context.Context, c jobs.Claim, o jobs.Outcome, p *jobs.Progress, lines jobs.Lines) (jobs.State, error) {
	if err := f.err(ctx); err != nil {
		return 0, err
	}
	return f.Store.FinishLast(ctx, c, o, p, lines)
}

func (f *flaky) Retry(ctx context.Context, c jobs.Claim, o jobs.Outcome) (jobs.State, error) {
	if err := f.err(ctx); err != nil {
		return 0, err
	}
	state, err := f.Store.Retry(ctx, c, o)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil && f.deaf {
		return 0, fmt.Errorf("%w: the answer was lost", jobs.ErrUnavailable)
	}
	return state, err
}

func (f *flaky) Leave(ctx context.Context, job jobs.Job, message string) (time.Duration, jobs.State, error) {
	if err := f.err(ctx); err != nil {
		return 0, 0, err
	}
	return f.Store.Leave(ctx, job, message)
}

func (f *flaky) Release(ctx context.Context, c jobs.Claim, message string) error {
	if err := f.err(ctx); err != nil {
		return err
	}
	return f.Store.Release(ctx, c, message)
}

func (f *flaky) Watch(ctx context.Context, ttl time.Duration) (bool, time.Time, time.Duration, error) {
	if err := f.err(ctx); err != nil {
		return false, time.Time{}, 0, err
	}
	return f.Store.Watch(ctx, ttl)
}

func (f *flaky) Lapsed(ctx context.Context) ([]jobs.Claim, time.Duration, error) {
	if err := f.err(ctx); err != nil {
		return nil, 0, err
	}
	return f.Store.Lapsed(ctx)
}

func (f *flaky) Lapse(ctx context.Context, c jobs.Claim, handed bool) (bool, error) {
	if err := f.err(ctx); err != nil {
		return false, err
	}
	return f.Store.Lapse(ctx, c, handed)
}

// bubbled is a worker in virtual time.
type bubbled struct {
	worker *Worker
	stop   context.CancelFunc
	ended  chan error
}

// start starts the worker; the test ends it at the latest.
func (b *bubbled) start() {
	ctx, cancel := context.WithCancel(context.Background())
	b.stop, b.ended = cancel, make(chan error, 1)
	go func() {
		b.ended <- b.worker.Run(ctx)
		close(b.ended)
	}()
}

// after lets d of virtual time pass.
func (*bubbled) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// rig is a worker with a queue and the real status scripts.
type rig struct {
	bubbled
	t      *testing.T
	q      *queue
	status *flaky
	redis  *miniredis.Miniredis
	rdb    *redis.Client
	log    *testlog.Buffer
}

// inBubble runs test in virtual time with a rig whose worker is not started yet.
func inBubble(t *testing.T, h Handler, test func(*testing.T, *rig), ids ...jobs.ID) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := miniredis.NewMiniRedis()
		m.ClockTTL(true)
		rdb := redis.NewClient(&redis.Options{
			Addr: "127.0.0.1:6379", DisableIdentity: true, MaxRetries: -1, // an address that needs no resolver; nothing dials it
			Dialer: func(context.Context, string, string) (net.Conn, error) {
				c, err := m.Dial()
				if err != nil {
					return nil, err
				}
				return pipenet.Roomy(c), nil
			},
		})
		r := &rig{t: t, q: newQueue(ids...), status: &flaky{Store: status.New(rdb)}, redis: m, rdb: rdb, log: &testlog.Buffer{}}
		log := slog.New(slog.NewTextHandler(r.log, nil))
		r.worker = &Worker{
			Source: r.q, Status: r.status, Handlers: map[jobs.Kind]Handler{"test": h}, Log: log,
			Checks: map[string]func(context.Context) error{"redis": r.status.check},
		}
		test(t, r)
		if r.stop != nil {
			r.stop()
			if err := <-r.ended; err != nil {
				t.Errorf("worker ended with %v", err)
			}
		}
		_ = rdb.Close()
		m.Close()
		synctest.Wait()
	})
}

// stops tells the worker to stop and waits for its end. The drain time is 8 s.
func (r *rig) stops(within time.Duration) {
	r.t.Helper()
	r.stop()
	began := time.Now()
	if err := <-r.ended; err != nil || time.Since(began) > within {
		r.t.Errorf("worker ended after %s with %v, want nil within %s", time.Since(began), err, within)
	}
}

// died claims a job as a worker that is never heard of again.
func (r *rig) died(id jobs.ID) {
	r.t.Helper()
	c, err := r.status.Store.Claim(r.t.Context(), jobs.Job{ID: id, Kind: "test"}, time.Millisecond, jobs.Claim{})
	if err != nil || c.Verdict != jobs.Granted {
		r.t.Fatalf("claim: %+v, %v", c, err)
	}
	r.after(time.Second)
}

func (r *rig) wantTold(want string) {
	r.t.Helper()
	if got := r.q.told(); got != want {
		r.t.Errorf("at %s the source was told %q, want %q\n%s", time.Since(r.q.start), got, want, r.log)
	}
}

// wantStatus compares status, progress and message or error of a job.
func (r *rig) wantStatus(id jobs.ID, want string) {
	r.t.Helper()
	e, err := r.status.Get(context.Background(), id)
	got := fmt.Sprintf("%s %d%% %s", e.Status, e.Progress, e.Message)
	if e.ErrorMsg != "" {
		got = fmt.Sprintf("%s %d%%: %s", e.Status, e.Progress, e.ErrorMsg)
	}
	if err != nil {
		got = "nothing"
	}
	if got != want {
		r.t.Errorf("at %s job %s is %q, want %q\n%s", time.Since(r.q.start), id, got, want, r.log)
	}
}
