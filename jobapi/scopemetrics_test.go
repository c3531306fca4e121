package jobapi_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
)

// countedJobs are jobs whose numbers alone matter here.
type countedJobs struct {
	jobapi.Jobs
	counts  jobapi.Counts
	workers []jobapi.Worker
	err     error
}

func (c *countedJobs) Count(context.Context) (jobapi.Counts, error)     { return c.counts, c.err }
func (c *countedJobs) Workers(context.Context) ([]jobapi.Worker, error) { return c.workers, nil }

// plainJobs count nothing.
type plainJobs struct{ jobapi.Jobs }

func TestD33MetricsOfTheScopes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fleet := &countedJobs{
			counts: jobapi.Counts{
				States:      map[jobs.State]int{jobs.Queued: 3, jobs.Running: 1, jobs.Failed: 7},
				Kinds:       []jobapi.KindCount{{Kind: "pdf", Queued: 3, Oldest: time.Now().Add(-90 * time.Second)}, {Kind: "mock", Running: 1}},
				DeadLetters: 2, Total: jobapi.Flow{In: 12, Succeeded: 1, Failed: 7},
			},
			workers: []jobapi.Worker{{State: "idle", Slots: 4}, {State: "working", Slots: 2}, {State: "draining", Slots: 8}, {State: "silent", Slots: 16}, {State: "new"}},
		}
		r := prometheus.NewPedanticRegistry()
		jobapi.ShowScopes(r, []jobapi.Scope{
			{Name: "fleet", Jobs: fleet}, {Name: "zpe", Jobs: &countedJobs{counts: jobapi.Counts{DeadLetters: -1}}}, {Name: "system", Jobs: plainJobs{}},
		}, slog.New(slog.DiscardHandler))
		want := `
			# HELP batchfleet_kind_jobs Jobs that have not ended, by kind and state.
			# TYPE batchfleet_kind_jobs gauge
			batchfleet_kind_jobs{kind="mock",scope="fleet",state="queued"} 0
			batchfleet_kind_jobs{kind="mock",scope="fleet",state="running"} 1
			batchfleet_kind_jobs{kind="pdf",scope="fleet",state="queued"} 3
			batchfleet_kind_jobs{kind="pdf",scope="fleet",state="running"} 0
			# HELP batchfleet_kind_oldest_seconds How long the queued job of the kind that waits longest has waited.
			# TYPE batchfleet_kind_oldest_seconds gauge
			batchfleet_kind_oldest_seconds{kind="mock",scope="fleet"} 0
			batchfleet_kind_oldest_seconds{kind="pdf",scope="fleet"} 90
			# HELP batchfleet_scope_dead_letters Jobs that have failed and wait for somebody to decide.
			# TYPE batchfleet_scope_dead_letters gauge
			batchfleet_scope_dead_letters{scope="fleet"} 2
			# HELP batchfleet_scope_jobs_ended_total Jobs that ended, by outcome.
			# TYPE batchfleet_scope_jobs_ended_total counter
			batchfleet_scope_jobs_ended_total{outcome="canceled",scope="fleet"} 0
			batchfleet_scope_jobs_ended_total{outcome="failed",scope="fleet"} 7
			batchfleet_scope_jobs_ended_total{outcome="succeeded",scope="fleet"} 1
			batchfleet_scope_jobs_ended_total{outcome="canceled",scope="zpe"} 0
			batchfleet_scope_jobs_ended_total{outcome="failed",scope="zpe"} 0
			batchfleet_scope_jobs_ended_total{outcome="succeeded",scope="zpe"} 0
			# HELP batchfleet_scope_jobs_in_total Jobs that came, those queued again included.
			# TYPE batchfleet_scope_jobs_in_total counter
			batchfleet_scope_jobs_in_total{scope="fleet"} 12
			batchfleet_scope_jobs_in_total{scope="zpe"} 0
			# HELP batchfleet_worker_slots Slots of the workers that are neither silent nor draining.
			# TYPE batchfleet_worker_slots gauge
			batchfleet_worker_slots{scope="fleet"} 6
			batchfleet_worker_slots{scope="zpe"} 0
		`
		if err := testutil.GatherAndCompare(r, strings.NewReader(want), "batchfleet_kind_jobs", "batchfleet_kind_oldest_seconds", "batchfleet_scope_dead_letters",
			"batchfleet_scope_jobs_ended_total", "batchfleet_scope_jobs_in_total", "batchfleet_worker_slots"); err != nil {
			t.Error(err)
		}
		families, err := r.Gather()
		if err != nil {
			t.Fatal(err)
		}
		if problems, err := promlint.NewWithMetricFamilies(families).Lint(); err != nil || len(problems) > 0 {
			t.Error(problems, err)
		}
		for name, series := range map[string]int{"batchfleet_scope_up": 2, "batchfleet_scope_jobs": 10, "batchfleet_workers": 10} {
			if n, err := testutil.GatherAndCount(r, name); n != series || err != nil {
				t.Errorf("%s has %d series (%v), want %d", name, n, err, series)
			}
		}
	})
}

func TestD33ScopeThatCannotBeAskedIsDown(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	r := prometheus.NewPedanticRegistry()
	away := &countedJobs{err: errors.New("dial redis://:hunter2@redis: refused")}
	jobapi.ShowScopes(r, []jobapi.Scope{{Name: "fleet", Jobs: away}, {Name: "zpe", Jobs: &countedJobs{}}}, slog.New(slog.NewTextHandler(&log, nil)))
	want := `
		# HELP batchfleet_scope_up 1 if the jobs and workers of the scope could be counted.
		# TYPE batchfleet_scope_up gauge
		batchfleet_scope_up{scope="fleet"} 0
		batchfleet_scope_up{scope="zpe"} 1
	`
	if err := testutil.GatherAndCompare(r, strings.NewReader(want), "batchfleet_scope_up"); err != nil {
		t.Error(err)
	}
	if n, err := testutil.GatherAndCount(r, "batchfleet_scope_jobs"); n != 5 || err != nil {
		t.Errorf("%d series of jobs (%v), want those of zpe alone", n, err)
	}
	if text := log.String(); !strings.Contains(text, "scope=fleet") || strings.Contains(text, "hunter2") {
		t.Errorf("the log is %q", text)
	}
}

func TestD33KindsAreBounded(t *testing.T) {
	t.Parallel()
	many := &countedJobs{}
	for i := range 700 {
		many.counts.Kinds = append(many.counts.Kinds, jobapi.KindCount{Kind: fmt.Sprintf("k%03d", i), Queued: 1, Oldest: time.Now().Add(-time.Duration(i) * time.Hour)})
	}
	many.counts.Kinds = append(many.counts.Kinds, jobapi.KindCount{Kind: "\xff", Queued: 1}, jobapi.KindCount{Kind: "k000", Queued: 5})
	r := prometheus.NewPedanticRegistry()
	jobapi.ShowScopes(r, []jobapi.Scope{{Name: "fleet", Jobs: many}}, slog.New(slog.DiscardHandler))
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if f.GetName() == "batchfleet_kind_jobs" && l.GetName() == "kind" {
					got[l.GetValue()] += m.GetGauge().GetValue()
				}
				if f.GetName() == "batchfleet_kind_oldest_seconds" && l.GetValue() == "other" && m.GetGauge().GetValue() < 698*3600 {
					t.Errorf("the oldest of other kinds has waited %v s", m.GetGauge().GetValue())
				}
			}
		}
	}
	if len(got) != 501 || got["other"] != 201 || got["k000"] != 6 || got["k499"] != 1 {
		t.Errorf("%d kinds, other %v, k000 %v", len(got), got["other"], got["k000"])
	}
}
