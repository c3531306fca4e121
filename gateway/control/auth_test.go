package control_test

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/httpd"
)

// workerRoutes are all routes of workers, with a job that may be anything.
func workerRoutes(job string) []string {
	at := "/calc/zpe/compute/jobs/" + job
	return []string{wire.PathLease, at + "/heartbeat", at + "/result", at + "/failed"}
}

func TestZ01RequestWithoutGoodTokenIs401(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	w := r.worker()
	job := r.submit()
	unknown := "zpw_" + strings.Repeat("A", 43)
	for name, headers := range map[string][]string{
		"missing":       nil,
		"other scheme":  {"Authorization", "Basic " + w.token},
		"no scheme":     {"Authorization", w.token},
		"empty":         {"Authorization", "Bearer "},
		"bare word":     {"Authorization", "Bearer"},
		"two headers":   {"Authorization", "Bearer " + w.token, "Authorization", "Bearer " + w.token},
		"two tokens":    {"Authorization", "Bearer " + w.token + " " + w.token},
		"list":          {"Authorization", "Bearer " + w.token + ", Bearer x"},
		"unknown":       bearer(unknown),
		"its hash":      bearer(queue.HashToken(w.token)),
		"changed case":  bearer(strings.ToUpper(w.token)),
		"prefix of it":  bearer(w.token[:len(w.token)-1]),
		"longer":        bearer(w.token + "A"),
		"admin's":       bearer(adminToken),
		"very long":     bearer(strings.Repeat("A", 5000)),
		"wildcard":      bearer("*"),
		"with newlines": {"Authorization", "Bearer a\tb"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, path := range workerRoutes(job) {
				for _, body := range []string{`{}`, `{`, ``, `{"lease_id":"x","worker_id":"y"}`} {
					refused(t, r.do("POST", path, body, headers...), 401, wire.Unauthorized)
				}
			}
		})
	}
	for _, scheme := range []string{"bearer", "BEARER", "bEaReR"} {
		if a := r.do("POST", wire.PathLease, nil, "Authorization", scheme+" "+w.token); a.status >= 400 {
			t.Errorf("scheme %s: %d %s", scheme, a.status, a.body)
		}
	}
}

func TestZ02RevokedTokenIs403OnEveryRouteOfWorkers(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	w := r.worker()
	job := r.submit()
	r.do("DELETE", "/calc/zpe/compute/servers/"+w.id, nil, bearer(adminToken)...)
	check := func() {
		t.Helper()
		for _, path := range append(workerRoutes(job), wire.PathRegister, workerRoutes("nosuchjob")[1]) {
			for _, body := range []string{`{}`, `{`, `{"token":"` + r.enroll() + `"}`} {
				refused(t, w.post(path, body), 403, wire.TokenRevoked)
			}
		}
	}
	check()
	r.ahead.Store(int64(8 * 24 * time.Hour)) // expired, too
	check()
}

func TestZ05ExistenceIsJudgedAfterTheToken(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	w := r.worker()
	for _, job := range []string{"01J00000000000000000000000", "index", "x:y", "..x", "%00", "é", strings.Repeat("a", 4000), "*"} {
		for _, path := range workerRoutes(job)[1:] {
			body := done("lease")
			body["error_code"], body["error_message"] = "X", "y"
			a := r.do("POST", path, body)
			if a.status != 404 || !strings.Contains(a.body, "NOT_FOUND") { // not the path of a route
				refused(t, a, 401, wire.Unauthorized)
			}
			if a := w.post(path, body); a.status != 404 {
				t.Errorf("%.80s answered %d %s, want 404", path, a.status, a.body)
			}
		}
		if a := r.do("GET", "/calc/zpe/jobs/"+job, nil); a.status != 404 {
			t.Errorf("job %.80s answered %d %s, want 404", job, a.status, a.body)
		}
	}
	refused(t, w.report("heartbeat", "01J00000000000000000000000", map[string]any{"lease_id": "x"}), 404, wire.JobNotFound)
	refused(t, r.do("DELETE", "/calc/zpe/compute/servers/w-none", nil, bearer(adminToken)...), 404, wire.WorkerNotFound)
	refused(t, r.do("DELETE", "/calc/zpe/compute/servers/w:none", nil, bearer(adminToken)...), 404, wire.WorkerNotFound)
}

func adminRoutes() [][2]string {
	return [][2]string{
		{"POST", wire.PathEnrollTokens},
		{"DELETE", "/calc/zpe/compute/servers/w"},
		{"GET", wire.PathDLQ},
		{"GET", wire.PathDLQ + "/x"},
		{"DELETE", wire.PathDLQ + "/x"},
		{"POST", wire.PathDLQ + "/x/requeue"},
		{"GET", "/calc/zpe/admin/jobs/x/late"},
		{"POST", "/calc/zpe/admin/jobs/x/late/accept"},
		{"GET", wire.PathOps},
		{"PUT", wire.PathOps},
	}
}

func TestZ08OperatorsRoutesNeedTheAdminTokenAndAreShutWithoutOne(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	w := r.worker()
	for _, route := range adminRoutes() {
		for _, headers := range [][]string{nil, bearer(w.token), bearer(adminToken + "x"), bearer(adminToken[1:]), {"Authorization", "Basic " + adminToken}} {
			refused(t, r.do(route[0], route[1], nil, headers...), 401, wire.Unauthorized)
		}
	}
	shut := newRigOn(t, r.redis, func(r *rig) { r.plane.AdminToken = "" })
	for _, route := range adminRoutes() {
		for _, headers := range [][]string{nil, bearer(adminToken), {"Authorization", "Bearer "}, {"Authorization", "Bearer"}} {
			refused(t, shut.do(route[0], route[1], nil, headers...), 503, wire.AdminDisabled)
		}
	}
}

func TestClientTokenGuardsSubmitReadAndCancel(t *testing.T) {
	t.Parallel()
	const clientToken = "client-canary-11"
	r := newRig(t, func(r *rig) { r.plane.ClientToken = clientToken })
	w := r.worker()
	for _, route := range clientRoutes("x") {
		for _, headers := range [][]string{nil, bearer(w.token), bearer("x")} {
			refused(t, r.do(route[0], route[1], `{}`, headers...), 401, wire.Unauthorized)
		}
		for _, token := range []string{clientToken, adminToken} {
			if a := r.do(route[0], route[1], `{}`, bearer(token)...); a.status == 401 {
				t.Errorf("%s %s with a good token: %d", route[0], route[1], a.status)
			}
		}
	}
	// Without an admin token an empty one must not open anything.
	r = newRigOn(t, r.redis, func(r *rig) { r.plane.AdminToken, r.plane.ClientToken = "", clientToken })
	refused(t, r.do("POST", wire.PathJobs, `{}`, "Authorization", "Bearer "), 401, wire.Unauthorized)
}

// clientRoutes are all routes of those who submit, read and cancel jobs.
func clientRoutes(job string) [][2]string {
	at := "/calc/zpe/jobs/" + job
	return [][2]string{
		{"POST", wire.PathJobs},
		{"GET", at},
		{"GET", at + "/result"},
		{"GET", at + "/files"},
		{"POST", at + "/cancel"},
	}
}

// TestZ09WithoutAClientTokenJobsAreForTheMachineAlone asks a gateway on loopback as
// programs, web pages and proxies do.
func TestZ09WithoutAClientTokenJobsAreForTheMachineAlone(t *testing.T) {
	t.Parallel()
	const clientToken = "client-canary-11"
	closed := newRig(t, nil)
	open := newRigOn(t, closed.redis, func(r *rig) { r.plane.OpenSubmission = true })
	locked := newRigOn(t, closed.redis, func(r *rig) { r.plane.ClientToken = clientToken })
	job := closed.submit()
	for _, tt := range []struct {
		name         string
		header       []string
		closed, open string // why it is refused, empty when it is not
	}{
		{"a program", nil, "", ""},
		{"by name", []string{"Host", "localhost:8080"}, "", ""},
		{"by IPv6 address", []string{"Host", "[::1]:8080"}, "", ""},
		{"a token of others", bearer("x"), "", ""},
		{"another name for loopback", []string{"Host", "evil.example"}, "host", ""},
		{"a proxy", []string{"X-Forwarded-For", "203.0.113.9"}, "proxy", ""},
		{"a proxy that ends TLS", []string{"X-Forwarded-Proto", "https"}, "proxy", ""},
		{"another site's page", []string{"Origin", "https://evil.example"}, "cross_site", "cross_site"},
		{"another site's page in a new browser", []string{"Sec-Fetch-Site", "cross-site"}, "cross_site", "cross_site"},
		{"another site's form", []string{"Origin", "null", "Content-Type", "text/plain"}, "cross_site", "cross_site"},
		{"a rebound page", []string{"Host", "evil.example", "Origin", "http://evil.example", "Sec-Fetch-Site", "same-origin"}, "host", ""},
		{"an operator behind a proxy", append(bearer(adminToken), "X-Forwarded-For", "203.0.113.9"), "", ""},
	} {
		for _, route := range clientRoutes(job) {
			for _, g := range []struct {
				*rig
				why string
			}{{closed, tt.closed}, {open, tt.open}} {
				a := g.do(route[0], route[1], `{"x":1}`, tt.header...)
				if g.why == "" {
					if a.status == 401 || a.status == 403 {
						t.Errorf("%s: %s %s: %d %s", tt.name, route[0], route[1], a.status, a.body)
					}
					continue
				}
				why := strings.TrimPrefix(httpd.OriginError(g.why).Error(), "it ")
				if msg := refused(t, a, 403, wire.Forbidden); !strings.Contains(msg, "--client-token-file") || !strings.Contains(msg, why) {
					t.Errorf("%s: %s %s does not say why and what to do: %s", tt.name, route[0], route[1], msg)
				}
			}
			good := append(slices.Clone(tt.header), bearer(clientToken)...)
			if a := locked.do(route[0], route[1], `{"x":1}`, good...); len(tt.header) > 0 && tt.header[0] != "Authorization" && (a.status == 401 || a.status == 403) {
				t.Errorf("%s with the client token: %s %s: %d %s", tt.name, route[0], route[1], a.status, a.body)
			}
		}
	}
	for g, reason := range map[*rig]string{closed: "host", open: "cross_site"} { // the first; the log is throttled
		if !strings.Contains(g.log.String(), `"msg":"request denied","reason":"`+reason+`"`) {
			t.Errorf("the log does not say %q:\n%.1000s", reason, g.log)
		}
	}
	// Those with tokens of their own are not concerned.
	if a := closed.worker().post(wire.PathLease, nil, "Host", "gateway.example", "X-Forwarded-Proto", "https"); a.status >= 400 {
		t.Errorf("a worker through a proxy: %d %s", a.status, a.body)
	}
}

func TestZ09RequestIDsComeBackAndNothingIsCached(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.submit()
	w := r.worker()
	for _, a := range []answer{
		w.post(wire.PathLease, nil, "X-Request-Id", "my-id.1"),
		r.do("POST", wire.PathEnrollTokens, nil, append(bearer(adminToken), "X-Request-Id", "my-id.1")...),
		r.do("GET", "/nowhere", nil, "X-Request-Id", "my-id.1"),
	} {
		if a.header.Get("X-Request-Id") != "my-id.1" || a.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%d answered with header %v", a.status, a.header)
		}
	}
	if a := r.do("GET", "/nowhere", nil, "X-Request-Id", "a b\"c"); a.header.Get("X-Request-Id") == "a b\"c" || a.header.Get("X-Request-Id") == "" {
		t.Errorf("an odd id came back as %q", a.header.Get("X-Request-Id"))
	}
}

func TestZ09PlainHTTPFromAfarIsRefusedBeforeAnythingElse(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.plane.Admit = httpd.SecureOnly(nil) })
	w := r.worker() // loopback
	for _, path := range []string{wire.PathLease, wire.PathJobs, "/nowhere"} {
		refused(t, w.post(path, `{}`, "X-Forwarded-Proto", "http"), 403, wire.InsecureTransport)
	}
	if a := w.post(wire.PathLease, nil, "X-Forwarded-Proto", "https"); a.status != 204 {
		t.Errorf("through a proxy with TLS: %d %s", a.status, a.body)
	}
}

func TestZ30EnrollTokensHaveALifeAndALabel(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	ask := func(body any) answer { return r.do("POST", wire.PathEnrollTokens, body, bearer(adminToken)...) }
	a := decode[wire.EnrollResponse](t, ask(nil))
	if a.TTLSeconds != 3600 || a.Token == "" {
		t.Errorf("as a rule: %+v", a)
	}
	expires, err := time.Parse(time.RFC3339Nano, a.ExpiresAt)
	if left := time.Until(expires); err != nil || left < 59*time.Minute || left > time.Hour {
		t.Errorf("expires at %s (%v)", a.ExpiresAt, err)
	}
	if a := decode[wire.EnrollResponse](t, ask(`{"ttl_seconds":60,"label":"ラボ"}`)); a.TTLSeconds != 60 || a.Label != "ラボ" {
		t.Errorf("as asked: %+v", a)
	}
	for _, bad := range []string{
		`{"ttl_seconds":0}`, `{"ttl_seconds":-1}`, `{"ttl_seconds":1e99}`, `{"ttl_seconds":99999999999}`, `{"ttl_seconds":"60"}`, `{"ttl_seconds":1.5}`,
		`{"label":"` + strings.Repeat("x", 201) + `"}`, `{"label":"a\u0000b"}`, `{"label":1}`, `{"TTL_SECONDS":60}`, `{"unknown":1}`, `[]`, `{"label":"a","label":"b"}`,
	} {
		refused(t, ask(bad), 400, wire.InvalidPayload)
	}
}

func TestZ31RegisterAnswersBothNamesAndRefusesBadEnrollTokens(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	enroll := r.enroll()
	a := r.do("POST", wire.PathRegister, map[string]any{"token": enroll, "name": "lab-1", "queue_name": "zpe", "meta": map[string]any{"os": "linux"}, "later": 1})
	reg := decode[wire.RegisterResponse](t, a)
	if reg.ServerID == "" || reg.ServerID != reg.WorkerID || reg.Name != "lab-1" || !strings.HasPrefix(reg.WorkerToken, "zpw_") || reg.TokenTTLSeconds != 604800 {
		t.Errorf("registered as %+v", reg)
	}
	for _, at := range []string{reg.RegisteredAt, reg.TokenExpiresAt} {
		if _, err := time.Parse(time.RFC3339Nano, at); err != nil {
			t.Error(err)
		}
	}
	refused(t, r.do("POST", wire.PathRegister, wire.RegisterRequest{Token: enroll}), 401, wire.InvalidEnrollToken) // used
	refused(t, r.do("POST", wire.PathRegister, wire.RegisterRequest{Token: "zpe_x"}), 401, wire.InvalidEnrollToken)
	for _, body := range []any{nil, `{}`, `{"token":null}`, `{"token":""}`} {
		if m := refused(t, r.do("POST", wire.PathRegister, body), 400, wire.InvalidPayload); m != "Missing required field: token" {
			t.Errorf("without a token: %q", m)
		}
	}
	old := r.enroll()
	for _, field := range []string{`"name":"` + strings.Repeat("n", 201) + `"`, `"queue_name":"a\n"`, `"name":"\u001b[2J"`, `"name":"lab\u202e1"`, `"name":"\u009b"`, `"meta":[]`, `"meta":"x"`, `"meta":{"x":"` + strings.Repeat("m", 16<<10) + `"}`} {
		refused(t, r.do("POST", wire.PathRegister, `{"token":"`+old+`",`+field+`}`), 400, wire.InvalidPayload)
	}
	r.ahead.Store(int64(2 * time.Hour))
	refused(t, r.do("POST", wire.PathRegister, wire.RegisterRequest{Token: old}), 401, wire.InvalidEnrollToken) // expired
}

func TestZ32EnrollTokenRegistersOneOf50(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	token := r.enroll()
	var won atomic.Int32
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			a, err := r.try(t.Context(), "POST", wire.PathRegister, wire.RegisterRequest{Token: token})
			switch {
			case err != nil:
				t.Error(err)
			case a.status == 200:
				won.Add(1)
			default:
				refused(t, a, 401, wire.InvalidEnrollToken)
			}
		})
	}
	all.Wait()
	if won.Load() != 1 {
		t.Errorf("%d of 50 registered with one token", won.Load())
	}
}

func TestZ34TokenIsGoodForSevenDays(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	w := r.worker()
	r.ahead.Store(int64(7*24*time.Hour - time.Minute))
	if a := w.post(wire.PathLease, nil); a.status != 204 {
		t.Errorf("a minute before its end: %d %s", a.status, a.body)
	}
	r.ahead.Store(int64(7*24*time.Hour + time.Second))
	for _, path := range append(workerRoutes("x"), wire.PathRegister) {
		refused(t, w.post(path, nil), 401, wire.TokenExpired)
	}
}

func TestZ35TokenSpeaksForItsWorkerOnly(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	w, other := r.worker(), r.worker()
	id := r.submit()
	for _, path := range []string{wire.PathLease} {
		refused(t, w.post(path, map[string]any{"worker_id": other.id}), 403, wire.WorkerMismatch)
		refused(t, w.post(path+"?worker_id="+other.id, nil), 403, wire.WorkerMismatch)
		refused(t, w.post(path+"?worker_id="+other.id, map[string]any{"worker_id": w.id}), 403, wire.WorkerMismatch)
		refused(t, w.post(path+"?worker_id="+w.id+"&worker_id="+other.id, nil), 403, wire.WorkerMismatch)
	}
	if j := r.job(id); j.Status != "queued" {
		t.Errorf("a job was handed out: %+v", j)
	}
	a := w.post(wire.PathLease+"?worker_id="+w.id, map[string]any{"worker_id": w.id})
	g := decode[wire.LeaseResponse](t, a)
	for what, body := range map[string]map[string]any{"heartbeat": {"lease_id": g.LeaseID}, "result": done(g.LeaseID), "failed": broken(g.LeaseID, "X")} {
		body["worker_id"] = other.id
		refused(t, w.report(what, id, body), 403, wire.WorkerMismatch)
	}
	if j := r.job(id); j.Status != "started" || j.WorkerID != w.id {
		t.Errorf("after forged reports: %+v", j)
	}
}

func TestZ36RotationKeepsTheWorkerItsLeaseAndForAWhileItsOldToken(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	w, g := r.leased()
	id := g.JobID
	reg := decode[wire.RegisterResponse](t, w.post(wire.PathRegister, nil))
	if reg.WorkerID != w.id || reg.WorkerToken == w.token {
		t.Fatalf("rotated to %+v", reg)
	}
	renewed := worker{r, w.id, reg.WorkerToken}
	beat := map[string]any{"lease_id": g.LeaseID}
	for _, who := range []worker{w, renewed} {
		decode[wire.HeartbeatResponse](t, who.report("heartbeat", id, beat))
	}
	r.ahead.Store(int64(10*time.Minute + time.Second))
	refused(t, w.report("heartbeat", id, beat), 401, wire.TokenExpired)
	decode[wire.HeartbeatResponse](t, renewed.report("heartbeat", id, beat))
	refused(t, r.do("POST", wire.PathRegister, wire.RegisterRequest{Token: r.enroll()}, bearer("zpw_unknown")...), 401, wire.Unauthorized)
	refused(t, renewed.post(wire.PathRegister, wire.RegisterRequest{Token: "zpe_bad"}), 401, wire.InvalidEnrollToken)
}

func TestZ37Z38RevokeEndsAllTokensAndTheLeases(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.plane.Period = 50 * time.Millisecond })
	w, other := r.worker(), r.worker()
	second := decode[wire.RegisterResponse](t, w.post(wire.PathRegister, nil)).WorkerToken
	id := r.submit()
	g := w.lease()
	path := "/calc/zpe/compute/servers/" + w.id
	if n := decode[wire.RevokeResponse](t, r.do("DELETE", path, nil, bearer(adminToken)...)); n.RevokedCount != 2 {
		t.Errorf("revoked %d tokens, want 2", n.RevokedCount)
	}
	if n := decode[wire.RevokeResponse](t, r.do("DELETE", path, nil, bearer(adminToken)...)); n.RevokedCount != 0 {
		t.Errorf("revoked %d tokens the second time", n.RevokedCount)
	}
	for _, token := range []string{w.token, second} {
		refused(t, worker{r, w.id, token}.report("heartbeat", id, map[string]any{"lease_id": g.LeaseID}), 403, wire.TokenRevoked)
		refused(t, worker{r, w.id, token}.report("result", id, done(g.LeaseID)), 403, wire.TokenRevoked)
	}
	until(t, "the reaper takes back the lease", func() bool { return r.job(id).Status == "queued" })
	if j := r.job(id); j.ErrorCode != "WORKER_REVOKED" || j.Detail != "worker "+w.id+" was revoked" || j.RetryCount != 0 {
		t.Errorf("job: %+v", j)
	}
	if g := other.lease(); g.JobID != id {
		t.Errorf("another worker: %+v", g)
	}
	if !strings.Contains(r.log.String(), `"worker revoked"`) {
		t.Error("the log says nothing of the revocation")
	}
}

func TestDeniedRequestsAreLoggedWithReasonAndRemoteAndBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	secret := "zpw_canary_of_a_stranger"
	began := time.Now()
	for range 200 {
		r.do("POST", wire.PathLease, nil, bearer(secret)...)
	}
	took := time.Since(began)
	most := 10 * (int(took/time.Second) + 2) // ten in each second of the clock
	lines := strings.Count(r.log.String(), `"token refused"`)
	if lines == 0 || lines > most {
		t.Errorf("200 refusals in %s made %d lines, want at most %d", took, lines, most)
	}
	log := r.log.String()
	if !strings.Contains(log, `"reason":"unknown"`) || !strings.Contains(log, `"remote":"127.0.0.1:`) || !strings.Contains(log, `"route":"POST /calc/zpe/compute/jobs/lease"`) {
		t.Errorf("log: %.500s", log)
	}
	if strings.Contains(log, secret) || strings.Contains(log, queue.HashToken(secret)) {
		t.Error("the log holds the token or its hash")
	}
}
