package jobapi

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/batchfleet/batchfleet/jobs"
)

// scopeMetrics are what the scopes of a [Server] say of their jobs and workers each time that the metrics are
// gathered. They cost a call of Count and one of Workers for each scope that has them.
type scopeMetrics struct {
	scopes []Scope
	log    *slog.Logger
}

// ShowScopes registers metrics of the jobs of each scope whose Jobs is a [Counter], and of the workers of each whose
// Jobs is a [Workforce]. While a scope cannot be asked, its batchfleet_scope_up is 0 and it has no others; log says why.
func ShowScopes(r prometheus.Registerer, scopes []Scope, log *slog.Logger) {
	r.MustRegister(&scopeMetrics{slices.Clone(scopes), log})
}

func scopeDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("batchfleet_"+name, help, append([]string{"scope"}, labels...), nil)
}

var (
	scopeUp      = scopeDesc("scope_up", "1 if the jobs and workers of the scope could be counted.")
	scopeJobs    = scopeDesc("scope_jobs", "Jobs that are on record, by state.", "state")
	scopeIn      = scopeDesc("scope_jobs_in_total", "Jobs that came, those queued again included.")
	scopeEnded   = scopeDesc("scope_jobs_ended_total", "Jobs that ended, by outcome.", "outcome")
	scopeDead    = scopeDesc("scope_dead_letters", "Jobs that have failed and wait for somebody to decide.")
	kindJobs     = scopeDesc("kind_jobs", "Jobs that have not ended, by kind and state.", "kind", "state")
	kindOldest   = scopeDesc("kind_oldest_seconds", "How long the queued job of the kind that waits longest has waited.", "kind")
	scopeWorkers = scopeDesc("workers", "Workers by state: working, idle, draining, unready or silent.", "state")
	scopeSlots   = scopeDesc("worker_slots", "Slots of the workers that are neither silent nor draining.")
)

// maxKindsShown bounds the series of a scope. The jobs of further kinds are counted under the kind "other".
const maxKindsShown = 500

// Describe implements [prometheus.Collector].
func (m *scopeMetrics) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{scopeUp, scopeJobs, scopeIn, scopeEnded, scopeDead, kindJobs, kindOldest, scopeWorkers, scopeSlots} {
		to <- desc
	}
}

// Collect implements [prometheus.Collector]. It takes no longer than a call of a store may take.
func (m *scopeMetrics) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	var asking sync.WaitGroup
	for _, scope := range m.scopes {
		asking.Go(func() { m.collect(ctx, scope, to) })
	}
	asking.Wait()
}

// collect asks one scope.
func (m *scopeMetrics) collect(ctx context.Context, scope Scope, to chan<- prometheus.Metric) {
	counter, counts := scope.Jobs.(Counter)
	force, works := scope.Jobs.(Workforce)
	if !counts && !works {
		return
	}
	s := series{scope.Name, to}
	var c Counts
	var workers []Worker
	var err, err2 error
	if counts {
		c, err = counter.Count(ctx)
	}
	if works {
		workers, err2 = force.Workers(ctx)
	}
	if err := cmp.Or(err, err2); err != nil {
		m.log.WarnContext(ctx, "cannot count jobs and workers for the metrics", "scope", scope.Name, "err", ShownText(err.Error(), 1<<10))
		s.gauge(scopeUp, 0)
		return
	}
	s.gauge(scopeUp, 1)
	if counts {
		s.jobs(c, time.Now())
	}
	if works {
		s.workers(workers)
	}
}

// series sends the metrics of a scope.
type series struct {
	scope string
	to    chan<- prometheus.Metric
}

func (s series) gauge(desc *prometheus.Desc, value float64, labels ...string) {
	s.to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, append([]string{s.scope}, labels...)...)
}

func (s series) counter(desc *prometheus.Desc, value int64, labels ...string) {
	s.to <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(value), append([]string{s.scope}, labels...)...)
}

func (s series) jobs(c Counts, now time.Time) {
	for _, state := range []jobs.State{jobs.Queued, jobs.Running, jobs.Succeeded, jobs.Failed, jobs.Canceled} {
		s.gauge(scopeJobs, float64(c.States[state]), state.String())
	}
	s.counter(scopeIn, c.Total.In)
	s.counter(scopeEnded, c.Total.Succeeded, jobs.Succeeded.String())
	s.counter(scopeEnded, c.Total.Failed, jobs.Failed.String())
	s.counter(scopeEnded, c.Total.Canceled, jobs.Canceled.String())
	if c.DeadLetters >= 0 {
		s.gauge(scopeDead, float64(c.DeadLetters))
	}
	for _, k := range fewKinds(c.Kinds) {
		s.gauge(kindJobs, float64(k.Queued), k.Kind, jobs.Queued.String())
		s.gauge(kindJobs, float64(k.Running), k.Kind, jobs.Running.String())
		waits := 0.0
		if !k.Oldest.IsZero() {
			waits = max(0, now.Sub(k.Oldest).Seconds())
		}
		s.gauge(kindOldest, waits, k.Kind)
	}
}

// fewKinds returns the kinds, each once and by a name that can be a label; the last may stand for many.
func fewKinds(all []KindCount) []KindCount {
	var few []KindCount
	at := map[string]int{}
	for _, k := range all {
		name := strings.ToValidUTF8(k.Kind, "?")
		if _, known := at[name]; !known && len(few) >= maxKindsShown {
			name = "other"
		}
		i, known := at[name]
		if !known {
			i = len(few)
			at[name], few = i, append(few, KindCount{Kind: name})
		}
		few[i].Queued += k.Queued
		few[i].Running += k.Running
		if few[i].Oldest.IsZero() || !k.Oldest.IsZero() && k.Oldest.Before(few[i].Oldest) {
			few[i].Oldest = k.Oldest
		}
	}
	return few
}

func (s series) workers(workers []Worker) {
	states := map[string]int{"working": 0, "idle": 0, "draining": 0, "unready": 0, "silent": 0}
	slots := 0
	for _, w := range workers {
		if _, known := states[w.State]; !known {
			continue // a later version's
		}
		states[w.State]++
		if w.State != "silent" && w.State != "draining" {
			slots += w.Slots
		}
	}
	for state, n := range states {
		s.gauge(scopeWorkers, float64(n), state)
	}
	s.gauge(scopeSlots, float64(slots))
}
