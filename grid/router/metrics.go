package router

import (
	"errors"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/batchfleet/batchfleet/grid/link"
	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/metrics"
)

// Metrics are what a router counts. No label carries the name of a client, an exec or a job. Nil counts nothing.
type Metrics struct {
	registry  prometheus.Registerer
	received  prometheus.Counter
	sent      prometheus.Counter
	submitted prometheus.Counter
	ends      prometheus.Counter
	results   prometheus.Counter
	refusals  *prometheus.CounterVec
	slow      prometheus.Counter
	silent    prometheus.Counter
}

// codes are those that are counted under their names.
var codes = []string{
	wire.CodeInvalid, wire.CodeConflict, wire.CodeForbidden, wire.CodeDraining, wire.CodeNoSpace, wire.CodeBusy, wire.CodeNotFound, wire.CodeProtocol,
}

const prefix = "batchfleet_grid_router_"

// NewMetrics registers the metrics of a router.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := metrics.In(r, prefix)
	return &Metrics{
		registry:  r,
		received:  m.Counter("frames_received_total", "Frames that clients have sent."),
		sent:      m.Counter("frames_sent_total", "Frames that were sent to clients."),
		submitted: m.Counter("jobs_submitted_total", "Jobs that were taken to be passed on, each time they came over another connection."),
		ends:      m.Counter("jobs_left_total", "Jobs that have ended here: their results were acknowledged, or they were refused, or their connections have ended."),
		results:   m.Counter("results_total", "Results that leaders have sent."),
		refusals:  m.Counters("refused_total", "Jobs that were refused here or by a leader, by code.", "code"),
		slow:      m.Counter("slow_clients_total", "Connections closed because the client did not read what it was sent."),
		silent:    m.Counter("silent_clients_total", "Connections closed because the client was silent."),
	}
}

// watch makes the number of connections a metric.
func (m *Metrics) watch(r *Router) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(
		prometheus.GaugeOpts{Name: prefix + "clients", Help: "Connections of clients that were let in."},
		func() float64 {
			r.mu.Lock()
			defer r.mu.Unlock()
			return float64(len(r.sessions))
		},
	))
}

func (m *Metrics) frames(received, sent int) {
	if m != nil {
		m.received.Add(float64(received))
		m.sent.Add(float64(sent))
	}
}

func (m *Metrics) submit() {
	if m != nil {
		m.submitted.Inc()
	}
}

func (m *Metrics) end() {
	if m != nil {
		m.ends.Inc()
	}
}

func (m *Metrics) result() {
	if m != nil {
		m.results.Inc()
	}
}

func (m *Metrics) refused(code string) {
	if m != nil {
		if !slices.Contains(codes, code) {
			code = "other" // a leader may say anything
		}
		m.refusals.WithLabelValues(code).Inc()
	}
}

// ended counts how a connection has ended.
func (m *Metrics) ended(err error) {
	switch {
	case m == nil:
	case errors.Is(err, link.ErrSlow):
		m.slow.Inc()
	case errors.Is(err, link.ErrSilent):
		m.silent.Inc()
	}
}
