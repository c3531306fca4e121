package relay

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/metrics"
)

// Metrics are what a relay counts. No label carries an id or anything else that a caller has chosen freely. Use [NewMetrics].
type Metrics struct {
	requests, refusals, ended, uploads, events *prometheus.CounterVec
	uploadedBytes, quarantined, gpuOOM         prometheus.Counter
	uploadSeconds                              prometheus.Histogram
	made                                       metrics.Maker
}

// NewMetrics returns the metrics of a relay, registered.
func NewMetrics(r prometheus.Registerer) *Metrics {
	made := metrics.In(r, "batchfleet_relay_")
	return &Metrics{
		made:          made,
		requests:      made.Counters("http_requests_total", "Requests answered, by route and status; route none is no route of the API.", "route", "status"),
		refusals:      made.Counters("refusals_total", "Requests that were not let in, or tasks not taken, by why.", "reason"),
		ended:         made.Counters("attempts_total", "Attempts at tasks that have ended, by kind and outcome.", "kind", "outcome"),
		uploads:       made.Counters("uploads_total", "Attempts to upload the artifacts of a task, by outcome.", "outcome"),
		events:        made.Counters("callbacks_total", "Attempts to tell an event to a callback, by outcome.", "outcome"),
		uploadedBytes: made.Counter("uploaded_bytes_total", "Bytes of artifacts that were uploaded."),
		quarantined:   made.Counter("quarantined_total", "Tasks that could not be read and were left out."),
		gpuOOM:        made.Counter("gpu_oom_total", "Attempts that ended because the memory of a GPU was used up."),
		uploadSeconds: made.NewHistogram(prometheus.HistogramOpts{
			Name: "upload_seconds", Help: "How long an upload that has worked has taken.", Buckets: prometheus.ExponentialBuckets(0.01, 4, 10),
		}),
	}
}

// watch adds the gauges of the tasks.
func (m *Metrics) watch(ts *Tasks, free func() float64) {
	for s := Queued; s <= Canceled; s++ {
		m.made.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "tasks", Help: "Tasks by status.", ConstLabels: prometheus.Labels{"status": s.String()},
		}, func() float64 { return float64(ts.count(s)) })
	}
	m.made.NewGaugeFunc(prometheus.GaugeOpts{Name: "disk_free_bytes", Help: "Free bytes on the disk of the relay's directory."}, free)
}

func (m *Metrics) uploaded(t *Task, began time.Time, err error) {
	if err != nil {
		m.uploads.WithLabelValues("failed").Inc()
		return
	}
	m.uploads.WithLabelValues("succeeded").Inc()
	m.uploadSeconds.Observe(time.Since(began).Seconds())
	for _, a := range t.Artifacts {
		m.uploadedBytes.Add(float64(a.Size))
	}
}

func (m *Metrics) calledBack(err error) {
	outcome := "succeeded"
	if err != nil {
		outcome = "failed"
	}
	m.events.WithLabelValues(outcome).Inc()
}

func (m *Metrics) attempt(kind jobs.Kind, o jobs.Outcome) {
	m.ended.WithLabelValues(string(kind), o.State.String()).Inc()
	if o.Code == codeGPUOOM {
		m.gpuOOM.Inc()
	}
}
