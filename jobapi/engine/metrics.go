package engine

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/metrics"
)

// Metrics are what engines count. No label carries a job id. The zero value is
// not usable; see [NewMetrics].
type Metrics struct {
	ended   *prometheus.CounterVec
	refused *prometheus.CounterVec
	dropped *prometheus.CounterVec

	mu      sync.Mutex
	engines []*Engine // whose jobs are counted when metrics are gathered
}

var (
	jobsNow = prometheus.NewDesc("batchfleet_engine_jobs", "Jobs of the engines that wait, run, or have ended but whose step has yet to return, by scope.",
		[]string{"scope", "status"}, nil)
	logBytes = prometheus.NewDesc("batchfleet_engine_log_bytes", "Memory that the logs of jobs hold, by the scope of the engine, or the first of those that share it.",
		[]string{"scope"}, nil)
)

// NewMetrics registers the metrics of engines, which share them.
func NewMetrics(r prometheus.Registerer) *Metrics {
	made := metrics.In(r, "batchfleet_engine_")
	m := &Metrics{
		ended:   made.Counters("jobs_ended_total", "Jobs that have ended, by scope, type and how.", "scope", "type", "status"),
		refused: made.Counters("jobs_refused_total", "Jobs that there was no room for, by scope and code.", "scope", "code"),
		dropped: made.Counters("log_lines_dropped_total", "Lines that logs have lost because they were too long, by scope; counted in batches.", "scope"),
	}
	r.MustRegister(m)
	return m
}

// know has the jobs of an engine counted.
func (m *Metrics) know(e *Engine) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.engines = append(m.engines, e)
	for _, code := range [...]string{"CONFLICT", "RATE_LIMITED"} {
		m.refused.WithLabelValues(e.Scope, code)
	}
	m.dropped.WithLabelValues(e.Scope)
}

// lost returns what counts the dropped lines of a scope's logs.
func (m *Metrics) lost(scope string) func(int) {
	c := m.dropped.WithLabelValues(scope)
	return func(lines int) { c.Add(float64(lines)) }
}

// Describe implements [prometheus.Collector].
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	to <- jobsNow
	to <- logBytes
}

// Collect implements [prometheus.Collector].
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	m.mu.Lock()
	engines := m.engines
	m.mu.Unlock()
	budgets := map[*LogBudget]bool{}
	for _, e := range engines {
		queued, running, stopping := e.count()
		for status, n := range map[string]int{jobs.Queued.String(): queued, jobs.Running.String(): running, "stopping": stopping} {
			to <- prometheus.MustNewConstMetric(jobsNow, prometheus.GaugeValue, float64(n), e.Scope, status)
		}
		if !budgets[e.Logs] {
			budgets[e.Logs] = true
			to <- prometheus.MustNewConstMetric(logBytes, prometheus.GaugeValue, float64(e.Logs.Used()), e.Scope)
		}
	}
}

// count returns how many jobs wait, run, and have ended while their goroutine has not.
func (e *Engine) count() (queued, running, stopping int) {
	e.lock()
	defer e.mu.Unlock()
	for _, j := range e.running {
		if j.status.Terminal() {
			stopping++
		} else {
			running++
		}
	}
	return len(e.waiting), running, stopping
}
