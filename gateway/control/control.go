// Package control is the control plane's end of the gateway: it answers the
// HTTP requests of package gateway's SPEC.md over the jobs that package queue
// keeps in Redis.
//
// A gateway holds nothing itself but the requests that wait for a job or for one
// to be canceled, so any number of them may run on one Redis and each may die at any time. A worker's
// request costs one round trip to Redis, two if its body is large: the script
// that does the work checks the token, too. Requests that come at the same moment share one.
//
// [Direct] is the same for a worker that may reach Redis itself, without HTTP.
package control

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/jobs"
)

// Control answers for one gateway. Queue, Log and Metrics are required; a zero
// number stands for the default named beside it. One [Control.Run] belongs to
// each Control that serves.
type Control struct {
	Queue   *queue.Queue
	Log     *slog.Logger
	Metrics *Metrics

	// AdminToken opens the operators' routes; while it is empty nothing does.
	AdminToken string
	// ClientToken, when set, is asked of those who submit, read and cancel jobs.
	// The admin token opens those routes, too. Without a client token they are open to
	// programs on the same machine alone ([httpd.SameMachine]).
	ClientToken string
	// OpenSubmission, without a client token, opens those routes to everybody but the
	// pages of other sites ([httpd.SameSite]).
	OpenSubmission bool

	// CheckPayload returns what is wrong with a payload, in words for its author,
	// who is told them as they are; nil takes any JSON object.
	CheckPayload func(payload []byte) error
	// Kinds are the kinds beside zpe, by their names, until ReplaceKinds; see [ValidKind]. Nil for a gateway that
	// has none and will have none.
	Kinds map[jobs.Kind]Kind
	// Files keeps the inputs and artifacts of jobs of those kinds; nil when they have none.
	Files *Files
	// Admit, when set, judges each request first; see [httpd.SecureOnly].
	Admit func(*http.Request) error

	Period time.Duration // between two rounds of the reaper, unless a lease ends before: 30 s
	// JobPollEvery is the time between two looks for jobs that came by another gateway,
	// while a request waits for one: 1 s.
	JobPollEvery time.Duration
	// CancelPollEvery is the time between two looks for jobs that were canceled by another
	// gateway, while a heartbeat waits: 0.5 s.
	CancelPollEvery time.Duration
	CheckEvery      time.Duration // between two checks of Redis (reachable, writable, noeviction); changes are logged: 10 s
	MaxWaiting      int           // requests that wait for a job, and as many heartbeats, more are answered at once: 10 000

	replaced   atomic.Pointer[kindSet] // nil while they are Kinds
	once       sync.Once
	waiting    waitlist // for a job, by worker
	heartbeats waitlist // for their job to be canceled, by that
	refused    httpd.Throttle
	large      *large
	reapNow    chan struct{} // holds one when the reaper is to look at once
	still      standstill
	listed     queue.Place // how far the reaper has looked through the lists for expired jobs
	unlistMore bool        // it has found some there, and has not come to their end
}

// init makes what is shared by Handler, Run and Cancel, which may come in any order
// and at once.
func (c *Control) init() {
	c.once.Do(func() {
		c.large, c.reapNow = newLarge(), make(chan struct{}, 1)
		c.waiting.init(cmp.Or(c.MaxWaiting, 10_000), c.Queue.MaxLeases)
		c.heartbeats.init(cmp.Or(c.MaxWaiting, 10_000), heartbeatsOfJob)
		c.Metrics.waiting(c.waiting.len, c.heartbeats.len)
	})
}

// Handler returns the handler of all routes.
func (c *Control) Handler() http.Handler {
	c.init()
	api := &httpd.API{Log: c.Log, WriteError: c.writeError, Admit: c.Admit, Done: c.Metrics.answered}
	for _, rt := range c.routes() {
		api.Handle(rt.method+" "+rt.path, rt.handle)
		c.Metrics.routed(rt.method, rt.path)
	}
	return exchanges(api)
}

// Routes returns method and path of every route, such as "GET /calc/zpe/jobs/{id}".
func (c *Control) Routes() []string {
	var names []string
	for _, rt := range c.routes() {
		names = append(names, rt.method+" "+rt.path)
	}
	return names
}

type route struct {
	method, path string
	handle       httpd.Handler
}

func (c *Control) routes() []route {
	list := []route{
		{http.MethodPost, wire.PathJobs, c.client(c.submit)},
		{http.MethodGet, wire.PathJob, c.client(c.ofJob(c.job))},
		{http.MethodGet, wire.PathJobResult, c.client(c.ofJob(c.jobResult))},
		{http.MethodGet, wire.PathJobFiles, c.client(c.ofJob(c.jobFiles))},
		{http.MethodPost, wire.PathJobCancel, c.client(c.cancel)},

		{http.MethodPost, wire.PathRegister, c.register},
		{http.MethodPost, wire.PathLease, workerRoute(c, wire.MaxSmallBody, parseLease, c.lease)},
		{http.MethodPost, wire.PathHeartbeat, workerRoute(c, wire.MaxSmallBody, parseHeartbeat, c.heartbeat)},
		{http.MethodPost, wire.PathResult, workerRoute(c, wire.MaxResultBody, parseResult, c.result)},
		{http.MethodPost, wire.PathHeartbeats, workerRoute(c, wire.MaxSmallBody, parseHeartbeats, c.heartbeatAll)},
		{http.MethodPost, wire.PathResults, workerRoute(c, wire.MaxResultBody, parseResults, c.results)},
		{http.MethodPost, wire.PathFailed, workerRoute(c, wire.MaxFailedBody, parseFailed, c.failed)},

		{http.MethodPost, wire.PathEnrollTokens, c.admin(c.enroll)},
		{http.MethodGet, wire.PathServers, c.admin(c.servers)},
		{http.MethodDelete, wire.PathServer, c.admin(c.revoke)},
		{http.MethodGet, wire.PathDLQ, c.admin(c.deadLetters)},
		{http.MethodGet, wire.PathDLQJob, c.admin(c.ofJob(c.deadLetter))},
		{http.MethodDelete, wire.PathDLQJob, c.admin(c.ofJob(c.drop))},
		{http.MethodPost, wire.PathDLQRequeue, c.admin(c.ofJob(c.requeue))},
		{http.MethodGet, wire.PathLate, c.admin(c.ofJob(c.late))},
		{http.MethodPost, wire.PathLateAccept, c.admin(c.ofJob(c.acceptLate))},
		{http.MethodGet, wire.PathOps, c.admin(c.ops)},
		{http.MethodPut, wire.PathOps, c.admin(c.setOps)},
		{http.MethodGet, wire.PathMetrics, c.admin(c.Metrics.serve())},
	}
	if c.kinds().now != nil {
		list = append(list, c.kindRoutes(list)...)
	}
	return list
}

// deadline bounds several calls of Redis together; each alone has the same bound.
func (c *Control) deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, c.Queue.CallTimeout)
}
