package gateway_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/batchfleet/batchfleet/gateway/wire"
)

// plane is a control plane in memory: the routes of a worker with the rules of
// gateway/queue/lua. It lives in fake time as well as on a socket.
type plane struct {
	mu       sync.Mutex
	ttl      time.Duration
	waits    bool // it heeds wait_seconds
	holds    bool // it heeds wait_seconds of heartbeats
	rests    bool // without jobs it says to come back in ten minutes
	batches  bool // it knows batches: see plane_batch_test.go
	takes    time.Duration
	maxBody  int64
	queue    []string
	kinds    []string // that it has beside zpe
	jobs     map[string]*planeJob
	requests map[string][2]string // request id: job, lease
	tokens   map[string]time.Time // token: its end
	enroll   map[string]bool
	tokenTTL time.Duration
	workers  map[string]string // token: worker
	arrived  chan struct{}
	changed  chan struct{} // closed at every event
	n        int
	start    time.Time
	events   []event
	asks     []wire.LeaseRequest
	reports  []wire.ResultRequest
	failures []wire.FailedRequest
	calls    map[string]int
	holding  int // heartbeats that wait now
	headers  []http.Header
	// fault, when set, says what goes wrong with a call: see fail.
	fault func(route string, n int) string
}

type event struct {
	at   time.Duration // since the start
	what string
}

type planeJob struct {
	kind     string // empty for zpe
	payload  string
	status   string
	lease    string
	until    time.Time
	delayed  time.Time
	retries  int
	canceled bool
	result   string // canonical, of the lease that won
	winner   string
	acks     map[string]string
	reaped   map[string]bool
	late     *wire.ResultRequest
	progress *wire.Progress
	log      []string
	logged   int // lines under the lease
	message  string
	code     string
}

func newPlane() *plane {
	return &plane{
		ttl: 600 * time.Second, maxBody: wire.MaxResultBody, jobs: map[string]*planeJob{}, requests: map[string][2]string{},
		tokens: map[string]time.Time{theToken: time.Now().Add(tokenLife)}, workers: map[string]string{theToken: "w-1"},
		enroll: map[string]bool{}, tokenTTL: tokenLife,
		arrived: make(chan struct{}), changed: make(chan struct{}), start: time.Now(), calls: map[string]int{},
	}
}

// tokenLife is short of the usual seven days, for the time that tests take.
const tokenLife = 7 * time.Hour

const theToken = "zpw_test-token-of-worker-1"

func (p *plane) submit(ids ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range ids {
		p.jobs[id] = &planeJob{payload: fmt.Sprintf(`{"n":%q}`, id), status: "queued", acks: map[string]string{}, reaped: map[string]bool{}}
		p.queue = append(p.queue, id)
	}
	p.wake()
}

// submitTally queues a job of kind tally.
func (p *plane) submitTally(id string) {
	p.submit(id)
	p.do(func() { p.jobs[id].kind, p.jobs[id].payload = "tally", `{"params":{}}` })
}

func (p *plane) wake() { // p.mu is held
	close(p.arrived)
	p.arrived = make(chan struct{})
}

func (p *plane) note(format string, args ...any) { // p.mu is held
	p.events = append(p.events, event{time.Since(p.start), fmt.Sprintf(format, args...)})
	close(p.changed)
	p.changed = make(chan struct{})
}

// said returns what happened, without heartbeats and empty polls.
func (p *plane) said() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var said []string
	for _, e := range p.events {
		if !strings.HasPrefix(e.what, "beat") && e.what != "none" {
			said = append(said, e.what)
		}
	}
	return said
}

// times returns when events with the prefix happened.
func (p *plane) times(prefix string) []time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	var at []time.Duration
	for _, e := range p.events {
		if strings.HasPrefix(e.what, prefix) {
			at = append(at, e.at)
		}
	}
	return at
}

func (p *plane) job(id string) planeJob {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reap()
	return *p.jobs[id]
}

// held returns how many heartbeats wait now.
func (p *plane) held() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.holding
}

// cancel asks for a job to be stopped.
func (p *plane) cancel(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.jobs[id].canceled = true
	p.note("cancel %s", id)
}

func (p *plane) do(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

// skew is how long after its end a lease is taken back.
const skew = 5 * time.Second

func (p *plane) reap() { // p.mu is held
	now := time.Now()
	for _, id := range slices.Sorted(maps.Keys(p.jobs)) {
		j := p.jobs[id]
		if j.status == "started" && now.After(j.until.Add(skew)) {
			j.reaped[j.lease] = true
			p.note("reaped %s", id)
			p.retry(j)
		}
		if j.status == "queued" && !j.delayed.IsZero() && !now.Before(j.delayed) {
			j.delayed = time.Time{}
			p.queue = append(p.queue, id)
		}
	}
}

func (p *plane) retry(j *planeJob) { // p.mu is held
	j.lease = ""
	j.retries++
	if j.retries > 3 {
		j.status = "failed"
		return
	}
	j.status, j.delayed = "queued", time.Now().Add(time.Duration(min(300, 10<<j.retries))*time.Second)
}

// answer is what the control plane says.
type answer struct {
	status int
	body   any
	retry  string
}

func refuse(status int, code wire.Code, message string) answer {
	return answer{status: status, body: wire.ErrorBody{Error: wire.ErrorInfo{Code: code, Message: message, Details: map[string]any{}}}}
}

func (p *plane) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	route := "register"
	if r.URL.Path != wire.PathRegister {
		route = r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	}
	if route == "heartbeat" { // one that waits is another kind of call
		text, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(text))
		if bytes.Contains(text, []byte(`"wait_seconds"`)) {
			route = "listen"
		}
	}
	p.mu.Lock()
	p.calls[route]++
	n, fault := p.calls[route], p.fault
	p.headers = append(p.headers, r.Header.Clone())
	p.mu.Unlock()
	wrong := ""
	if fault != nil {
		wrong = fault(route, n)
	}
	if wrong != "" && wrong != "lost" && wrong != "truncated" {
		p.fail(w, r, wrong)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, p.maxBody))
	if err != nil {
		p.write(w, refuse(413, wire.PayloadTooLarge, "too large"))
		return
	}
	a := p.answer(r, route, body)
	select {
	case <-time.After(p.takes):
	case <-r.Context().Done(): // what was asked for is done all the same
	}
	switch wrong {
	case "lost":
		panic(http.ErrAbortHandler)
	case "truncated":
		text, _ := json.Marshal(a.body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(text[:len(text)/2])
	default:
		p.write(w, a)
	}
}

// fail plays a gateway, or something in its place, that does not do what it is
// asked.
func (p *plane) fail(w http.ResponseWriter, r *http.Request, wrong string) {
	switch wrong {
	case "cut":
		panic(http.ErrAbortHandler)
	case "500":
		p.write(w, refuse(500, wire.Internal, "internal error"))
	case "503":
		a := refuse(503, wire.Unavailable, "Redis is away")
		a.retry = "77"
		p.write(w, a)
	case "401":
		p.write(w, refuse(401, wire.Unauthorized, "unknown token"))
	case "403":
		p.write(w, refuse(403, wire.TokenRevoked, "revoked"))
	case "404":
		p.write(w, refuse(404, wire.JobNotFound, "no such job"))
	case "insecure":
		p.write(w, refuse(403, wire.InsecureTransport, "this needs TLS"))
	case "no route":
		p.write(w, refuse(404, wire.NotFound, "no such path"))
	case "404 page":
		http.NotFound(w, r)
	case "409":
		p.write(w, refuse(409, wire.LeaseLost, "lease lost"))
	case "400":
		p.write(w, refuse(400, wire.InvalidPayload, "bad"))
	case "html":
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, "<html>Sign in to the hotel's network "+strings.Repeat("x", 1000))
	case "slow":
		_, _ = io.Copy(io.Discard, r.Body) // only then does the server see that the caller has left
		select {
		case <-r.Context().Done():
		case <-time.After(time.Hour):
		}
	default:
		panic("no such fault: " + wrong)
	}
}

func (p *plane) write(w http.ResponseWriter, a answer) {
	if a.retry != "" {
		w.Header().Set("Retry-After", a.retry)
	}
	if a.body == nil {
		w.WriteHeader(a.status)
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(a.status)
	_ = json.NewEncoder(w).Encode(a.body)
}

func (p *plane) answer(r *http.Request, route string, body []byte) answer {
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	p.mu.Lock()
	end, known := p.tokens[token]
	p.mu.Unlock()
	if route == "register" {
		return p.register(token, known && time.Now().Before(end), body)
	}
	if !known {
		return refuse(401, wire.Unauthorized, "unknown token")
	}
	if !time.Now().Before(end) {
		return refuse(401, wire.TokenExpired, "expired token")
	}
	p.mu.Lock()
	kind := strings.Split(r.URL.Path, "/")[2]
	has := kind == "zpe" || slices.Contains(p.kinds, kind)
	p.mu.Unlock()
	if !has {
		return refuse(404, wire.NotFound, "no such route")
	}
	id := strings.Split(r.URL.Path, "/")[5]
	switch route {
	case "lease":
		if p.knowsBatches() {
			return p.leases(r, body)
		}
		return p.lease(r, body)
	case "results", "heartbeats":
		if p.knowsBatches() {
			return p.reportsOf(r.Context(), route, body)
		}
	case "heartbeat", "listen":
		return p.beat(r.Context(), id, body)
	case "result":
		return p.result(id, body)
	case "failed":
		return p.failed(id, body)
	}
	return refuse(404, wire.NotFound, "no such route")
}

func (p *plane) lease(r *http.Request, body []byte) answer {
	var ask wire.LeaseRequest
	if err := json.Unmarshal(body, &ask); err != nil {
		return refuse(400, wire.InvalidPayload, err.Error())
	}
	p.do(func() { p.asks = append(p.asks, ask) })
	end := time.Now()
	if p.waits {
		end = end.Add(time.Duration(ask.WaitSeconds * float64(time.Second)))
	}
	for {
		p.mu.Lock()
		a, arrived := p.tryLease(ask), p.arrived
		if p.rests && a.status == 204 {
			a = refuse(503, wire.Unavailable, "come back later")
			a.retry = "600"
		}
		p.mu.Unlock()
		wait := min(10*time.Second, time.Until(end))
		if a.status != 204 || wait <= 0 {
			return a
		}
		select {
		case <-time.After(wait):
		case <-arrived:
		case <-r.Context().Done():
			return a
		}
	}
}

func (p *plane) tryLease(ask wire.LeaseRequest) answer { // p.mu is held
	p.reap()
	if e, ok := p.requests[ask.RequestID]; ok && ask.RequestID != "" {
		if j := p.jobs[e[0]]; j.lease == e[1] {
			p.note("lease %s again", e[0])
			return p.granted(e[0], j)
		}
	}
	if len(p.queue) == 0 {
		p.note("none")
		return answer{status: 204}
	}
	id := p.queue[0]
	p.queue = p.queue[1:]
	j := p.jobs[id]
	p.n++
	j.status, j.lease, j.until = "started", fmt.Sprintf("lease-%d-of-%s", p.n, id), time.Now().Add(p.ttl)
	j.logged = 0
	p.requests[ask.RequestID] = [2]string{id, j.lease}
	p.note("lease %s", id)
	return p.granted(id, j)
}

func (p *plane) granted(id string, j *planeJob) answer {
	return answer{status: 200, body: wire.LeaseResponse{
		JobID: id, Payload: json.RawMessage(j.payload), LeaseID: j.lease, LeaseTTLSeconds: p.ttl.Seconds(), RetryCount: j.retries, Kind: j.kind,
	}}
}

func (p *plane) beat(ctx context.Context, id string, body []byte) answer {
	var ask wire.HeartbeatRequest
	if err := json.Unmarshal(body, &ask); err != nil {
		return refuse(400, wire.InvalidPayload, err.Error())
	}
	p.mu.Lock()
	held := p.holds && ask.WaitSeconds > 0
	p.holding++
	for end := time.Now().Add(time.Duration(ask.WaitSeconds * float64(time.Second))); held && p.jobs[id] != nil && !p.jobs[id].canceled; {
		changed := p.changed
		p.mu.Unlock()
		over := false
		select {
		case <-changed:
		case <-time.After(time.Until(end)):
			over = true
		case <-ctx.Done():
			over = true
		}
		p.mu.Lock()
		if over {
			break
		}
	}
	p.holding--
	defer p.mu.Unlock()
	p.reap()
	j := p.jobs[id]
	switch {
	case j == nil:
		return refuse(404, wire.JobNotFound, "no such job")
	case j.lease != ask.LeaseID || ask.LeaseID == "":
		return refuse(409, wire.LeaseLost, "not your lease")
	}
	j.until = time.Now().Add(p.ttl)
	what := "beat " + id
	if ask.WaitSeconds > 0 {
		what = "beat by a listener for " + id
	}
	if ask.Progress != nil {
		j.progress, j.message = ask.Progress, ask.Message
		what += fmt.Sprintf(" %d/%d %s", ask.Progress.Done, ask.Progress.Total, ask.Message)
	}
	if n := j.write(ask.Log); n > 0 {
		what += fmt.Sprintf(" with %d lines", n)
	}
	p.note("%s", what)
	return answer{status: 200, body: wire.HeartbeatResponse{
		LeaseID: ask.LeaseID, LeaseTTLSeconds: p.ttl.Seconds(), ExpiresAt: float64(j.until.Unix()), CancelRequested: j.canceled, Waited: held,
	}}
}

// write adds lines to the log of a job, and returns how many came.
func (j *planeJob) write(log *wire.Log) int {
	if log == nil || len(log.Lines) > wire.MaxLogLines {
		return 0
	}
	j.log = append(j.log, log.Lines[min(len(log.Lines), max(0, j.logged-log.Before)):]...)
	j.logged = log.Before + len(log.Lines)
	return len(log.Lines)
}

func (p *plane) result(id string, body []byte) answer {
	var ask wire.ResultRequest
	if err := json.Unmarshal(body, &ask); err != nil || len(ask.Result) == 0 || ask.Result[0] != '{' {
		return refuse(400, wire.InvalidPayload, "Missing required field: result")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reap()
	p.reports = append(p.reports, ask)
	j := p.jobs[id]
	if j != nil && j.kind != "" {
		ask.SummaryText, ask.FreqsCSV = new(string), new(string) // it has no such texts
	} else if ask.SummaryText == nil || ask.FreqsCSV == nil {
		return refuse(400, wire.InvalidPayload, "Missing required field: summary_text")
	}
	said := string(ask.Result) + *ask.SummaryText + *ask.FreqsCSV
	switch {
	case j == nil:
		return refuse(404, wire.JobNotFound, "no such job")
	case j.lease == ask.LeaseID:
		j.status, j.result, j.winner, j.lease = "finished", said, ask.LeaseID, ""
		j.write(ask.Log)
		p.note("result %s", id)
		return answer{status: 200, body: wire.ReportResponse{OK: true}}
	case j.status == "finished" && j.winner == ask.LeaseID && j.result == said:
		p.note("result %s again", id)
		return answer{status: 200, body: wire.ReportResponse{OK: true, Idempotent: true}}
	case j.status == "finished" && j.winner == ask.LeaseID:
		return refuse(409, wire.AlreadyFinished, "finished with other content")
	case j.reaped[ask.LeaseID]:
		j.late = &ask
		p.note("late %s", id)
	}
	return refuse(409, wire.LeaseLost, "not your lease")
}

func (p *plane) failed(id string, body []byte) answer {
	var ask wire.FailedRequest
	if err := json.Unmarshal(body, &ask); err != nil || ask.ErrorCode == "" || ask.ErrorMessage == "" || len(ask.ErrorCode) > wire.MaxErrorCode {
		return refuse(400, wire.InvalidPayload, "Missing required field: error_code")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reap()
	j := p.jobs[id]
	said := ask.ErrorCode + ask.ErrorMessage + ask.Traceback
	switch {
	case j == nil:
		return refuse(404, wire.JobNotFound, "no such job")
	case j.acks[ask.LeaseID] == said:
		p.note("failed %s %s again", id, ask.ErrorCode)
		return answer{status: 200, body: wire.FailedResponse{OK: true, Requeued: j.status == "queued", RetryCount: j.retries}}
	case j.acks[ask.LeaseID] != "":
		return refuse(409, wire.AlreadyReported, "other content")
	case j.lease != ask.LeaseID:
		return refuse(409, wire.LeaseLost, "not your lease")
	}
	p.failures = append(p.failures, ask)
	j.acks[ask.LeaseID], j.code, j.lease = said, ask.ErrorCode, ""
	how := "retry"
	switch {
	case j.canceled:
		j.status, how = "failed", "canceled"
	case ask.ErrorCode == wire.FailWorkerShutdown:
		j.status, how = "queued", "back"
		p.queue = append([]string{id}, p.queue...)
		p.wake()
	case ask.Retryable != nil && !*ask.Retryable:
		j.status, how = "failed", "final"
	default:
		p.retry(j)
	}
	p.note("failed %s %s %s", id, ask.ErrorCode, how)
	return answer{status: 200, body: wire.FailedResponse{OK: true, Requeued: j.status == "queued", RetryCount: j.retries}}
}

func (p *plane) register(token string, own bool, body []byte) answer {
	var ask wire.RegisterRequest
	if err := json.Unmarshal(body, &ask); err != nil {
		return refuse(400, wire.InvalidPayload, err.Error())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case ask.Token != "" && !p.enroll[ask.Token], ask.Token == "" && token == "":
		return refuse(401, wire.InvalidEnrollToken, "no such enroll token: "+ask.Token)
	case token != "" && !own:
		return refuse(401, wire.TokenExpired, "expired token")
	}
	delete(p.enroll, ask.Token)
	p.n++
	worker := cmp.Or(p.workers[token], fmt.Sprintf("w-%d", p.n))
	for t, end := range p.tokens {
		if p.workers[t] == worker && end.After(time.Now().Add(10*time.Minute)) {
			p.tokens[t] = time.Now().Add(10 * time.Minute)
		}
	}
	fresh := fmt.Sprintf("zpw_fresh-token-number-%d", p.n)
	p.tokens[fresh], p.workers[fresh] = time.Now().Add(p.tokenTTL), worker
	p.note("register %s", worker)
	return answer{status: 200, body: wire.RegisterResponse{
		ServerID: worker, WorkerID: worker, Name: cmp.Or(ask.Name, worker), WorkerToken: fresh,
		TokenTTLSeconds: int64(p.tokenTTL.Seconds()), TokenExpiresAt: p.tokens[fresh].Format(time.RFC3339), RegisteredAt: time.Now().Format(time.RFC3339),
	}}
}
