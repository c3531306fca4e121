package member_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/batchfleet/batchfleet/grid/link"
	"github.com/batchfleet/batchfleet/grid/member"
	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/internal/testlog"
	"github.com/batchfleet/batchfleet/internal/testnet"
	"github.com/batchfleet/batchfleet/internal/testrun"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/outbox/outboxtest"
	"github.com/batchfleet/batchfleet/worker"
)

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		child()
		return
	}
	testrun.CollectSeldom()
	goleak.VerifyTestMain(m)
}

// handler runs jobs as a function.
type handler func(ctx context.Context, job jobs.Job) (jobs.Result, error)

func (h handler) Run(ctx context.Context, job jobs.Job, _ func(jobs.Progress)) (jobs.Result, error) {
	return h(ctx, job)
}

func (handler) Earlier(context.Context, jobs.Job) (jobs.Result, bool, error) {
	return jobs.Result{}, false, nil
}

// ok is the result of a job that has written out.
func ok(job jobs.Job, out string) (jobs.Result, error) {
	return jobs.Result{Text: resultText(job, wire.OK, out)}, nil
}

func resultText(job jobs.Job, status, out string) string {
	id, err := wire.ParseGUID(string(job.ID))
	if err != nil {
		panic(err)
	}
	text, err := json.Marshal(wire.JobResult{JobID: id, ClientID: "clientA", ExecName: "calcA", Status: status, Stdout: out})
	if err != nil {
		panic(err)
	}
	return string(text)
}

// untilStopped is a job that ends when it is told to.
func untilStopped(ctx context.Context, _ jobs.Job) (jobs.Result, error) {
	<-ctx.Done()
	return jobs.Result{}, context.Cause(ctx)
}

// rig is a worker with scripted leaders.
type rig struct {
	*testing.T
	leaders []*leader
	log     *testlog.Buffer
	dir     string
	handler handler
	talk    func(jobs.Attempt) // what jobs do before the handler, or nil
	member  *member.Member
	worker  *worker.Worker
	stop    func() // tells the loop to stop; returns when the worker has ended

	mu   sync.Mutex
	runs []string // the jobs that were started, by the last digits of their id
}

func (r *rig) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// test runs f in a bubble, with a worker that has two slots.
func test(t *testing.T, leaders int, f func(r *rig)) {
	t.Helper()
	dir := testrun.MemoryDir(t)
	synctest.Test(t, func(t *testing.T) {
		r := &rig{T: t, log: &testlog.Buffer{}}
		t.Cleanup(func() {
			if t.Failed() {
				t.Log(r.log.String())
			}
		})
		var addrs []string
		for i := range leaders {
			l := &leader{rig: r, addr: fmt.Sprintf("leader%d:5000", i), features: features, net: testnet.NewPipes()}
			r.leaders = append(r.leaders, l)
			addrs = append(addrs, l.addr)
			var serving sync.WaitGroup
			serving.Go(l.serve)
			t.Cleanup(func() { _ = l.net.Close(); l.hangUp(); serving.Wait() })
		}
		r.dir = dir
		r.another(addrs...)
		defer func() {
			if r.stop != nil {
				r.stop()
			}
		}()
		f(r)
	})
}

// another makes another member, in the same directory.
func (r *rig) another(leaders ...string) {
	r.member = &member.Member{
		Leaders: leaders, MaxParallel: 2, Dir: r.dir, Log: r.logger(), Host: "test",
		Dial: func(ctx context.Context, addr string) (net.Conn, error) {
			i := slices.IndexFunc(r.leaders, func(l *leader) bool { return l.addr == addr })
			if r.leaders[i].dial() {
				return nil, fmt.Errorf("dial %s: connection refused", addr)
			}
			return r.leaders[i].net.Dial(ctx, "", "")
		},
	}
	r.worker = &worker.Worker{Pools: []worker.Pool{{Slots: 2}}}
}

// start runs the worker; jobs are run by h.
func (r *rig) start(h handler) {
	r.Helper()
	if err := r.member.Open(r.Context()); err != nil {
		r.Fatal(err)
	}
	r.handler = h
	counted := handler(func(ctx context.Context, job jobs.Job) (jobs.Result, error) {
		r.mu.Lock()
		r.runs = append(r.runs, string(job.ID[len(job.ID)-2:]))
		r.mu.Unlock()
		return h(ctx, job)
	})
	r.worker.Source, r.worker.Status, r.worker.Log = r.member, r.member, r.logger()
	r.worker.Handlers = map[jobs.Kind]worker.Handler{member.Kind: r.member.Handler(counted)}
	if r.talk != nil {
		r.worker.Handlers[member.Kind] = r.member.Handler(talker{counted, r.talk})
	}
	if r.worker.Checks == nil {
		r.worker.Checks = map[string]func(context.Context) error{"results": r.member.Check}
	}
	if r.worker.Drain == 0 {
		r.worker.Drain = 8 * time.Second
	}
	loop, stopLoop := context.WithCancel(context.Background())
	delivering, stopDelivering := context.WithCancel(context.Background())
	context.AfterFunc(loop, r.member.Drain)
	var running, delivered sync.WaitGroup
	running.Go(func() {
		if err := r.worker.Run(loop); err != nil {
			r.Errorf("the loop has ended: %v", err)
		}
	})
	delivered.Go(func() { r.member.Run(delivering) })
	r.stop = func() {
		stopLoop()
		running.Wait()
		stopDelivering()
		delivered.Wait()
		if err := r.member.Close(); err != nil {
			r.Error(err)
		}
		r.stop = nil
	}
	synctest.Wait()
}

func (r *rig) started() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.runs, " ")
}

// undelivered returns the names of the results that are on disk.
func (r *rig) undelivered() string {
	r.Helper()
	synctest.Wait()
	entries, err := outboxtest.Entries(r.member.Dir)
	if err != nil {
		r.Fatal(err)
	}
	return strings.Join(slices.Sorted(maps.Keys(entries)), " ")
}

// id returns the id of a job or attempt.
func id(n int) (g wire.GUID) {
	g[0], g[15] = 1, byte(n)
	return g
}

// features are those of a leader of ours.
var features = []string{
	wire.FeatureAccept, wire.FeatureCancel, wire.FeaturePing, wire.FeatureError, wire.FeatureResultAck, wire.FeatureDrain, wire.FeatureArray,
}

// leader notes what it is sent. It acknowledges results unless told not to.
type leader struct {
	*rig
	addr     string
	net      *testnet.Pipes
	features []string // none for a leader of the original protocol
	refuses  string   // the code of the error with which it answers a hello
	keeps    bool     // it acknowledges no results

	mu    sync.Mutex
	down  bool
	dials []time.Time
	all   int // connections so far
	nets  []*mute
	conns []*link.Conn
	said  []wire.Frame // on all connections
}

// dial notes a dial, and reports whether it is refused.
func (l *leader) dial() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dials = append(l.dials, time.Now())
	return l.down
}

// dialed returns when the leader was dialed, and forgets that.
func (l *leader) dialed() []time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	dials := l.dials
	l.dials = nil
	return dials
}

// connections returns how many there were, open how many there are.
func (l *leader) connections() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all
}

func (l *leader) open() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.conns {
		if c.Err() == nil {
			n++
		}
	}
	return n
}

// freeze keeps the present connections open and says nothing more over them.
func (l *leader) freeze() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.nets {
		c.frozen.Store(true)
	}
}

// mute is a connection that may be frozen: what is written then is lost.
type mute struct {
	net.Conn
	frozen atomic.Bool
}

func (m *mute) Write(p []byte) (int, error) {
	if m.frozen.Load() {
		return len(p), nil
	}
	return m.Conn.Write(p)
}

// firstSaid returns the first frame that the leader was sent, lastSaid the last one of a type.
func (l *leader) firstSaid() wire.Frame {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.said[0]
}

func (l *leader) lastSaid(what wire.Type) wire.Frame {
	l.Helper()
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range slices.Backward(l.said) {
		if f.Type == what {
			return f
		}
	}
	l.Fatalf("no %s has come", what)
	return wire.Frame{}
}

// take returns what the leader was sent, and forgets it.
func (l *leader) take() []wire.Frame {
	l.mu.Lock()
	defer l.mu.Unlock()
	said := l.said
	l.said = nil
	return said
}

func (l *leader) cancel(job, attempt int, reason string) {
	l.Helper()
	f := wire.Frame{Type: wire.Cancel, CorrID: id(job), Payload: must(wire.CancelInfo{Reason: reason})}
	if attempt != 0 {
		f.MsgID = id(attempt)
	}
	l.send(f)
}

func (l *leader) serve() {
	var serving sync.WaitGroup
	defer serving.Wait()
	for {
		conn, err := l.net.Accept()
		if err != nil {
			return
		}
		under := &mute{Conn: conn}
		c := link.New(under, link.Options{})
		l.mu.Lock()
		l.all++
		l.nets = append(l.nets, under)
		l.conns = append(l.conns, c)
		l.mu.Unlock()
		serving.Go(func() { l.receive(c) })
	}
}

func (l *leader) receive(c *link.Conn) {
	defer c.Abort(nil)
	for {
		f, err := c.Receive()
		if err != nil {
			return
		}
		l.mu.Lock()
		l.said = append(l.said, f)
		welcome, refuses, keeps := l.features, l.refuses, l.keeps
		l.mu.Unlock()
		switch {
		case f.Type == wire.HelloWorker && refuses != "":
			_ = c.Send(wire.Frame{Type: wire.Error, Payload: must(wire.ErrorInfo{Code: refuses, Message: "not you"})})
			_ = c.Close()
			return
		case f.Type == wire.HelloWorker && welcome != nil:
			_ = c.Send(wire.Frame{Type: wire.Welcome, MsgID: id(99), Payload: must(wire.WelcomeInfo{Proto: 2, Features: welcome, LeaseMs: 30_000})})
			c.Ping()
		case f.Type == wire.AckJob && welcome != nil && !keeps:
			_ = c.Send(wire.Frame{Type: wire.ResultAck, Payload: wire.AppendGUIDs(nil, f.CorrID)})
		}
	}
}

func must(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return text
}

// send sends over the newest connection.
func (l *leader) send(frames ...wire.Frame) {
	l.Helper()
	l.mu.Lock()
	c := l.conns[len(l.conns)-1]
	l.mu.Unlock()
	if err := c.Send(frames...); err != nil {
		l.Fatal(err)
	}
	synctest.Wait()
}

// assign assigns a job as an attempt, which is none for 0.
func (l *leader) assign(job, attempt int) {
	l.Helper()
	l.send(assignment(job, attempt))
}

// assignEach assigns jobs, one after the other.
func (l *leader) assignEach(jobs ...int) {
	l.Helper()
	for _, n := range jobs {
		l.assign(n, 10+n)
		time.Sleep(time.Millisecond)
	}
}

func assignment(job, attempt int) wire.Frame {
	f := wire.Frame{Type: wire.AssignJob, MsgID: id(job), Subject: "job.assign.calcA." + id(98).N()}
	f.Payload = must(wire.JobRequest{JobID: f.MsgID, ClientID: "clientA", ExecName: "calcA", Args: []string{}, Files: []wire.InputFile{}})
	if attempt != 0 {
		f.CorrID = id(attempt)
	}
	return f
}

// hangUp ends all connections.
func (l *leader) hangUp() {
	l.mu.Lock()
	conns := l.conns
	l.conns = nil
	l.mu.Unlock()
	for _, c := range conns {
		c.Abort(nil)
	}
}

// goDown ends all connections and refuses others, until up is called.
func (l *leader) goDown() {
	l.mu.Lock()
	l.down = true
	l.mu.Unlock()
	l.hangUp()
	synctest.Wait()
}

func (l *leader) up() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = false
}

// heard returns what the leader was sent of some types, as short texts, and forgets everything. Credits that follow each other are one.
func (l *leader) heard(types ...wire.Type) string {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	var texts []string
	sum := 0
	for _, f := range l.said {
		switch {
		case !slices.Contains(types, f.Type):
		case f.Type != wire.Credit:
			texts, sum = append(texts, text(f)), 0
		case sum > 0:
			sum += creditOf(f)
			texts[len(texts)-1] = fmt.Sprintf("Credit %d", sum)
		default:
			texts, sum = append(texts, text(f)), creditOf(f)
		}
	}
	l.said = nil
	return strings.Join(texts, "; ")
}

func creditOf(f wire.Frame) int { return int(binary.LittleEndian.Uint32(f.Payload)) }

// text is a frame as the tests write it: the ids by their last byte.
func text(f wire.Frame) string {
	switch f.Type {
	case wire.Credit:
		return fmt.Sprintf("Credit %d", creditOf(f))
	case wire.AckJob:
		var result wire.JobResult
		if err := json.Unmarshal(f.Payload, &result); err != nil {
			return err.Error()
		}
		s := fmt.Sprintf("AckJob %d as %d %s", f.CorrID[15], f.MsgID[15], result.Status)
		for _, more := range []string{result.Reason, result.Stdout} {
			if more != "" {
				s += " " + more
			}
		}
		return s
	case wire.HelloWorker:
		var c wire.Capability
		if err := json.Unmarshal(f.Payload, &c); err != nil {
			return err.Error()
		}
		return fmt.Sprintf("HelloWorker %s of %d%s", f.Subject, c.MaxParallel, runningText(c.Running))
	case wire.Renew:
		var info wire.RenewInfo
		if err := json.Unmarshal(f.Payload, &info); err != nil {
			return err.Error()
		}
		return fmt.Sprintf("Renew seen %d limit %d%s", info.Seen, *info.Limit, runningText(info.Running))
	case wire.Accept:
		return fmt.Sprintf("Accept %d as %d", f.CorrID[15], f.MsgID[15])
	case wire.Cancel:
		var c wire.CancelInfo
		if err := json.Unmarshal(f.Payload, &c); err != nil {
			return err.Error()
		}
		return fmt.Sprintf("Cancel %d as %d %s", f.CorrID[15], f.MsgID[15], c.Reason)
	default:
		return f.Type.String()
	}
}

func runningText(all []wire.Running) (s string) {
	slices.SortFunc(all, func(a, b wire.Running) int { return int(a.JobID[15]) - int(b.JobID[15]) })
	for _, r := range all {
		s += fmt.Sprintf(" %d as %d", r.JobID[15], r.AttemptID[15])
	}
	return s
}

// want compares what was heard.
func want(tb testing.TB, what, got, want string) {
	tb.Helper()
	if got != want {
		tb.Errorf("%s: %q, want %q", what, got, want)
	}
}

// sorted is what was heard in an order that is always the same.
func sorted(heard string) string {
	texts := strings.Split(heard, "; ")
	slices.Sort(texts)
	return strings.Join(texts, "; ")
}
