package cli

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/cli/openapi"
	"github.com/batchfleet/batchfleet/cli/own"
	"github.com/batchfleet/batchfleet/dashboard"
	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobapi/access"
	"github.com/batchfleet/batchfleet/jobapi/engine"
	"github.com/batchfleet/batchfleet/jobapi/monitor"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/kinds"
	"github.com/batchfleet/batchfleet/operations"
	"github.com/batchfleet/batchfleet/operations/deadletter"
	"github.com/batchfleet/batchfleet/operations/delayed"
	"github.com/batchfleet/batchfleet/operations/schedules"
	"github.com/batchfleet/batchfleet/pubsub/provider"
	"github.com/batchfleet/batchfleet/storage"
)

// jobServer is the Job API of a process: the server, the engines that run its
// operations, and what those act on.
type jobServer struct {
	*jobapi.Server
	engines []*engine.Engine
	opened  []io.Closer
	later   *delayed.Promoter // of the fleet's delayed jobs; nil without Pub/Sub
	again   *schedules.Runner // of jobs that come by a schedule; nil without Redis
}

// jobServerConfig says what a [jobServer] is to be.
type jobServerConfig struct {
	env      JobAPIEnv
	fleet    FleetEnv
	deps     operations.Deps                              // Status, to show jobs, and Queue where there is a gateway
	storage  func(context.Context) (storage.Store, error) // where results are, if deps has no Storage; may be nil
	kinds    *own.File                                    // by which jobs are checked that are submitted; may be nil
	zpe      jobapi.Jobs                                  // of the gateway's agents; nil where there is no gateway
	others   jobapi.Jobs                                  // the same, of all other kinds; nil where there are none
	redis    redis.UniversalClient                        // where schedules are; nil for none
	guard    *jobapi.Guard
	readOnly bool
	admit    func(*http.Request) error
	metrics  prometheus.Registerer
	log      *slog.Logger
}

// openJobServer returns the Job API. The caller must call serve.
func openJobServer(ctx context.Context, a jobServerConfig) *jobServer {
	s := &jobServer{opened: a.fleet.openFleet(ctx, &a.deps, a.log)}
	acts := a.deps // on what operations act: that Redis may know jobs does not make a fleet
	acts.Batch = operations.Batch{MaxSize: a.env.MaxBatch, MaxConcurrency: a.env.MaxParallel}
	if a.fleet.Project == "" {
		acts.Status = nil
	}
	logs, counts := &engine.LogBudget{Bytes: a.env.LogBudget}, engine.NewMetrics(a.metrics)
	offer := func(scope string, operations []engine.Operation, l engine.Limits) *engine.Engine {
		l.Retain, l.Timeout = a.env.Retain, a.env.Timeout.D()
		e := &engine.Engine{Scope: scope, Supported: operations, Limits: l, Logger: a.log, Logs: logs, Metrics: counts}
		s.engines = append(s.engines, e)
		return e
	}
	fleetJobs := &provider.Fleet{Status: a.deps.Status, Storage: a.storage}
	if a.kinds != nil {
		fleetJobs.KindsFile = a.kinds.Set
	}
	if a.deps.Storage != nil {
		fleetJobs.Storage = func(context.Context) (storage.Store, error) { return a.deps.Storage, nil }
	}
	if a.deps.Publish != nil {
		fleetJobs.Publish = a.deps.Publish.ForOwnStore().Publish
		s.later = &delayed.Promoter{Status: a.deps.Status, Publish: fleetJobs.Publish, Log: a.log}
		if dead := a.deps.DeadLetters; dead != nil {
			fleetJobs.Redrive = func(ctx context.Context, id jobs.ID) (string, bool, error) {
				return deadletter.One(ctx, dead, a.deps.Status, a.deps.Publish, id)
			}
		}
	}
	scopes := []jobapi.Scope{{Name: "fleet", Jobs: fleetJobs, Cancel: access.Operate, Create: access.Operate}}
	if a.zpe != nil {
		scopes = append(scopes, jobapi.Scope{Name: "zpe", Jobs: a.zpe, Cancel: access.Operate})
	}
	if a.others != nil {
		scopes = append(scopes, jobapi.Scope{Name: "gateway", Jobs: a.others, Cancel: access.Operate, Create: access.Operate})
	}
	system := offer("system", operations.System(acts), engine.Limits{Exclusive: true})
	utils := offer(
		"utils", append(operations.Utils(acts), operations.Bulk(bulkScopes(scopes))...),
		engine.Limits{MaxRunning: a.env.MaxUtils, MaxLoad: a.env.MaxLoad, MaxQueued: a.env.MaxQueued},
	)
	s.Server = &jobapi.Server{
		Scopes: append([]jobapi.Scope{
			{Name: "system", Jobs: system, Cancel: access.Admin, Create: access.Admin},
			{Name: "utils", Jobs: utils, Cancel: access.Operate, Create: access.Operate},
		}, scopes...),
		Log: a.log, Metrics: jobapi.NewMetrics(a.metrics), Guard: a.guard, ReadOnly: a.readOnly, Admit: a.admit,
		OpenAPI: describe(ctx, a.kinds, a.log), MaxListeners: a.env.MaxListeners,
	}
	if a.redis != nil {
		s.again = &schedules.Runner{Store: &schedules.Store{Redis: a.redis}, Scopes: submitters(s.Scopes), Log: a.log}
		s.Own = s.again.Routes()
	}
	s.Watch = monitor.New(s.Server)
	jobapi.ShowScopes(a.metrics, s.Scopes, a.log)
	return s
}

// submitters returns the scopes to which jobs can be given.
func submitters(scopes []jobapi.Scope) map[string]jobapi.Submitter {
	all := map[string]jobapi.Submitter{}
	for _, sc := range scopes {
		if s, ok := sc.Jobs.(jobapi.Submitter); ok {
			all[sc.Name] = s
		}
	}
	return all
}

// describe returns a function that returns the description of the API, with the kinds of the file as they are then.
func describe(ctx context.Context, file *own.File, log *slog.Logger) func() []byte {
	var described atomic.Pointer[[]byte]
	update := func(set *kinds.Set) {
		text, err := openapi.Of(set)
		if err != nil {
			log.ErrorContext(ctx, "the description of the API lacks the kinds", "err", err)
			text = openapi.JSON()
		}
		described.Store(&text)
	}
	if file == nil {
		update(nil)
	} else {
		file.Use(update)
	}
	return func() []byte { return *described.Load() }
}

// Run does what the server does beside answering, until ctx ends.
func (s *jobServer) Run(ctx context.Context) {
	var all sync.WaitGroup
	all.Go(func() { s.Server.Run(ctx) })
	if s.later != nil {
		all.Go(func() { s.later.Run(ctx) })
	}
	if s.again != nil {
		all.Go(func() { s.again.Run(ctx) })
	}
	all.Wait()
}

// pages returns a handler of the dashboard and of the Job API's routes, and rest for all others.
func (s *jobServer) pages(rest http.Handler) http.Handler {
	return withDashboard(s.Handler(), s.Log, s.Admit, rest)
}

// withDashboard returns a handler of the dashboard over a Job API, and rest for all other paths. admit may be nil.
func withDashboard(api http.Handler, log *slog.Logger, admit func(*http.Request) error, rest http.Handler) http.Handler {
	d := &dashboard.Dashboard{API: api, Log: log, Admit: admit, Version: versionText()}
	return d.Beside(rest)
}

// beside returns a handler of the Job API's routes, and rest for all others.
func (s *jobServer) beside(rest http.Handler) http.Handler {
	api := s.Handler()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/api/v1/") {
			api.ServeHTTP(w, r)
			return
		}
		rest.ServeHTTP(w, r)
	})
}

// serve answers at l until ctx ends. Then the jobs of this process are canceled
// while the last answers are given, so that stopping takes no longer than either,
// and what they act on is closed.
func (s *jobServer) serve(ctx context.Context, server *httpd.Server, l net.Listener) error {
	over, stop := context.WithCancel(ctx)
	defer stop()
	var stopping sync.WaitGroup
	for _, e := range s.engines {
		stopping.Go(func() { closeAfter(over, e, server.Log) })
	}
	err := server.Serve(ctx, l)
	stop() // also when the server ended by itself
	stopping.Wait()
	for _, o := range s.opened {
		if err := o.Close(); err != nil {
			server.Log.WarnContext(ctx, "close what operations acted on", "err", err)
		}
	}
	return err
}

// guardJobs says who may use the Job API: holders of a token of the file or of the
// admin token. Without tokens it is open to this machine if alone is set, and else
// closed, because a request through a proxy may look local.
func guardJobs(file, admin string, alone bool, log *slog.Logger) (*jobapi.Guard, error) {
	const do = "give --job-tokens-file or --admin-token-file"
	switch {
	case file != "" || admin != "":
		guard, err := jobapi.OpenTokens(file, admin, log)
		if err == nil && file != "" && guard.Tokens() == 0 {
			log.Warn("the file of tokens has none", "file", file, "do", "batchfleet token new")
		}
		return guard, err
	case alone:
		log.Warn("the Job API is open to everybody on this machine, and behind a proxy on it to others", "do", do)
		return jobapi.Loopback, nil
	}
	log.Warn("the Job API is closed: there are no tokens", "do", do)
	return jobapi.Closed, nil
}
