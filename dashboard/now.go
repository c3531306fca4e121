package dashboard

import (
	"slices"
	"time"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
)

// now is what the first page shows: the fleet at one look.
type now struct {
	jobapi.Overview
	Known   bool // the server has an overview
	Queued  int
	Running int
	Failed  int
	Oldest  jobapi.Time
	Dead    int
	DeadIs  bool // it is known
	Workers int  // all
	Recent  chart
	Day     chart
	Rows    []scopeRow
	Kinds   []kindRow
	States  []string
}

// scopeRow are the jobs of a scope by their states.
type scopeRow struct {
	Name, Unavailable string
	Cells             []stateCell
	Dead              *int
}

type stateCell struct {
	Scope, State string
	N            int
}

type kindRow struct {
	Scope string
	jobapi.KindOverview
}

var stateWords = []string{jobs.Queued.String(), jobs.Running.String(), jobs.Succeeded.String(), jobs.Failed.String(), jobs.Canceled.String()}

func showNow(v *visit) (*page, error) {
	n := &now{States: stateWords}
	switch err := v.get("overview", nil, &n.Overview); {
	case missing(err):
	case err != nil:
		return nil, err
	default:
		n.Known = true
		n.sum()
	}
	return &page{Template: "now.html", Title: "Now", Nav: "now", Data: n}, nil
}

// sum fills in what is counted over all scopes. Operations of the server itself are not work of the fleet.
func (n *now) sum() {
	var recent, day [][]jobapi.Point
	for _, s := range n.Scopes {
		row := scopeRow{Name: s.Name, Unavailable: s.Unavailable, Dead: s.DeadLetters}
		for _, state := range stateWords {
			row.Cells = append(row.Cells, stateCell{s.Name, state, s.States[state]})
		}
		n.Rows = append(n.Rows, row)
		if s.Name == "system" || s.Name == "utils" {
			continue
		}
		for _, k := range s.Kinds {
			n.Kinds = append(n.Kinds, kindRow{s.Name, k})
			if !k.Oldest.IsZero() && (n.Oldest.IsZero() || k.Oldest.Before(n.Oldest.Time)) {
				n.Oldest = k.Oldest
			}
		}
		n.Queued, n.Running, n.Failed = n.Queued+s.States["queued"], n.Running+s.States["running"], n.Failed+s.States["failed"]
		if s.DeadLetters != nil {
			n.Dead, n.DeadIs = n.Dead+*s.DeadLetters, true
		}
		recent, day = append(recent, s.Recent), append(day, s.Day)
	}
	w := n.Overview.Workers
	n.Workers = w.Working + w.Idle + w.Draining + w.Unready + w.Silent
	n.Recent = newChart("Last 5 minutes", 10*time.Second, added(recent))
	n.Day = newChart("Last 24 hours", time.Hour, added(day))
	slices.SortStableFunc(n.Kinds, func(a, b kindRow) int { return (b.Queued + b.Running) - (a.Queued + a.Running) })
}

// added adds points of the same time.
func added(series [][]jobapi.Point) []jobapi.Point {
	at := map[int64]int{}
	var sum []jobapi.Point
	for _, points := range series {
		for _, p := range points {
			i, ok := at[p.At.Unix()]
			if !ok {
				i = len(sum)
				at[p.At.Unix()] = i
				sum = append(sum, jobapi.Point{At: p.At})
			}
			s := &sum[i]
			s.In, s.Succeeded, s.Failed, s.Canceled = s.In+p.In, s.Succeeded+p.Succeeded, s.Failed+p.Failed, s.Canceled+p.Canceled
		}
	}
	slices.SortFunc(sum, func(a, b jobapi.Point) int { return a.At.Compare(b.At.Time) })
	return sum
}
