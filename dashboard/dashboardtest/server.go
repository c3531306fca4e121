package dashboardtest

import (
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobapi/access"
	"github.com/batchfleet/batchfleet/jobapi/monitor"
)

// Server returns a Job API over a fleet, and its utils. The caller must call Run.
func Server(f *Fleet, guard *jobapi.Guard, log *slog.Logger) (*jobapi.Server, *Utils) {
	utils := &Utils{New("utils")}
	s := &jobapi.Server{
		Scopes: []jobapi.Scope{
			{Name: f.Scope, Jobs: f, Cancel: access.Operate, Create: access.Operate},
			{Name: "utils", Jobs: utils, Cancel: access.Operate, Create: access.Operate},
		},
		Log: log, Metrics: jobapi.NewMetrics(prometheus.NewRegistry()), Guard: guard,
	}
	s.Watch = monitor.New(s)
	return s, utils
}
