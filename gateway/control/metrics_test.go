package control_test

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"

	"github.com/batchfleet/batchfleet/gateway/control"
	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/internal/testrun"
)

// metric returns the sum of a metric over its labels, those given having to be
// as given, in pairs; of a histogram how many it has seen.
func (r *rig) metric(name string, labels ...string) float64 {
	r.t.Helper()
	return r.sum(name, labels, func(m *dto.Metric) float64 {
		return m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
	})
}

// seconds returns the sum of what a histogram has seen.
func (r *rig) seconds(name string, labels ...string) float64 {
	r.t.Helper()
	return r.sum(name, labels, func(m *dto.Metric) float64 { return m.GetHistogram().GetSampleSum() })
}

func (r *rig) sum(name string, labels []string, value func(*dto.Metric) float64) float64 {
	r.t.Helper()
	families, err := r.plane.Metrics.Registry.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	sum := 0.0
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && has(m, labels) {
				sum += value(m)
			}
		}
	}
	return sum
}

func has(m *dto.Metric, labels []string) bool {
	for i := 0; i+1 < len(labels); i += 2 {
		found := false
		for _, l := range m.GetLabel() {
			found = found || l.GetName() == labels[i] && l.GetValue() == labels[i+1]
		}
		if !found {
			return false
		}
	}
	return true
}

func (r *rig) scrape() string {
	r.t.Helper()
	w := httptest.NewRecorder()
	promhttp.HandlerFor(r.plane.Metrics.Registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequestWithContext(r.t.Context(), "GET", "/metrics", nil))
	return w.Body.String()
}

func TestZ76MetricsCountWhatHappensAndWhatThereIs(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.plane.Period = time.Hour })
	w := r.worker()
	for range 6 {
		r.submit()
	}
	w.report("result", "x", nil, "X-Lease-Id", "y") // 400
	g := w.lease()
	w.report("result", g.JobID, done(g.LeaseID))
	w.report("result", g.JobID, done(g.LeaseID)) // again
	g = w.lease()
	w.report("failed", g.JobID, broken(g.LeaseID, "QE_RUNTIME_ERROR"))
	g = w.lease()
	w.report("failed", g.JobID, broken(g.LeaseID, "INVALID_INPUT"))
	w.lease()
	r.do("POST", wire.PathLease, nil)
	r.do("POST", wire.PathLease, nil, bearer("unknown")...)
	r.do("GET", "/calc/zpe/compute/jobs/lease", nil)
	r.do("GET", "/nowhere", nil)
	for name, want := range map[string]float64{
		"submitted_total": 6, "leases_total": 4, "results_total": 1, "job_run_seconds": 1, "job_wait_seconds": 1,
		"failures_total": 2, "auth_failures_total": 2,
	} {
		if got := r.metric("batchfleet_gateway_" + name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	for name, want := range map[string]float64{"queue_depth": 2, "active_leases": 1, "delayed_jobs": 1, "dead_letters": 1, "redis_up": 1} {
		// A scrape gives Redis 2 s, which a busy machine may need.
		until(t, fmt.Sprintf("%s is %v", name, want), func() bool { return r.metric("batchfleet_gateway_"+name) == want })
	}
	for _, m := range [][]string{
		{"1", "failures_total", "fate", "dead"},
		{"1", "failures_total", "fate", "requeued"},
		{"1", "auth_failures_total", "reason", "missing"},
		{"1", "auth_failures_total", "reason", "unknown"},
		{"2", "http_requests_total", "route", "none", "code", "4xx"},
		{"4", "http_requests_total", "route", wire.PathLease, "code", "2xx"},
		{"2", "http_requests_total", "route", wire.PathResult, "code", "2xx"},
		{"6", "http_requests_total", "route", wire.PathJobs, "method", "POST", "code", "2xx"},
	} {
		if got := r.metric("batchfleet_gateway_"+m[1], m[2:]...); got != float64(m[0][0]-'0') {
			t.Errorf("%v is %v", m, got)
		}
	}
	r.ahead.Store(int64(11 * time.Minute))
	control.Round(r.plane, t.Context())
	if n := r.metric("batchfleet_gateway_lease_expiries_total", "fate", "delayed"); n != 1 {
		t.Errorf("counted %v leases taken back", n)
	}
	until(t, "a scrape counts again", func() bool {
		return r.metric("batchfleet_gateway_active_leases") == 0 && r.metric("batchfleet_gateway_oldest_queued_seconds") > 600
	})
	families, err := r.plane.Metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	if problems, err := promlint.NewWithMetricFamilies(families).Lint(); err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}
}

func TestZ76HistogramsOfJobsReachAsFarAsJobsTake(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	families, err := r.plane.Metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	reach := map[string]time.Duration{}
	for _, f := range families {
		if b := f.GetMetric()[0].GetHistogram().GetBucket(); len(b) > 0 {
			reach[f.GetName()] = time.Duration(b[len(b)-1].GetUpperBound() * float64(time.Second))
		}
	}
	if got := reach["batchfleet_gateway_job_run_seconds"]; got < r.queue.JobTimeout {
		t.Errorf("run times are told apart up to %s, but a job may run for %s", got, r.queue.JobTimeout)
	}
	if got := reach["batchfleet_gateway_job_wait_seconds"]; got < r.queue.ResultTTL {
		t.Errorf("waiting times are told apart up to %s, but a job may wait for %s", got, r.queue.ResultTTL)
	}
}

func TestZ76ResultOfAJobWhoseStatusWasLostIsTimedByNobody(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	w, g := r.leased()
	id := g.JobID
	r.rdb.Del(t.Context(), "zpe:status:"+id)
	if a := w.report("result", id, done(g.LeaseID)); a.status != 200 {
		t.Fatalf("%+v", a)
	}
	for name, want := range map[string]float64{"results_total": 1, "job_run_seconds": 0, "job_wait_seconds": 0} {
		if got := r.metric("batchfleet_gateway_" + name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
}

func TestZ76ScrapeEndsAndSaysSoWhileRedisIsFrozen(t *testing.T) {
	t.Parallel()
	testrun.Long(t, "it waits for seconds")
	r := newRig(t, nil)
	r.redis.Freeze()
	text := r.scrape()
	if !strings.Contains(text, "batchfleet_gateway_redis_up 0") || strings.Contains(text, "batchfleet_gateway_queue_depth") {
		t.Errorf("scrape: %s", text)
	}
	r.redis.Resume()
	until(t, "redis is up", func() bool { return strings.Contains(r.scrape(), "batchfleet_gateway_queue_depth 0") })
}

func TestZ76MetricsAreServedToTheAdminTokenOnly(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.submit()
	a := r.do("GET", wire.PathMetrics, nil, bearer(adminToken)...)
	if a.status != 200 || !strings.Contains(a.body, "batchfleet_gateway_queue_depth 1") || !strings.HasPrefix(a.header.Get("Content-Type"), "text/plain") {
		t.Errorf("answered %d %v %.200s", a.status, a.header, a.body)
	}
	refused(t, r.do("GET", wire.PathMetrics, nil), 401, wire.Unauthorized)
	refused(t, r.do("GET", wire.PathMetrics, nil, bearer("nobody-s-token-at-all")...), 401, wire.Unauthorized)
	refused(t, r.worker().do("GET", wire.PathMetrics, nil, bearer(r.worker().token)...), 401, wire.Unauthorized)
	refused(t, r.do("POST", wire.PathMetrics, nil, bearer(adminToken)...), 405, wire.MethodNotAllowed)
	closed := newRigOn(t, r.redis, func(r *rig) { r.plane.AdminToken = "" })
	refused(t, closed.do("GET", wire.PathMetrics, nil, bearer(adminToken)...), 503, wire.AdminDisabled)
}

func TestServersAreListedForTheOperators(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	w, admin := r.worker(), bearer(adminToken)
	r.submit()
	w.lease()
	a := decode[wire.ServersResponse](t, r.do("GET", wire.PathServers, nil, admin...))
	if a.Total != 1 || len(a.Servers) != 1 || a.Servers[0].ServerID != w.id || a.Servers[0].Tokens != 1 || a.Servers[0].Leases != 1 || a.Servers[0].RegisteredAt == "" {
		t.Errorf("%+v", a)
	}
	decode[wire.RevokeResponse](t, r.do("DELETE", wire.PathServers+"/"+a.Servers[0].ServerID, nil, admin...))
	if a := r.do("GET", wire.PathServers+"?offset=1&limit=1", nil, admin...); a.body != `{"total":1,"servers":[]}` {
		t.Errorf("beyond the end: %s", a.body)
	}
	refused(t, r.do("GET", wire.PathServers+"?limit=1001", nil, admin...), 400, wire.InvalidPayload)
	refused(t, r.do("GET", wire.PathServers, nil), 401, wire.Unauthorized)
	refused(t, r.do("GET", wire.PathServers, nil, bearer(w.token)...), 401, wire.Unauthorized)
}
