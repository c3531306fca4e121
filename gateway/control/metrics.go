package control

import (
	"context"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/metrics"
)

// Metrics are what a gateway counts, and, at each scrape, what the queue holds.
// No label carries a job, a worker or a token. The zero value is not usable; see
// [NewMetrics].
type Metrics struct {
	Registry *prometheus.Registry // serve it at /metrics

	submitted, leases, empty, heartbeats prometheus.Counter
	results, late                        prometheus.Counter
	unreplicated                         prometheus.Counter
	failures, expiries, denials          *prometheus.CounterVec
	runSeconds, waitSeconds              prometheus.Histogram
	requests                             *prometheus.CounterVec
	seconds                              *prometheus.HistogramVec
}

// NewMetrics returns metrics of q on a registry of their own, beside those of
// the Go runtime, the process and the build, whose version is given.
func NewMetrics(version string, q *queue.Queue) *Metrics {
	r := metrics.NewRegistry(version)
	made := metrics.In(r, "batchfleet_gateway_")
	m := &Metrics{
		Registry:     r,
		submitted:    made.Counter("submitted_total", "Jobs submitted, repeated requests included."),
		leases:       made.Counter("leases_total", "Leases handed out."),
		empty:        made.Counter("lease_polls_empty_total", "Lease requests that got no job."),
		heartbeats:   made.Counter("heartbeats_total", "Leases extended."),
		results:      made.Counter("results_total", "Results recorded."),
		late:         made.Counter("results_late_total", "Results that came after their lease was taken back, and were kept aside."),
		unreplicated: made.Counter("unreplicated_total", "Submissions, results and registrations answered although no replica of Redis had them within a second."),
		failures:     made.Counters("failures_total", "Failures reported, by what became of the job: requeued, dead or canceled.", "fate"),
		expiries:     made.Counters("lease_expiries_total", "Leases taken back by this gateway, by what became of the job: delayed, queued, dead or canceled; orphan is a lease without a job, foreign one with a key of somebody else's.", "fate"),
		denials:      made.Counters("auth_failures_total", "Requests that were not let in, by why.", "reason"),
		runSeconds:   made.NewHistogram(prometheus.HistogramOpts{Name: "job_run_seconds", Help: "Time from the last lease of a job to its result.", Buckets: prometheus.ExponentialBuckets(0.25, 4, 11)}),
		waitSeconds:  made.NewHistogram(prometheus.HistogramOpts{Name: "job_wait_seconds", Help: "Time from the submission of a job to its last lease.", Buckets: prometheus.ExponentialBuckets(0.01, 4, 14)}),
		requests:     made.Counters("http_requests_total", "Requests answered, by route and class of status; route none is no route of the gateway.", "method", "route", "code"),
		seconds: made.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "http_request_seconds",
			Help:    "Time to answer a request, by route, without the time a lease request or a heartbeat waits.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 4, 9),
		}, []string{"method", "route"}),
	}
	r.MustRegister(&holdings{queue: q})
	m.routed("any", "none")
	return m
}

// Unreplicated counts a call of [queue.Queue.OnUnreplicated].
func (m *Metrics) Unreplicated() { m.unreplicated.Inc() }

// serve returns the handler of a scrape.
func (m *Metrics) serve() httpd.Handler {
	h := promhttp.HandlerFor(m.Registry, promhttp.HandlerOpts{})
	return func(w http.ResponseWriter, r *http.Request) error {
		h.ServeHTTP(w, r)
		return nil
	}
}

// waiting adds how many requests wait for a job, and how many heartbeats for a
// job to be canceled.
func (m *Metrics) waiting(leases, heartbeats func() int) {
	gauge := func(name, help string, count func() int) {
		metrics.In(m.Registry, "batchfleet_gateway_").NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(count()) })
	}
	gauge("lease_requests_waiting", "Lease requests that wait for a job in this gateway.", leases)
	gauge("heartbeats_waiting", "Heartbeats that wait in this gateway for their job to be canceled.", heartbeats)
}

func (m *Metrics) finished(rec queue.Recorded) {
	m.results.Inc()
	if rec.Took == 0 {
		return // it is not known: the job's status was lost
	}
	m.runSeconds.Observe(rec.Took.Seconds())
	m.waitSeconds.Observe(rec.Waited.Seconds())
}

// resultWord says in a word what has become of a job whose run has failed.
func resultWord(f queue.FailResult) string {
	switch {
	case f.Dead:
		return "dead"
	case f.Requeued:
		return "requeued"
	}
	return "canceled"
}

// routed makes the metrics of a route, so that they are there before its first request.
func (m *Metrics) routed(method, path string) {
	m.seconds.WithLabelValues(method, path)
	for _, class := range classes {
		m.requests.WithLabelValues(method, path, class)
	}
}

// classes of status, by its first digit.
var classes = [...]string{"other", "1xx", "2xx", "3xx", "4xx", "5xx"}

// answered counts a request, once it is answered.
func (m *Metrics) answered(r *http.Request, status int, took time.Duration) {
	method, path, ok := strings.Cut(r.Pattern, " ")
	if !ok {
		method, path = "any", "none"
	}
	m.requests.WithLabelValues(method, path, classes[status/100%6]).Inc()
	m.seconds.WithLabelValues(method, path).Observe((took - exchangeOf(r.Context()).held).Seconds())
}

// exchange is what there is to know of one request and its answer.
type exchange struct {
	io.ReadCloser               // the request's body
	unread        bool          // there is, or may be, more of it
	held          time.Duration // how long the request waited for a job, or for one to be canceled
}

func (x *exchange) Read(p []byte) (int, error) {
	n, err := x.ReadCloser.Read(p)
	if err == io.EOF {
		x.unread = false
	}
	return n, err
}

type exchangeKey struct{}

// exchangeOf returns the exchange of the request whose context this is.
func exchangeOf(ctx context.Context) *exchange { return ctx.Value(exchangeKey{}).(*exchange) }

// exchanges gives each request that h answers an exchange.
func exchanges(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := &exchange{}
		r = r.WithContext(context.WithValue(r.Context(), exchangeKey{}, x))
		if r.ContentLength != 0 {
			x.ReadCloser, x.unread, r.Body = r.Body, true, x
		}
		h.ServeHTTP(w, r)
	})
}

// hold begins to hold the request with that context, until end is called: the metrics
// count that time apart from the work.
func hold(ctx context.Context) (end func()) {
	x, began := exchangeOf(ctx), time.Now()
	return func() { x.held = time.Since(began) }
}
