package control

import (
	"context"
	"io"
	"net/http"
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
	unrouted                             *routeMetrics
}

// NewMetrics returns metrics of q on a registry of their own, beside those of
// the Go runtime, the process and the build, whose version is given.
func NewMetrics(version string, q *queue.Queue) *Metrics {
	r := metrics.NewRegistry(version)
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Namespace: "batchfleet", Subsystem: "gateway", Name: name, Help: help})
		r.MustRegister(c)
		return c
	}
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "batchfleet", Subsystem: "gateway", Name: name, Help: help}, labels)
		r.MustRegister(c)
		return c
	}
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		h := prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: "batchfleet", Subsystem: "gateway", Name: name, Help: help, Buckets: buckets})
		r.MustRegister(h)
		return h
	}
	m := &Metrics{
		Registry:     r,
		submitted:    counter("submitted_total", "Jobs submitted, repeated requests included."),
		leases:       counter("leases_total", "Leases handed out."),
		empty:        counter("lease_polls_empty_total", "Lease requests that got no job."),
		heartbeats:   counter("heartbeats_total", "Leases extended."),
		results:      counter("results_total", "Results recorded."),
		late:         counter("results_late_total", "Results that came after their lease was taken back, and were kept aside."),
		unreplicated: counter("unreplicated_total", "Submissions, results and registrations answered although no replica of Redis had them within a second."),
		failures:     counters("failures_total", "Failures reported, by what became of the job: requeued, dead or canceled.", "fate"),
		expiries:     counters("lease_expiries_total", "Leases taken back by this gateway, by what became of the job: delayed, queued, dead or canceled; orphan is a lease without a job, foreign one with a key of somebody else's.", "fate"),
		denials:      counters("auth_failures_total", "Requests refused for their token, by why.", "reason"),
		runSeconds:   histogram("job_run_seconds", "Time from the last lease of a job to its result.", prometheus.ExponentialBuckets(0.25, 4, 11)),
		waitSeconds:  histogram("job_wait_seconds", "Time from the submission of a job to its last lease.", prometheus.ExponentialBuckets(0.01, 4, 14)),
		requests:     counters("http_requests_total", "Requests answered, by route and class of status; route none is no route of the gateway.", "method", "route", "code"),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "batchfleet", Subsystem: "gateway", Name: "http_request_seconds",
			Help:    "Time to answer a request, by route, without the time a lease request or a heartbeat waits.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 4, 9),
		}, []string{"method", "route"}),
	}
	r.MustRegister(m.seconds, &holdings{queue: q})
	m.unrouted = m.route("any", "none")
	return m
}

// Unreplicated counts a call of [queue.Queue.Alone].
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
		m.Registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: "batchfleet", Subsystem: "gateway", Name: name, Help: help,
		}, func() float64 { return float64(count()) }))
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

// routeMetrics are those of one route, looked up once.
type routeMetrics struct {
	byClass [6]prometheus.Counter // by the status's first digit
	seconds prometheus.Observer
}

func (m *Metrics) route(method, path string) *routeMetrics {
	rm := &routeMetrics{seconds: m.seconds.WithLabelValues(method, path)}
	for i, class := range []string{"other", "1xx", "2xx", "3xx", "4xx", "5xx"} {
		rm.byClass[i] = m.requests.WithLabelValues(method, path, class)
	}
	return rm
}

// exchange is one request and its answer, as the metrics see it.
type exchange struct {
	http.ResponseWriter
	status int
	route  *routeMetrics
	waited time.Duration // for a job, or for one to be canceled

	stopping <-chan struct{} // closed when the server stops
	body     io.ReadCloser
	unread   bool // there is, or may be, more of the request's body
}

// Read reads the request's body.
func (x *exchange) Read(p []byte) (int, error) {
	n, err := x.body.Read(p)
	if err == io.EOF {
		x.unread = false
	}
	return n, err
}

// Close closes the request's body.
func (x *exchange) Close() error { return x.body.Close() }

func (x *exchange) WriteHeader(status int) {
	if x.status == 0 && status >= 200 { // 1xx only announces an answer
		x.status = status
	}
	x.ResponseWriter.WriteHeader(status)
}

// Unwrap is for [http.ResponseController].
func (x *exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }

type exchangeKey struct{}

// exchangeOf returns the exchange of the request whose context this is.
func exchangeOf(ctx context.Context) *exchange { return ctx.Value(exchangeKey{}).(*exchange) }

// routed tells the exchange of each request which route it took.
func (m *Metrics) routed(method, path string, h httpd.Handler) httpd.Handler {
	rm := m.route(method, path)
	return func(w http.ResponseWriter, r *http.Request) error {
		exchangeOf(r.Context()).route = rm
		return h(w, r)
	}
}

// observe counts the requests that h answers.
func (m *Metrics) observe(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x, began := &exchange{ResponseWriter: w, route: m.unrouted, stopping: httpd.Stopping(r.Context())}, time.Now()
		defer func() { // also when the answer is cut off by a panic
			if x.status == 0 {
				x.status = http.StatusOK
			}
			x.route.byClass[x.status/100%6].Inc()
			x.route.seconds.Observe((time.Since(began) - x.waited).Seconds())
		}()
		r = r.WithContext(context.WithValue(r.Context(), exchangeKey{}, x))
		if r.ContentLength != 0 {
			x.body, x.unread, r.Body = r.Body, true, x
		}
		h.ServeHTTP(x, r)
	})
}

// A wait is the time for which a request is held.
type wait struct {
	x     *exchange
	began time.Time
}

// beginWait begins to hold the request with that context.
func beginWait(ctx context.Context) wait { return wait{exchangeOf(ctx), time.Now()} }

// stopping is closed when the server stops.
func (w wait) stopping() <-chan struct{} { return w.x.stopping }

// end ends it: the metrics count it apart from the work.
func (w wait) end() { w.x.waited = time.Since(w.began) }
