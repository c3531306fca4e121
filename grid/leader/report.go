package leader

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/batchfleet/batchfleet/grid/schedule"
	"github.com/batchfleet/batchfleet/internal/disk"
	"github.com/batchfleet/batchfleet/jobapi"
)

// maxRows is how many rows a section of a report has.
const maxRows = 200

// state is what a report needs of the state of a leader.
type state struct {
	numbers schedule.Numbers
	workers []schedule.Worker
	clients []schedule.ClientInfo
	dead    map[string]int // by exec
}

// Report implements [jobapi.Reporter].
func (j Jobs) Report(ctx context.Context) ([]jobapi.Section, error) {
	var s state
	if err := j.do(ctx, func(c *schedule.Core) {
		s = state{c.Numbers(), c.Workers(), c.Clients(), c.DeadByExec()}
	}); err != nil {
		return nil, err
	}
	return []jobapi.Section{j.Leader.reportSelf(&s), j.Leader.reportDisk(), s.reportCredit(), s.reportClients(), s.reportDead()}, nil
}

func (l *Leader) reportSelf(s *state) jobapi.Section {
	takes := "yes"
	if _, err := l.closed(); err != nil {
		takes = "no: " + jobapi.ShownText(err.Error(), 500)
	}
	conns, unsent := l.peers.unsent()
	return jobapi.Section{
		Title: "Leader", Columns: []string{"Id", "Up since", "Takes jobs", "Keeps them on disk", "Connections", "Bytes that wait for peers", "Bytes of requests and results in memory"},
		Rows: [][]string{{
			l.ID.String(), l.started.UTC().Format(time.RFC3339), takes, yesNo(l.Durable()), strconv.Itoa(conns), strconv.Itoa(unsent), strconv.FormatInt(s.numbers.Bytes, 10),
		}},
	}
}

func yesNo(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}

func (l *Leader) reportDisk() jobapi.Section {
	s := jobapi.Section{Title: "Disk", Columns: []string{"What", "Used", "Free", "No jobs are taken below"}}
	mebibytes := func(n int64) string { return fmt.Sprintf("%d MiB", n>>20) }
	if l.Dir != "" {
		free := "not known"
		if n, err := disk.Free(filepath.Clean(l.Dir)); err == nil {
			free = mebibytes(n)
		}
		s.Rows = append(s.Rows, []string{"journal, requests and results", "", free, mebibytes(l.MinFree)})
	}
	if l.Blobs != nil {
		s.Rows = append(s.Rows, []string{"blobs", mebibytes(l.Blobs.Used()), "", ""})
	}
	return s
}

func (s *state) reportCredit() jobapi.Section {
	t := jobapi.Section{Title: "Credit of workers", Columns: []string{"Worker", "Execs", "Jobs in hand", "Credit for more", "Slots", "State"}}
	for _, w := range s.workers[:min(len(s.workers), maxRows)] {
		word := ""
		if w.Draining {
			word = "draining"
		}
		t.Rows = append(t.Rows, []string{
			jobapi.ShownText(w.Host, 255), execsOf(w.Pattern), strconv.Itoa(len(w.Running)), strconv.Itoa(w.Credit), strconv.Itoa(slotsOf(w)), word,
		})
	}
	return t
}

func (s *state) reportClients() jobapi.Section {
	t := jobapi.Section{Title: "Clients", Columns: []string{"Client", "Connections", "Jobs running", "At most", "Jobs known", "Bytes of results that it has not fetched"}}
	for _, c := range s.clients[:min(len(s.clients), maxRows)] {
		t.Rows = append(t.Rows, []string{
			c.Name, strconv.Itoa(c.Sessions), strconv.Itoa(c.Running), strconv.Itoa(c.Cap), strconv.Itoa(c.Jobs), strconv.FormatInt(c.Results, 10),
		})
	}
	return t
}

func (s *state) reportDead() jobapi.Section {
	t := jobapi.Section{Title: "Dead letters", Columns: []string{"Exec", "Dead letters"}}
	for _, exec := range slices.Sorted(maps.Keys(s.dead)) {
		if len(t.Rows) < maxRows {
			t.Rows = append(t.Rows, []string{exec, strconv.Itoa(s.dead[exec])})
		}
	}
	return t
}
