package jobapi

import (
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/batchfleet/batchfleet/metrics"
)

// Metrics are what a [Server] counts. No label carries an id, a token or anything
// else that a caller has chosen. Use [NewMetrics].
type Metrics struct {
	requests, rejected, denials, dropped *prometheus.CounterVec
	listeners                            *prometheus.GaugeVec
}

// NewMetrics returns the metrics of a server, registered.
func NewMetrics(r prometheus.Registerer) *Metrics {
	made := metrics.In(r, "batchfleet_jobapi_")
	return &Metrics{
		requests: made.Counters("http_requests_total", "Requests answered, by route and status; route none is no route of the API.", "method", "route", "status"),
		rejected: made.Counters("rejected_total", "Jobs not made: conflict is 409, rate_limited 429.", "scope", "reason"),
		denials:  made.Counters("auth_failures_total", "Requests that were not let in, by why.", "reason"),
		dropped:  made.Counters("listeners_dropped_total", "Listeners cut off because they were too slow for a log or took in nothing.", "scope"),
		listeners: made.NewGaugeVec(prometheus.GaugeOpts{
			Name: "listeners", Help: "Requests that follow a job or wait for one.",
		}, []string{"scope"}),
	}
}

// answered counts a request, once it is answered.
func (m *Metrics) answered(r *http.Request, status int) {
	method, path, ok := strings.Cut(r.Pattern, " ")
	if !ok {
		method, path = "any", "none"
	}
	m.requests.WithLabelValues(method, path, strconv.Itoa(status)).Inc()
}

// refused counts a job that was not made, if there was no room for it.
func (m *Metrics) refused(scope string, err error) {
	e, ok := errors.AsType[*Refusal](err)
	switch {
	case !ok:
	case e.Status == http.StatusConflict:
		m.rejected.WithLabelValues(scope, "conflict").Inc()
	case e.Status == http.StatusTooManyRequests:
		m.rejected.WithLabelValues(scope, "rate_limited").Inc()
	}
}
