package leader

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/batchfleet/batchfleet/grid/link"
	"github.com/batchfleet/batchfleet/grid/schedule"
	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/metrics"
)

// Metrics are the metrics of a leader. No label has the name of a client, an exec or a job. Methods of a nil Metrics do nothing.
type Metrics struct {
	registry prometheus.Registerer
	received prometheus.Counter
	sent     prometheus.Counter
	ignored  *prometheus.CounterVec
	refusals *prometheus.CounterVec
	slow     prometheus.Counter
	silent   prometheus.Counter
	broken   prometheus.Counter
	commits  prometheus.Histogram
	waits    prometheus.Histogram
	runs     prometheus.Histogram
	whole    prometheus.Histogram
}

// NewMetrics registers the metrics of a leader.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := metrics.In(r, "batchfleet_grid_")
	times := []float64{.001, .005, .025, .1, .5, 1, 5, 15, 60, 300, 1800, 7200, 43200}
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		return m.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
	}
	return &Metrics{
		registry: r,
		received: m.Counter("frames_received_total", "Frames that peers have sent."),
		sent:     m.Counter("frames_sent_total", "Frames that were sent to peers."),
		ignored:  m.Counters("frames_ignored_total", "Frames without a meaning for this leader, by type.", "type"),
		refusals: m.Counters("refused_total", "Requests that were refused, by code.", "code"),
		slow:     m.Counter("slow_peers_total", "Connections closed because the peer did not read what it was sent."),
		silent:   m.Counter("silent_peers_total", "Connections closed because the peer was silent."),
		broken:   m.Counter("broken_connections_total", "Connections closed because of a protocol error, or by the other end within a frame."),
		commits:  histogram("commit_seconds", "How long records took to be on disk.", []float64{.0005, .001, .002, .005, .01, .025, .05, .1, .5, 1, 5}),
		waits:    histogram("wait_seconds", "How long jobs waited for their first attempt.", times),
		runs:     histogram("run_seconds", "How long attempts ran that have ended their job.", times),
		whole:    histogram("job_seconds", "From the submission of jobs to their end.", times),
	}
}

func (m *Metrics) frames(received, sent int) {
	if m == nil {
		return
	}
	if received > 0 {
		m.received.Add(float64(received))
	}
	if sent > 0 {
		m.sent.Add(float64(sent))
	}
}

func (m *Metrics) ignore(t wire.Type) {
	if m != nil {
		name := t.String()
		if !t.Known() {
			name = "unknown"
		}
		m.ignored.WithLabelValues(name).Inc()
	}
}

func (m *Metrics) refused(code string) {
	if m != nil {
		m.refusals.WithLabelValues(code).Inc()
	}
}

// ended counts a connection that has ended, by its error.
func (m *Metrics) ended(err error) {
	switch {
	case m == nil:
	case errors.Is(err, link.ErrSlow):
		m.slow.Inc()
	case errors.Is(err, link.ErrSilent):
		m.silent.Inc()
	case errors.Is(err, wire.ErrFrame) || errors.Is(err, io.ErrUnexpectedEOF):
		m.broken.Inc()
	}
}

func (m *Metrics) committed(took time.Duration) {
	if m != nil {
		m.commits.Observe(took.Seconds())
	}
}

// observe records a duration that the state has measured.
func (m *Metrics) observe(what schedule.Span, d schedule.Moment) {
	switch what {
	case schedule.Waited:
		m.waits.Observe(d.Seconds())
	case schedule.Ran:
		m.runs.Observe(d.Seconds())
	case schedule.Took:
		m.whole.Observe(d.Seconds())
	}
}

// watch registers the numbers of a leader's state as metrics.
func (m *Metrics) watch(l *Leader) { m.registry.MustRegister(&stateCollector{l}) }

// stateCollector collects the counts and sizes of the state when metrics are read.
type stateCollector struct{ l *Leader }

var (
	jobsDesc      = prometheus.NewDesc("batchfleet_grid_jobs", "Jobs that are known, by where they stand: queued, running, dead, or result: ended, and their clients have not fetched the result.", []string{"state"}, nil)
	peersDesc     = prometheus.NewDesc("batchfleet_grid_peers", "Peers: connections, workers, and clients that are known.", []string{"kind"}, nil)
	bytesDesc     = prometheus.NewDesc("batchfleet_grid_memory_bytes", "Bytes of requests and results in memory.", nil, nil)
	unsentDesc    = prometheus.NewDesc("batchfleet_grid_unsent_bytes", "Bytes that wait for peers to read them.", nil, nil)
	oldestDesc    = prometheus.NewDesc("batchfleet_grid_oldest_seconds", "How long the oldest queued job has waited.", nil, nil)
	endedDesc     = prometheus.NewDesc("batchfleet_grid_jobs_ended_total", "Jobs that have ended, by outcome.", []string{"outcome"}, nil)
	eventsDesc    = prometheus.NewDesc("batchfleet_grid_events_total", "What has happened to jobs and attempts, by event.", []string{"event"}, nil)
	againDesc     = prometheus.NewDesc("batchfleet_grid_attempts_again_total", "Attempts that did not end their job, by reason.", []string{"reason"}, nil)
	takesJobsDesc = prometheus.NewDesc("batchfleet_grid_takes_jobs", "1 while the leader takes jobs, 0 while it stops or its disk is full.", nil, nil)
)

// Describe implements prometheus.Collector.
func (*stateCollector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{jobsDesc, peersDesc, bytesDesc, unsentDesc, oldestDesc, endedDesc, eventsDesc, againDesc, takesJobsDesc} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (s *stateCollector) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var n schedule.Numbers
	var c schedule.Counts
	var oldest schedule.Moment
	if s.l.Do(ctx, func(core *schedule.Core) {
		n, c = core.Numbers(), core.Counts
		for _, e := range core.Execs() {
			oldest = max(oldest, e.Oldest)
		}
	}) != nil {
		return
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	count := func(d *prometheus.Desc, v uint64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	gauge(jobsDesc, float64(n.Queued), "queued")
	gauge(jobsDesc, float64(n.Running), "running")
	gauge(jobsDesc, float64(n.Dead), "dead")
	gauge(jobsDesc, float64(n.Results), "result")
	gauge(peersDesc, float64(n.Workers), "worker")
	gauge(peersDesc, float64(n.Clients), "client")
	conns, unsent := s.l.peers.unsent()
	gauge(peersDesc, float64(conns), "connection")
	gauge(unsentDesc, float64(unsent))
	gauge(bytesDesc, float64(n.Bytes))
	gauge(oldestDesc, oldest.Seconds())
	takes := 1.0
	if _, err := s.l.closed(); err != nil {
		takes = 0
	}
	gauge(takesJobsDesc, takes)
	count(endedDesc, c.Succeeded, "succeeded")
	count(endedDesc, c.Failed, "failed")
	count(endedDesc, c.Canceled, "canceled")
	count(endedDesc, c.Dead, "dead")
	for event, v := range map[string]uint64{
		"submitted": c.Submitted, "duplicate_submission": c.Duplicates, "assigned": c.Assigned, "late_result": c.LateResults, "duplicate_result": c.DuplicateResults,
		"orphan_result": c.Orphans, "stranger_result": c.StrangerAcks, "credit_violation": c.CreditViolations, "adopted": c.Adopted, "result_expired": c.ResultsExpired, "expired": c.Expired,
	} {
		count(eventsDesc, v, event)
	}
	for reason, v := range map[string]uint64{"worker_lost": c.Crashes, "not_accepted": c.NotAccepted, "lease_expired": c.LeaseExpired, "retry_on": c.Retried} {
		count(againDesc, v, reason)
	}
}

// unsent returns how many connections there are, and how many bytes wait in them.
func (ps *peers) unsent() (conns, bytes int) {
	all := ps.all()
	for _, p := range all {
		bytes += p.Unsent()
	}
	return len(all), bytes
}
