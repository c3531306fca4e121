package worker

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/metrics"
)

// Metrics are what a worker counts. No label carries a job id. The zero value
// is not usable; see [NewMetrics].
type Metrics struct {
	Registry *prometheus.Registry // serve it at /metrics

	outcomes           *prometheus.CounterVec
	runSeconds         *prometheus.HistogramVec
	waitSeconds        prometheus.Histogram
	pages              *prometheus.CounterVec
	extensions         *prometheus.CounterVec
	leasesLost         prometheus.Counter
	leases             prometheus.Counter
	redeliveries       prometheus.Counter
	duplicates         prometheus.Counter
	returned           prometheus.Counter
	handedBack         *prometheus.CounterVec
	malformed          prometheus.Counter
	deadLetters        *prometheus.CounterVec
	deadLetterRetries  prometheus.Counter
	leaseErrors        prometheus.Counter
	ackErrors          prometheus.Counter
	statusRetries      prometheus.Counter
	progressWritten    prometheus.Counter
	progressSuppressed prometheus.Counter
	ready              prometheus.Gauge
	draining           prometheus.Gauge
}

// NewMetrics returns metrics on a registry of their own, beside those of the
// Go runtime, the process and the build, whose version is given.
func NewMetrics(version string) *Metrics {
	r := metrics.NewRegistry(version)
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Namespace: "batchfleet", Name: name, Help: help})
		r.MustRegister(c)
		return c
	}
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "batchfleet", Name: name, Help: help}, labels)
		r.MustRegister(c)
		return c
	}
	m := &Metrics{
		Registry:           r,
		outcomes:           counters("jobs_total", "Jobs ended by this worker, by kind and outcome.", "kind", "outcome"),
		pages:              counters("pages_total", "Pages of succeeded jobs, by kind.", "kind"),
		extensions:         counters("lease_extensions_total", "Calls to extend leases, by whether they worked.", "result"),
		leases:             counter("leases_total", "Leases taken."),
		leasesLost:         counter("leases_lost_total", "Leases lost while their job ran."),
		redeliveries:       counter("redeliveries_total", "Attempts at jobs that had been started before."),
		duplicates:         counter("duplicates_total", "Leases on jobs that had ended or ran elsewhere."),
		returned:           counter("leases_returned_total", "Leases of silent workers that this one has handed back."),
		handedBack:         counters("jobs_handed_back_total", "Jobs given up without an outcome, by why.", "reason"),
		malformed:          counter("messages_malformed_total", "Deliveries of messages without a usable job id."),
		deadLetters:        counters("dead_letters_total", "Dead letters published, by whether a job had failed or a message named no job.", "cause"),
		deadLetterRetries:  counter("dead_letter_retries_total", "Dead letters that could not be published and are tried again."),
		leaseErrors:        counter("lease_errors_total", "Failed attempts to lease a job."),
		ackErrors:          counter("ack_errors_total", "Acks and nacks that failed."),
		statusRetries:      counter("status_retries_total", "Calls to the status store that failed and are tried again."),
		progressWritten:    counter("progress_written_total", "Progress reports written."),
		progressSuppressed: counter("progress_suppressed_total", "Progress reports overtaken by a newer one."),
		runSeconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "batchfleet", Name: "job_run_seconds", Help: "Time from lease to outcome, by kind.",
			Buckets: prometheus.ExponentialBuckets(0.01, 4, 10),
		}, []string{"kind"}),
		waitSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "batchfleet", Name: "job_wait_seconds", Help: "Time from submission to lease.",
			Buckets: prometheus.ExponentialBuckets(0.01, 4, 12),
		}),
		ready: prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "batchfleet", Name: "worker_ready", Help: "1 while the worker takes jobs."}),
		draining: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: "batchfleet", Name: "worker_draining", Help: "1 while the worker takes no jobs because an operator asks for it.",
		}),
	}
	r.MustRegister(m.runSeconds, m.waitSeconds, m.ready, m.draining)
	return m
}

func (m *Metrics) leased(l jobs.Lease) {
	m.leases.Inc()
	if !l.Job.Submitted.IsZero() {
		m.waitSeconds.Observe(max(0, time.Since(l.Job.Submitted).Seconds()))
	}
}

// ended counts an outcome. The kind must be one that the worker knows: a label
// taken from a message would let strangers fill the registry.
func (m *Metrics) ended(kind string, o jobs.Outcome, took time.Duration) {
	m.outcomes.WithLabelValues(kind, o.State.String()).Inc()
	m.pages.WithLabelValues(kind).Add(float64(o.Result.Pages))
	m.runSeconds.WithLabelValues(kind).Observe(took.Seconds())
}
