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
	retries            *prometheus.CounterVec
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
	made := metrics.In(r, "batchfleet_")
	return &Metrics{
		Registry:           r,
		outcomes:           made.Counters("jobs_total", "Jobs ended by this worker, by kind and outcome.", "kind", "outcome"),
		pages:              made.Counters("pages_total", "Pages of succeeded jobs, by kind.", "kind"),
		extensions:         made.Counters("lease_extensions_total", "Calls to extend leases, by whether they worked.", "result"),
		leases:             made.Counter("leases_total", "Leases taken."),
		leasesLost:         made.Counter("leases_lost_total", "Leases lost while their job ran."),
		redeliveries:       made.Counter("redeliveries_total", "Attempts at jobs that had been started before."),
		duplicates:         made.Counter("duplicates_total", "Leases on jobs that had ended or ran elsewhere."),
		returned:           made.Counter("leases_returned_total", "Leases of silent workers that this one has handed back."),
		handedBack:         made.Counters("jobs_handed_back_total", "Jobs given up without an outcome, by why.", "reason"),
		retries:            made.Counters("attempts_failed_total", "Attempts that failed and are to be made again, by kind.", "kind"),
		malformed:          made.Counter("messages_malformed_total", "Deliveries of messages without a usable job id."),
		deadLetters:        made.Counters("dead_letters_total", "Dead letters published, by whether a job had failed or a message named no job.", "cause"),
		deadLetterRetries:  made.Counter("dead_letter_retries_total", "Dead letters that could not be published and are tried again."),
		leaseErrors:        made.Counter("lease_errors_total", "Failed attempts to lease a job."),
		ackErrors:          made.Counter("ack_errors_total", "Acks and nacks that failed."),
		statusRetries:      made.Counter("status_retries_total", "Calls to the status store that failed and are tried again."),
		progressWritten:    made.Counter("progress_written_total", "Progress reports written."),
		progressSuppressed: made.Counter("progress_suppressed_total", "Progress reports overtaken by a newer one."),
		runSeconds: made.NewHistogramVec(prometheus.HistogramOpts{
			Name: "job_run_seconds", Help: "Time from lease to outcome, by kind.",
			Buckets: prometheus.ExponentialBuckets(0.01, 4, 10),
		}, []string{"kind"}),
		waitSeconds: made.NewHistogram(prometheus.HistogramOpts{
			Name: "job_wait_seconds", Help: "Time from submission to lease.",
			Buckets: prometheus.ExponentialBuckets(0.01, 4, 12),
		}),
		ready: made.NewGauge(prometheus.GaugeOpts{Name: "worker_ready", Help: "1 while the worker takes jobs."}),
		draining: made.NewGauge(prometheus.GaugeOpts{
			Name: "worker_draining", Help: "1 while the worker takes no jobs because an operator asks for it.",
		}),
	}
}

func (m *Metrics) leased(l jobs.Lease) {
	m.leases.Inc()
	if !l.Job.Submitted.IsZero() {
		m.waitSeconds.Observe(max(0, time.Since(l.Job.Submitted).Seconds()))
	}
}

// ended counts an outcome. The kind must be one that the worker knows: a label
// taken from a message would let any sender fill the registry.
func (m *Metrics) ended(kind string, o jobs.Outcome, took time.Duration) {
	m.outcomes.WithLabelValues(kind, o.State.String()).Inc()
	m.pages.WithLabelValues(kind).Add(float64(o.Result.Pages))
	m.runSeconds.WithLabelValues(kind).Observe(took.Seconds())
}
