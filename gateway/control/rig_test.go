package control_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/gateway/control"
	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/internal/testlog"
	"github.com/batchfleet/batchfleet/internal/testnet"
	"github.com/batchfleet/batchfleet/internal/testrun"
	"github.com/batchfleet/batchfleet/status/redistest"
)

const adminToken = "admin-canary-7f1c"

func TestMain(m *testing.M) {
	redis.SetLogger(silent{}) // its pool reports to stderr what its callers report anyway
	testrun.Parallel(8)       // those that run in parallel mostly wait
	m.Run()
}

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// rig is a gateway that serves on loopback over a real Redis.
type rig struct {
	t      testing.TB
	redis  *redistest.Server
	rdb    *redis.Client
	queue  *queue.Queue
	plane  *control.Control
	url    string
	log    *testlog.Buffer
	ahead  atomic.Int64                         // how far the queue's clock is ahead, in ns
	came   atomic.Pointer[chan context.Context] // gets the context of each request that comes, while it is set
	client *http.Client
	stop   func() // ends server and Run; may be called twice
	server httpd.Server
}

// newRig starts a gateway; change adapts it before that.
func newRig(tb testing.TB, change func(*rig)) *rig {
	tb.Helper()
	s := redistest.New(tb)
	return newRigOn(tb, s, change)
}

// newRigOn starts one more gateway on a Redis.
func newRigOn(tb testing.TB, s *redistest.Server, change func(*rig)) *rig {
	tb.Helper()
	// A call that is given up because the machine is slow may have been done all
	// the same, and is done twice then: only frozen servers are given up early.
	rdb := redis.NewClient(&redis.Options{
		Addr: s.Addr(), DisableIdentity: true, MaxRetries: 1, MinRetryBackoff: -1, DialerRetries: 1,
		DialTimeout: time.Minute, ReadTimeout: time.Minute, WriteTimeout: time.Minute, ContextTimeoutEnabled: true, PoolSize: 100,
	})
	tb.Cleanup(func() { _ = rdb.Close() })
	r := &rig{t: tb, redis: s, rdb: rdb, queue: queue.New(rdb, queue.DefaultRules), log: &testlog.Buffer{}}
	r.queue.CallTimeout = time.Minute
	r.queue.Now = func() time.Time { return time.Now().Add(time.Duration(r.ahead.Load())) }
	r.plane = &control.Control{
		Queue: r.queue, Log: slog.New(slog.NewJSONHandler(r.log, nil)), AdminToken: adminToken,
	}
	r.plane.Admit = func(q *http.Request) error {
		if c := r.came.Load(); c != nil {
			select {
			case *c <- q.Context():
			default:
			}
		}
		return nil
	}
	if change != nil {
		change(r)
	}
	if r.plane.Metrics == nil {
		r.plane.Metrics = control.NewMetrics("test", r.queue)
	}
	srv := &r.server
	srv.Handler, srv.Log = r.plane.Handler(), r.plane.Log
	addr, stop := testnet.Serve(tb, testnet.AnyPort, func(ctx context.Context, l net.Listener) error {
		var running sync.WaitGroup
		defer running.Wait()
		running.Go(func() { r.plane.Run(ctx) })
		return srv.Serve(ctx, l)
	})
	transport := &http.Transport{MaxIdleConnsPerHost: 100, DisableCompression: true}
	r.client, r.url = &http.Client{Transport: transport, Timeout: time.Minute}, "http://"+addr
	r.stop = func() {
		transport.CloseIdleConnections()
		stop()
	}
	tb.Cleanup(r.stop)
	return r
}

// answer is one of the gateway, read whole; JSON without the newline at its end.
type answer struct {
	status int
	header http.Header
	body   string
}

// do sends a request; body may be nil, a string that is sent as it is, or a
// value that is sent as JSON. Headers come in pairs.
func (r *rig) do(method, path string, body any, headers ...string) answer {
	r.t.Helper()
	a, err := r.try(r.t.Context(), method, path, body, headers...)
	if err != nil {
		r.t.Fatal(err)
	}
	return a
}

func (r *rig) try(ctx context.Context, method, path string, body any, headers ...string) (answer, error) {
	var text string
	switch b := body.(type) {
	case nil:
	case string:
		text = b
	default:
		j, err := json.Marshal(b)
		if err != nil {
			return answer{}, err
		}
		text = string(j)
	}
	var reader io.Reader
	if body != nil {
		reader = strings.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, r.url+path, reader)
	if err != nil {
		return answer{}, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i] == "Content-Type" {
			req.Header.Set(headers[i], headers[i+1])
			continue
		}
		if headers[i] == "Host" {
			req.Host = headers[i+1]
			continue
		}
		req.Header.Add(headers[i], headers[i+1])
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	whole := string(b)
	if resp.Header.Get("Content-Type") == "application/json" && err == nil {
		var ended bool
		if whole, ended = strings.CutSuffix(whole, "\n"); !ended && method != http.MethodHead {
			r.t.Errorf("%s %s: answer %q does not end its line", method, path, whole)
		}
	}
	return answer{resp.StatusCode, resp.Header, whole}, err
}

// decode returns the answer's body as a T; the answer must be a 200.
func decode[T any](tb testing.TB, a answer) T {
	tb.Helper()
	var v T
	if a.status != http.StatusOK {
		tb.Fatalf("answered %d %s, want 200", a.status, a.body)
	}
	if err := json.Unmarshal([]byte(a.body), &v); err != nil {
		tb.Fatalf("answer %s: %v", a.body, err)
	}
	return v
}

// refused checks that an answer is an error body of this status and code, to
// the letter of its form, and returns its message.
func refused(tb testing.TB, a answer, status int, code wire.Code) string {
	tb.Helper()
	var body wire.ErrorBody
	dec := json.NewDecoder(strings.NewReader(a.body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&body); err != nil || body.Error.Details == nil || body.Error.Message == "" {
		tb.Errorf("answered %d with body %q, which is no error body (%v)", a.status, a.body, err)
	}
	if a.status != status || body.Error.Code != code {
		tb.Errorf("answered %d %s, want %d %s", a.status, a.body, status, code)
	}
	if got := a.header.Get("Content-Type"); got != "application/json" {
		tb.Errorf("error body has Content-Type %q", got)
	}
	if status == 401 && a.header.Get("WWW-Authenticate") != "Bearer" {
		tb.Errorf("401 has WWW-Authenticate %q, want Bearer", a.header.Get("WWW-Authenticate"))
	}
	return body.Error.Message
}

func bearer(token string) []string { return []string{"Authorization", "Bearer " + token} }

// enroll returns an enroll token.
func (r *rig) enroll() string {
	r.t.Helper()
	return decode[wire.EnrollResponse](r.t, r.do("POST", wire.PathEnrollTokens, nil, bearer(adminToken)...)).Token
}

// worker registers a worker.
func (r *rig) worker() worker {
	r.t.Helper()
	a := decode[wire.RegisterResponse](r.t, r.do("POST", wire.PathRegister, wire.RegisterRequest{Token: r.enroll()}))
	return worker{r, a.WorkerID, a.WorkerToken}
}

// worker is one that speaks HTTP.
type worker struct {
	*rig
	id, token string
}

func (w worker) post(path string, body any, headers ...string) answer {
	w.t.Helper()
	return w.do("POST", path, body, append(bearer(w.token), headers...)...)
}

func (w worker) lease() wire.LeaseResponse {
	w.t.Helper()
	return decode[wire.LeaseResponse](w.t, w.post(wire.PathLease, wire.LeaseRequest{Features: []string{"renew"}}))
}

func (w worker) report(what, job string, body any, headers ...string) answer {
	w.t.Helper()
	return w.post("/calc/zpe/compute/jobs/"+job+"/"+what, body, headers...)
}

// done is the body of a result.
func done(lease string) map[string]any {
	return map[string]any{
		"lease_id": lease, "result": json.RawMessage(`{"zpe_ev":0.2664}`), "summary_text": "ZPE 0.2664 eV", "freqs_csv": "mode,cm-1\n1,4296\n",
		"meta": map[string]any{"worker_hostname": "lab-1", "computation_time_seconds": 12.3, "qe_version": "7.2", "timestamp": "2026-02-18T09:30:00Z"},
	}
}

func broken(lease, code string) map[string]any {
	return map[string]any{"lease_id": lease, "error_code": code, "error_message": "pw.x exited with code 1"}
}

func (r *rig) submit() string {
	r.t.Helper()
	return decode[wire.SubmitResponse](r.t, r.do("POST", wire.PathJobs, `{"x":1}`)).JobID
}

func (r *rig) job(id string) wire.JobResponse {
	r.t.Helper()
	return decode[wire.JobResponse](r.t, r.do("GET", "/calc/zpe/jobs/"+id, nil))
}

// keys returns the keys in Redis in order, but for that of the check at the start, which a gateway writes when it comes to it.
func (r *rig) keys() []string {
	r.t.Helper()
	all, err := r.rdb.Keys(r.t.Context(), "*").Result()
	if err != nil {
		r.t.Fatal(err)
	}
	slices.Sort(all)
	return slices.DeleteFunc(all, func(k string) bool { return k == "zpe:check" })
}

// dump returns all of Redis as text, but for the key of the check.
func (r *rig) dump() string {
	r.t.Helper()
	ctx := r.t.Context()
	var b strings.Builder
	for _, k := range r.keys() {
		b.WriteString(k + "=")
		switch r.rdb.Type(ctx, k).Val() {
		case "string":
			b.WriteString(r.rdb.Get(ctx, k).Val())
		case "hash":
			fields := r.rdb.HGetAll(ctx, k).Val()
			for _, f := range slices.Sorted(maps.Keys(fields)) {
				b.WriteString(f + ":" + fields[f] + " ")
			}
		case "list":
			b.WriteString(strings.Join(r.rdb.LRange(ctx, k, 0, -1).Val(), " "))
		case "set":
			b.WriteString(strings.Join(slices.Sorted(slices.Values(r.rdb.SMembers(ctx, k).Val())), " "))
		case "zset":
			b.WriteString(strings.Join(r.rdb.ZRange(ctx, k, 0, -1).Val(), " "))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// until waits for another process or goroutine, for which there is no other
// clock.
func until(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); {
		if time.Now().After(deadline) {
			tb.Fatalf("waited 20 s until %s", what)
		}
		<-time.After(2 * time.Millisecond)
	}
}
