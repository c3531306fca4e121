package jobapi

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/jobapi/access"
)

// Server answers HTTP over the jobs of some scopes: SPEC.md. Log, Metrics and
// Guard are required; a zero number stands for the default named beside it.
type Server struct {
	Scopes  []Scope
	Log     *slog.Logger
	Metrics *Metrics
	Guard   *Guard

	// ReadOnly refuses requests that change anything.
	ReadOnly bool
	// Admit, when set, may refuse a request first; see [httpd.SecureOnly].
	Admit func(*http.Request) error
	// MaxInput bounds an input that is uploaded, in bytes: 1 GiB.
	MaxInput int64
	// Watch answers /api/v1/overview and /api/v1/events; nil makes them no routes.
	Watch Watch
	// OpenAPI returns what /api/v1/openapi.json answers; nil makes it no route.
	OpenAPI func() []byte

	// Own are further routes below /api/v1/, which are guarded as the others are.
	Own []Route

	Poll         time.Duration // between two rounds, in scopes that are no [Notifier]: 250 ms
	MaxListeners int           // requests that follow a job or wait for one: 10 000

	once          sync.Once
	hubs          []*hub // of Scopes, in their order
	listenerSlots chan struct{}
	throttle      httpd.Throttle
	shared        shared
	changes       changes
}

// Scope is a kind of jobs under a name, which is part of their paths.
type Scope struct {
	Name string // of a-z
	Jobs Jobs   // when it is a [Runner], jobs can be made, too; a [Keeper], a [Submitter], a [Retrier]: what these say
	// What a token needs to cancel jobs or run them again, and to make them. To look at them it needs [access.Read].
	Cancel, Create access.Scope
}

// Route is one of a server's own.
type Route struct {
	Pattern string       // of [http.ServeMux]
	Need    access.Scope // of a token
	Handle  httpd.Handler
}

// Handler returns the handler of all routes, which are below /api/v1/. It answers
// unknown paths, too.
func (s *Server) Handler() http.Handler {
	s.once.Do(s.init)
	api := &httpd.API{Log: s.Log, WriteError: s.writeError, Admit: s.Admit, Done: s.answered}
	for _, rt := range s.routes() {
		api.Handle(rt.pattern, s.guarded(rt.need, rt.handle))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		api.ServeHTTP(w, r.WithContext(withCall(r.Context())))
	})
}

// Routes returns the pattern of every route, such as "GET /api/v1/system/jobs/{jobId}".
func (s *Server) Routes() []string {
	s.once.Do(s.init)
	var names []string
	for _, rt := range s.routes() {
		names = append(names, rt.pattern)
	}
	return names
}

// Run polls the jobs that have listeners, until ctx ends. Without it no request can
// follow a job or wait for one.
func (s *Server) Run(ctx context.Context) {
	s.once.Do(s.init)
	var all sync.WaitGroup
	for _, h := range s.hubs {
		all.Go(func() { h.run(ctx) })
	}
	if s.Watch != nil {
		all.Go(func() { s.Watch.Run(ctx) })
	}
	all.Wait()
}

func (s *Server) init() {
	s.listenerSlots = make(chan struct{}, cmp.Or(s.MaxListeners, 10_000))
	for _, sc := range s.Scopes {
		s.hubs = append(s.hubs, newHub(sc, s))
	}
}

type route struct {
	pattern string // of [http.ServeMux]
	need    access.Scope
	handle  httpd.Handler
}

// root is what all paths begin with.
const root = "/api/v1/"

func (s *Server) routes() []route {
	var all []route
	for i, sc := range s.Scopes {
		c := &scope{Scope: sc, server: s, hub: s.hubs[i]}
		jobs := root + sc.Name + "/jobs"
		all = append(
			all,
			route{"GET " + jobs, access.Read, c.list},
			route{"GET " + jobs + "/{jobId}", access.Read, c.show},
			route{"GET " + jobs + "/{jobId}/logs", access.Read, c.log},
			route{"GET " + jobs + "/{jobId}/events", access.Read, c.events},
			route{"POST " + jobs + "/{jobId}/cancel", sc.Cancel, c.cancel},
		)
		if keeper, ok := sc.Jobs.(Keeper); ok {
			all = append(
				all,
				route{"GET " + jobs + "/{jobId}/artifacts", access.Read, c.artifacts(keeper)},
				// What a job has made may hold what its readers must not see: of that, nothing was taken out.
				route{"GET " + jobs + "/{jobId}/artifacts/{name}", access.Operate, c.artifact(keeper)},
				route{"GET " + jobs + "/{jobId}/result", access.Operate, c.result(keeper)},
			)
		}
		if submitter, ok := sc.Jobs.(Submitter); ok {
			all = append(all, route{"POST " + jobs, sc.Create, c.submit(submitter)})
		}
		if retrier, ok := sc.Jobs.(Retrier); ok {
			all = append(all, route{"POST " + jobs + "/{jobId}/retry", sc.Cancel, c.retry(retrier)})
		}
		if runner, ok := sc.Jobs.(Runner); ok {
			for _, op := range slices.Sorted(slices.Values(runner.Operations())) {
				all = append(all, route{"POST " + root + sc.Name + "/" + op, sc.Create, c.create(runner, op)})
			}
		}
		all = append(all, c.more()...)
	}
	all = append(
		all,
		route{"GET " + root + "scopes", access.Read, s.scopes},
		route{"GET " + root + "whoami", access.Read, s.whoami},
		route{"GET " + root + "tokens", access.Admin, s.tokens},
		route{"GET " + root + "audit", access.Admin, s.audit},
	)
	if s.Watch != nil {
		all = append(
			all,
			route{"GET " + root + "overview", access.Read, s.overview},
			route{"GET " + root + "events", access.Read, s.allEvents},
		)
	}
	for _, o := range s.Own {
		all = append(all, route{o.Pattern, o.Need, o.Handle})
	}
	if s.OpenAPI != nil {
		all = append(all, route{"GET " + root + "openapi.json", access.Read, s.openAPI})
	}
	return all
}

// guarded calls h for requests that the guard allows.
func (s *Server) guarded(need access.Scope, h httpd.Handler) httpd.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		c := callOf(r)
		token, err := s.Guard.judge(r, need)
		c.who = token.Name
		if err != nil {
			return err
		}
		changes := r.Method != http.MethodGet && r.Method != http.MethodHead
		if changes && s.ReadOnly {
			return errReadOnly
		}
		c.changes = changes
		if !changes {
			return h(w, r)
		}
		err = h(&changedWriter{ResponseWriter: w, changed: s.changed}, r)
		if err != nil {
			s.changed() // it may have done a part of it
		}
		return err
	}
}

func (s *Server) openAPI(w http.ResponseWriter, r *http.Request) error {
	if _, err := parameters(r); err != nil {
		return err
	}
	httpd.WriteJSON(w, http.StatusOK, s.OpenAPI())
	return nil
}

// scope is a [Scope] as it is served.
type scope struct {
	Scope
	server *Server
	hub    *hub
}

// callTimeout bounds one call of a [Jobs].
const callTimeout = 5 * time.Second
