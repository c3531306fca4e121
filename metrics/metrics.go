// Package metrics is what the metrics of all commands have in common.
package metrics

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Maker makes metrics and registers them.
type Maker struct{ promauto.Factory }

// In returns what makes metrics of r whose names begin with prefix.
func In(r prometheus.Registerer, prefix string) Maker {
	return Maker{promauto.With(prometheus.WrapRegistererWithPrefix(prefix, r))}
}

// Counter makes a counter.
func (m Maker) Counter(name, help string) prometheus.Counter {
	return m.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

// Counters makes counters that differ in their labels.
func (m Maker) Counters(name, help string, labels ...string) *prometheus.CounterVec {
	return m.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

// NewRegistry returns a registry with the metrics of the Go runtime, the process
// and the build, whose version is given. It may be used from many goroutines.
func NewRegistry(version string) *prometheus.Registry {
	r := prometheus.NewRegistry()
	In(r, "batchfleet_").NewGauge(prometheus.GaugeOpts{
		Name: "build_info", Help: "Always 1; the labels say what runs.",
		ConstLabels: prometheus.Labels{"version": version, "goversion": runtime.Version()},
	}).Set(1)
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}
