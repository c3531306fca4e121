package member

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/batchfleet/batchfleet/metrics"
)

// Metrics are the metrics of a member.
type Metrics struct {
	connected   prometheus.Gauge
	assigned    *prometheus.CounterVec
	undelivered prometheus.Gauge
	cpu         prometheus.Gauge
}

// NewMetrics registers the metrics of a member.
func NewMetrics(r prometheus.Registerer) *Metrics {
	made := metrics.In(r, "batchfleet_grid_")
	gauge := func(name, help string) prometheus.Gauge {
		return made.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	return &Metrics{
		connected:   gauge("leaders_connected", "Leaders that this worker is connected to."),
		assigned:    made.Counters("assigned_total", "Jobs that leaders have assigned, by whether the job is new here, runs already, or has ended here.", "job"),
		undelivered: gauge("results_undelivered", "Results that wait until their leader has them."),
		cpu:         gauge("worker_cpu", "Part of the CPU that is used, of this machine or of the worker's control group, whichever is more."),
	}
}
