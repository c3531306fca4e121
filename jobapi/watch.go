package jobapi

import (
	"context"
	"net/http"

	"github.com/batchfleet/batchfleet/jobs"
)

// Watch sees all scopes of a server at one look, and their changes: package monitor has one.
type Watch interface {
	// Overview returns the fleet at one look, at most a second old. A scope whose store does not answer says so in it, and
	// none is waited for longer than 5 s. It is not to be changed.
	Overview(ctx context.Context) (*Overview, error)
	// Follow answers a request with the changes of the jobs that are asked for, until the caller leaves.
	Follow(w http.ResponseWriter, r *http.Request, q EventQuery) error
	// Changed tells that something was changed through this server: what is shown from now on must have it.
	Changed()
	// Run does its work until ctx ends.
	Run(ctx context.Context)
}

// EventQuery says whose changes are wanted. The zero value stands for all.
type EventQuery struct {
	Scope  string
	Status jobs.State // also of jobs that leave it
	Kind   string     // without the scope
}

func (s *Server) overview(w http.ResponseWriter, r *http.Request) error {
	if _, err := parameters(r); err != nil {
		return err
	}
	return s.shared.answer(w, r, func(ctx context.Context) (any, error) { return s.Watch.Overview(ctx) })
}

// allEvents follows the jobs of all scopes.
func (s *Server) allEvents(w http.ResponseWriter, r *http.Request) error {
	p, err := parameters(r, "scope", "status", "kind")
	if err != nil {
		return err
	}
	q := EventQuery{Scope: p["scope"], Kind: p["kind"]}
	if q.Scope != "" && s.scope(q.Scope) == nil {
		return &FieldError{"scope", "there is no such scope: GET /api/v1/scopes lists them"}
	}
	if word, ok := p["status"]; ok && q.Status.UnmarshalText([]byte(word)) != nil {
		return errStatus
	}
	if q.Kind != "" && !kindForm().MatchString(q.Kind) {
		return errKind
	}
	return s.Watch.Follow(w, r, q)
}

// scope returns the scope of a name, nil if there is none.
func (s *Server) scope(name string) *Scope {
	for i := range s.Scopes {
		if s.Scopes[i].Name == name {
			return &s.Scopes[i]
		}
	}
	return nil
}

// changed forgets what was read before something was changed through this server.
func (s *Server) changed() {
	s.shared.changed()
	if s.Watch != nil {
		s.Watch.Changed()
	}
}

// Listen takes a place among those that follow jobs of a scope, or of all. leave gives it back and must be called once. The
// error is a [Refusal] when there are [Server.MaxListeners].
func (s *Server) Listen(scope string) (leave func(), err error) {
	s.once.Do(s.init)
	select {
	case s.listenerSlots <- struct{}{}:
	default:
		return nil, errTooManyListeners
	}
	gauge := s.Metrics.listeners.WithLabelValues(scope)
	gauge.Inc()
	return func() {
		gauge.Dec()
		<-s.listenerSlots
	}, nil
}

// Dropped counts a listener of a scope, or of all, that was cut off since it was too slow.
func (s *Server) Dropped(scope string) { s.Metrics.dropped.WithLabelValues(scope).Inc() }

// The pace of streams of events, which other streams of a server keep, too.
const (
	Recheck      = recheck      // how often a stream checks its token
	Heartbeat    = heartbeat    // how often it gets a comment
	WriteTimeout = writeTimeout // how long one write may take
)

// BeginEvents sends the header of a stream of events. It reports false if there is nothing to follow it, for a HEAD.
func BeginEvents(w http.ResponseWriter, r *http.Request) bool {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // asks nginx to pass events on at once
	if r.ProtoMajor == 1 {
		h.Set("Connection", "close") // the deadlines of this stream must not apply to another response
	}
	w.WriteHeader(http.StatusOK)
	return r.Method != http.MethodHead
}
