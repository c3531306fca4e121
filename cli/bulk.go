package cli

import (
	"context"
	"log/slog"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobapi/access"
	"github.com/batchfleet/batchfleet/jobapi/engine"
	"github.com/batchfleet/batchfleet/jobapi/monitor"
	"github.com/batchfleet/batchfleet/operations"
)

// scopeServer is the Job API of a process that serves one scope, a relay or a leader, and beside it a scope utils
// whose operations act on many of its jobs.
type scopeServer struct {
	*jobapi.Server
	utils *engine.Engine
	log   *slog.Logger
}

// openScope adds a scope utils to a server that has another scope. The caller must call Run.
func openScope(s *jobapi.Server, metrics prometheus.Registerer, log *slog.Logger) *scopeServer {
	e := &engine.Engine{Scope: "utils", Supported: operations.Bulk(bulkScopes(s.Scopes)), Logger: log, Metrics: engine.NewMetrics(metrics)}
	s.Scopes = append(s.Scopes, jobapi.Scope{Name: "utils", Jobs: e, Cancel: access.Operate, Create: access.Operate})
	s.Watch = monitor.New(s)
	jobapi.ShowScopes(metrics, s.Scopes, log)
	return &scopeServer{s, e, log}
}

// Run serves those who follow jobs until ctx ends, and then stops the operations.
func (s *scopeServer) Run(ctx context.Context) {
	var stopping sync.WaitGroup
	defer stopping.Wait()
	stopping.Go(func() { closeAfter(ctx, s.utils, s.log) })
	s.Server.Run(ctx)
}

// bulkScopes returns the jobs of those scopes that are no operations of this process, by the names of the scopes.
func bulkScopes(all []jobapi.Scope) map[string]jobapi.Jobs {
	scopes := map[string]jobapi.Jobs{}
	for _, s := range all {
		if _, operations := s.Jobs.(*engine.Engine); !operations {
			scopes[s.Name] = s.Jobs
		}
	}
	return scopes
}

// closeAfter stops the operations of an engine once ctx has ended.
func closeAfter(ctx context.Context, e *engine.Engine, log *slog.Logger) {
	<-ctx.Done()
	if err := e.Close(context.WithoutCancel(ctx)); err != nil {
		log.WarnContext(ctx, "operations had not ended when the server stopped", "err", err)
	}
}
