package dashboard

import (
	"fmt"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobapi/access"
)

// workers is what the page of workers shows.
type workers struct {
	Groups []workerGroup
}

// workerGroup are the workers of a scope.
type workerGroup struct {
	Scope string
	Rows  []workerRow
	Wrong string // why there are none
}

// workerRow is a worker, with what the visitor may do to it.
type workerRow struct {
	jobapi.Worker
	Scope         string
	Clock         string // how far its clock is ahead
	Drain, Revoke bool
}

func showWorkers(v *visit) (*page, error) {
	w := &workers{}
	for i := range v.Scopes {
		s := &v.Scopes[i]
		if !s.can("workers") {
			continue
		}
		g := workerGroup{Scope: s.Name}
		drain, revoke := s.can("drain") && v.may(access.Operate), s.can("revoke") && v.may(access.Admin)
		var all struct{ Items []jobapi.Worker }
		switch err := v.get(pathOf(s.Name, "workers"), nil, &all); {
		case unavailable(err):
			g.Wrong, _ = refusedField(err)
		case err != nil:
			return nil, err
		}
		for _, worker := range all.Items[:min(len(all.Items), maxShown)] {
			row := workerRow{Worker: worker, Scope: s.Name, Drain: drain && worker.State != "silent", Revoke: revoke}
			if worker.ClockOffset != nil {
				row.Clock = fmt.Sprintf("%+d ms", *worker.ClockOffset)
			}
			g.Rows = append(g.Rows, row)
		}
		w.Groups = append(w.Groups, g)
	}
	return &page{Template: "workers.html", Title: "Workers", Nav: "workers", Data: w}, nil
}
