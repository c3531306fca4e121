package cli

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/cli/openapi"
	"github.com/batchfleet/batchfleet/gateway/control"
	"github.com/batchfleet/batchfleet/gateway/provider"
	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/grid/leader"
	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
)

// TestOpenAPIHasEveryRoute compares what is described with what is registered.
func TestOpenAPIHasEveryRoute(t *testing.T) {
	var registered []string
	add := func(routes []string) {
		for _, r := range routes {
			if !strings.HasSuffix(r, " /api/v1/fleet/jobs") { // which is described by itself
				r = inScope.ReplaceAllString(r, "/api/v1/{scope}/$2")
			}
			if !slices.Contains(registered, r) {
				registered = append(registered, r)
			}
		}
	}
	add((&control.Control{Metrics: control.NewMetrics("test", &queue.Queue{})}).Routes())
	add([]string{"GET /healthz", "GET /readyz"})
	api := openJobServer(t.Context(), jobServerConfig{zpe: &provider.ZPE{}, redis: redis.NewClient(&redis.Options{}), guard: jobapi.Closed, metrics: prometheus.NewRegistry(), log: slog.New(slog.DiscardHandler)})
	add(api.Routes())
	add(gridRoutes(t))
	slices.Sort(registered)
	if d := cmp.Diff(newContract(t, openapi.JSON()).operations(), registered); d != "" {
		t.Errorf("described (-) and registered (+):\n%s", d)
	}
}

// gridRoutes are those of a leader.
func gridRoutes(t *testing.T) []string {
	t.Helper()
	web, err := (&gridLeaderFlags{http: "127.0.0.1:0", webChosen: true}).openWeb(t.Context(), &leader.Leader{}, prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	_ = web.listener.Close() // nothing comes to it
	return web.api.Routes()
}

// inScope are the paths that are described once for all scopes.
var inScope = regexp.MustCompile(`/api/v1/(system|utils|fleet|zpe|gateway|grid)/(jobs|kinds|paused|workers|inputs|report)`)

// asker asks a real gateway and holds what it answers against the document.
type asker struct {
	*testGateway
	contract *contract
	url      string
}

// ask makes a call that must have this status, and returns its answer.
func (a *asker) ask(status int, method, uri, token string, body any, headers ...string) reply {
	a.t.Helper()
	r, err := a.request(method, a.url+uri, token, body, headers...)
	if err != nil {
		a.t.Fatal(err)
	}
	if r.status != status {
		a.t.Errorf("%s %s: answered %d %s, want %d", method, uri, r.status, r.body, status)
	}
	text := ""
	if body != nil {
		text = jsonText(a.t, body)
	}
	a.contract.check(method, uri, text, r)
	return r
}

// TestOpenAPIIsTrue calls every operation of a real gateway, so that each success
// that is described is really seen, and errors as far as they can be provoked.
func TestOpenAPIIsTrue(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t)
	g := &testGateway{t: t, redis: f.redis, rdb: f.rdb, queue: queue.New(f.rdb, queue.DefaultRules), dir: t.TempDir()}
	admin, tokens := g.write("admin.token", testAdmin+"\n"), filepath.Join(g.dir, "tokens")
	_, reader, _ := g.runCommand(nil, "token", "new", "--file", tokens, "--name", "reader", "--scope", "read")
	kindsFile := g.write("kinds.toml", "[thumbnail]\ncommand = [\"thumbnail\", \"{params.dpi}\"]\n[thumbnail.params.dpi]\ntype = \"integer\"\nmin = 10\nmax = 600\n")
	addr, second := freeAddr(t), freeAddr(t)
	env := f.environment("KINDS_FILE="+kindsFile, "DEAD_LETTER_TOPIC=dead", "JOB_API_MAX_RUNNING_UTILS=1", "REAP_INTERVAL=1s", "LEASE_SKEW=500ms", "MAX_LEASES_PER_WORKER=1")
	g.startProcess(env, "gateway", "--addr", addr, "--admin-token-file", admin, "--job-tokens-file", tokens)
	g.startProcess(env, "gateway", "--addr", second, "--admin-token-file", admin, "--read-only")
	for _, at := range []string{addr, second} {
		g.untilReadyz(at, http.StatusOK)
	}
	a := &asker{g, newContract(t, openapi.JSON()), "http://" + addr}
	a.askServer()
	a.askClients()
	a.askWorkers()
	a.askOperators()
	a.askOperations(f, strings.TrimSpace(reader))
	a.askFleetJobs(f, strings.TrimSpace(reader))
	a.askAbilities(strings.TrimSpace(reader))
	a.askSchedules(strings.TrimSpace(reader))
	readOnly := *a
	readOnly.url = "http://" + second
	readOnly.ask(200, "GET", "/api/v1/system/jobs", testAdmin, nil)
	readOnly.ask(403, "POST", "/api/v1/system/start", testAdmin, nil)
	a.askWithoutRedis()
	ofLeaders := func(operation string) bool {
		return strings.Contains(operation, gridDeadPath) || strings.Contains(operation, "/report ")
	} // TestG42 asks for them
	if left := slices.DeleteFunc(a.contract.unseen(), ofLeaders); len(left) > 0 {
		t.Errorf("described, but never answered:\n%s", strings.Join(left, "\n"))
	}
}

func (a *asker) askServer() {
	a.ask(200, "GET", "/healthz", "", nil)
	a.ask(200, "GET", "/readyz", "", nil)
	a.ask(200, "GET", "/metrics", testAdmin, nil)
	a.ask(401, "GET", "/metrics", "", nil)
	for _, path := range []string{"/calc/zpe/nothing", "/calc/zpe/jobs/"} {
		r, err := a.request("GET", a.url+path, "", nil)
		if err != nil || r.status != 404 {
			a.t.Errorf("GET %s: %d %v", path, r.status, err)
		}
		a.contract.checkPlain("NoRoute", r)
	}
	r, err := a.request("PATCH", a.url+wire.PathJobs, "", nil)
	if err != nil || r.status != 405 {
		a.t.Errorf("PATCH: %d %v", r.status, err)
	}
	a.contract.checkPlain("MethodNotAllowed", r)
}

func (a *asker) askClients() {
	paths := wire.PathJobs
	id := jobOf(a.ask(200, "POST", paths, "", h2Payload, "Idempotency-Key", "once"))
	a.ask(400, "POST", paths, "", `{"structure":7}`)
	a.ask(400, "POST", paths, "", `[]`)
	a.ask(415, "POST", paths, "", h2Payload, "Content-Encoding", "gzip")
	a.ask(413, "POST", paths, "", `{"x":"`+strings.Repeat("x", wire.MaxPayload)+`"}`)
	a.ask(422, "POST", paths, "", strings.Replace(h2Payload, "6.5", "7.5", 1), "Idempotency-Key", "once")
	a.ask(403, "POST", paths, "", h2Payload, "X-Forwarded-Proto", "http")
	a.ask(200, "GET", paths+"/"+id, "", nil)
	a.ask(404, "GET", paths+"/nobody", "", nil)
	a.ask(409, "GET", paths+"/"+id+"/result", "", nil)
	a.ask(404, "GET", paths+"/nobody/result", "", nil)
	a.ask(409, "GET", paths+"/"+id+"/files?kind=summary", "", nil)
	a.ask(400, "GET", paths+"/"+id+"/files?kind=all", "", nil)
	a.ask(200, "POST", paths+"/"+id+"/cancel", "", `{}`)
	a.ask(200, "POST", paths+"/"+id+"/cancel", "", nil)
	a.ask(400, "POST", paths+"/"+id+"/cancel", "", `{"x":1}`)
	a.ask(404, "POST", paths+"/nobody/cancel", "", nil)
}

func jobOf(r reply) string {
	var v struct {
		GatewayID string `json:"job_id"`
		ID        string `json:"jobId"`
	}
	readJSON(r, &v)
	return v.GatewayID + v.ID
}

func (a *asker) askWorkers() {
	var enroll wire.EnrollResponse
	readJSON(a.ask(200, "POST", wire.PathEnrollTokens, testAdmin, map[string]any{"label": "lab", "ttl_seconds": 60}), &enroll)
	a.ask(200, "POST", wire.PathEnrollTokens, testAdmin, nil)
	a.ask(400, "POST", wire.PathEnrollTokens, testAdmin, `{"ttl_seconds":0}`)
	a.ask(401, "POST", wire.PathEnrollTokens, "nobody", nil)
	var worker wire.RegisterResponse
	readJSON(a.ask(200, "POST", wire.PathRegister, "", map[string]any{"token": enroll.Token, "name": "lab-1", "meta": map[string]any{"gpu": 1}}), &worker)
	a.ask(401, "POST", wire.PathRegister, "", map[string]any{"token": enroll.Token})
	a.ask(400, "POST", wire.PathRegister, "", `{}`)
	token := worker.WorkerToken

	a.ask(204, "POST", wire.PathLease, token, nil)
	a.ask(401, "POST", wire.PathLease, "nobody", nil)
	a.ask(400, "POST", wire.PathLease, token, `{"wait_seconds":31}`)
	a.ask(403, "POST", wire.PathLease+"?worker_id=another", token, nil)
	lease := func() wire.LeaseResponse {
		jobOf(a.ask(200, "POST", wire.PathJobs, "", h2Payload))
		var l wire.LeaseResponse
		readJSON(a.ask(200, "POST", wire.PathLease, token, map[string]any{"features": []string{"renew", "cancel"}, "wait_seconds": 1, "request_id": "r" + fmt.Sprint(time.Now().UnixNano())}), &l)
		return l
	}
	on := func(path, id string) string { return strings.Replace(path, "{id}", id, 1) }

	l := lease()
	a.ask(429, "POST", wire.PathLease, token, nil)
	beat := map[string]any{"lease_id": l.LeaseID, "progress": map[string]any{"done": 1, "total": 7}, "message": "step 1"}
	a.ask(200, "POST", on(wire.PathHeartbeat, l.JobID), token, beat)
	beat["wait_seconds"] = 0.1
	a.ask(200, "POST", on(wire.PathHeartbeat, l.JobID), token, beat)
	beat["wait_seconds"] = 31
	a.ask(400, "POST", on(wire.PathHeartbeat, l.JobID), token, beat)
	delete(beat, "wait_seconds")
	a.ask(200, "GET", wire.PathJobs+"/"+l.JobID, "", nil)
	a.ask(409, "POST", on(wire.PathHeartbeat, l.JobID), token, map[string]any{"lease_id": "other"})
	a.ask(404, "POST", on(wire.PathHeartbeat, "nobody"), token, beat)
	a.ask(400, "POST", on(wire.PathHeartbeat, l.JobID), token, `{"progress":{"done":-1,"total":0},"lease_id":"x"}`)
	a.ask(401, "POST", on(wire.PathHeartbeat, l.JobID), "nobody", beat)
	result := map[string]any{"lease_id": l.LeaseID, "result": map[string]any{"zpe_ev": 0.26}, "summary_text": "ZPE", "freqs_csv": "mode,cm-1\n", "meta": map[string]any{"qe_version": "7.2"}}
	a.ask(400, "POST", on(wire.PathResult, l.JobID), token, map[string]any{"lease_id": l.LeaseID})
	a.ask(200, "POST", on(wire.PathResult, l.JobID), token, result)
	a.ask(200, "POST", on(wire.PathResult, l.JobID), token, result)
	result["summary_text"] = "other"
	a.ask(409, "POST", on(wire.PathResult, l.JobID), token, result)
	a.ask(404, "POST", on(wire.PathResult, "nobody"), token, result)
	a.ask(200, "GET", wire.PathJobs+"/"+l.JobID+"/result", "", nil)
	a.ask(200, "GET", wire.PathJobs+"/"+l.JobID+"/files?kind=summary", "", nil)
	a.ask(200, "GET", wire.PathJobs+"/"+l.JobID+"/files?kind=freqs", "", nil)
	a.ask(409, "POST", wire.PathJobs+"/"+l.JobID+"/cancel", "", nil)

	l = lease()
	failure := map[string]any{"lease_id": l.LeaseID, "error_code": "QE_INPUT_ERROR", "error_message": "no such atom", "traceback": "line 1"}
	a.ask(200, "POST", on(wire.PathFailed, l.JobID), token, failure)
	failure["error_message"] = "other"
	a.ask(409, "POST", on(wire.PathFailed, l.JobID), token, failure)
	a.ask(404, "POST", on(wire.PathFailed, "nobody"), token, failure)
	a.ask(400, "POST", on(wire.PathFailed, l.JobID), token, `{"lease_id":"x"}`)
	a.ask(413, "POST", on(wire.PathFailed, l.JobID), token, map[string]any{"traceback": strings.Repeat("x", wire.MaxFailedBody)})

	a.askBatches(token)

	// A late result: its lease was taken back.
	l = lease()
	a.endLease(l.JobID)
	until(a.t, time.Minute, "the lease is taken back", func() bool { return a.job(a.url, l.JobID).Status == "queued" })
	result["lease_id"] = l.LeaseID
	a.ask(409, "POST", on(wire.PathResult, l.JobID), token, result)
	a.ask(200, "GET", on(wire.PathLate, l.JobID), testAdmin, nil)
	a.ask(404, "GET", on(wire.PathLate, "nobody"), testAdmin, nil)
	a.ask(200, "POST", on(wire.PathLateAccept, l.JobID), testAdmin, nil)
	a.ask(404, "POST", on(wire.PathLateAccept, "nobody"), testAdmin, nil)

	a.ask(200, "GET", wire.PathServers+"?limit=5&offset=0", testAdmin, nil)
	a.ask(400, "GET", wire.PathServers+"?limit=0", testAdmin, nil)
	a.ask(401, "GET", wire.PathServers, "", nil)
	a.ask(200, "DELETE", strings.Replace(wire.PathServer, "{worker}", worker.WorkerID, 1), testAdmin, nil)
	a.ask(404, "DELETE", strings.Replace(wire.PathServer, "{worker}", "nobody", 1), testAdmin, nil)
	a.ask(403, "POST", wire.PathLease, token, nil)
}

func (a *asker) askOperators() {
	on := func(path, id string) string { return strings.Replace(path, "{id}", id, 1) }
	var dead wire.DLQResponse
	readJSON(a.ask(200, "GET", wire.PathDLQ+"?limit=10", testAdmin, nil), &dead)
	a.ask(400, "GET", wire.PathDLQ+"?offset=-1", testAdmin, nil)
	if len(dead.Jobs) != 1 {
		a.t.Fatalf("dead letters: %+v", dead)
	}
	id := dead.Jobs[0].JobID
	a.ask(200, "GET", on(wire.PathDLQJob, id), testAdmin, nil)
	a.ask(404, "GET", on(wire.PathDLQJob, "nobody"), testAdmin, nil)
	a.ask(200, "POST", on(wire.PathDLQRequeue, id), testAdmin, nil)
	a.ask(404, "POST", on(wire.PathDLQRequeue, id), testAdmin, nil)
	a.ask(404, "DELETE", on(wire.PathDLQJob, id), testAdmin, nil)

	a.ask(200, "GET", wire.PathOps, testAdmin, nil)
	a.ask(200, "PUT", wire.PathOps, testAdmin, `{"submission_enabled":false}`)
	a.ask(503, "POST", wire.PathJobs, "", h2Payload)
	a.ask(200, "PUT", wire.PathOps, testAdmin, `{"submission_enabled":true}`)
	a.ask(400, "PUT", wire.PathOps, testAdmin, `{"other":true}`)
	a.ask(401, "PUT", wire.PathOps, "", `{}`)

	// The requeued job fails again, and goes.
	var enroll wire.EnrollResponse
	readJSON(a.ask(200, "POST", wire.PathEnrollTokens, testAdmin, nil), &enroll)
	var worker wire.RegisterResponse
	readJSON(a.ask(200, "POST", wire.PathRegister, "", map[string]any{"token": enroll.Token}), &worker)
	var l wire.LeaseResponse
	readJSON(a.ask(200, "POST", wire.PathLease, worker.WorkerToken, `{"wait_seconds":5}`), &l)
	a.ask(200, "POST", on(wire.PathFailed, l.JobID), worker.WorkerToken, map[string]any{"lease_id": l.LeaseID, "error_code": "INVALID_INPUT", "error_message": "m"})
	a.ask(204, "DELETE", on(wire.PathDLQJob, l.JobID), testAdmin, nil)
}

// askWithoutRedis asks when Redis has gone.
// askBatches asks for several leases, heartbeats and results at once, some of them bad.
func (a *asker) askBatches(token string) {
	jobOf(a.ask(200, "POST", wire.PathJobs, "", h2Payload))
	var some wire.LeasesResponse
	readJSON(a.ask(200, "POST", wire.PathLease, token, map[string]any{"features": []string{"renew"}, "max": 64}), &some)
	a.ask(400, "POST", wire.PathLease, token, `{"max":65}`)
	l := some.Jobs[0]
	good := map[string]any{
		"job_id": l.JobID, "lease_id": l.LeaseID, "result": map[string]any{"zpe_ev": 0.26}, "summary_text": "ZPE", "freqs_csv": "mode,cm-1\n",
		"progress": map[string]any{"done": 1, "total": 7},
	}
	bad := map[string]any{"job_id": "unknown", "lease_id": "l", "result": 1}
	for field, path := range map[string]string{"heartbeats": wire.PathHeartbeats, "results": wire.PathResults} {
		a.ask(400, "POST", path, token, map[string]any{field: []any{}})
		a.ask(401, "POST", path, "stranger", map[string]any{field: []any{good}})
		a.ask(403, "POST", path+"?worker_id=another", token, map[string]any{field: []any{good}})
	}
	a.ask(200, "POST", wire.PathHeartbeats, token, map[string]any{"heartbeats": []any{good, bad}})
	a.ask(200, "POST", wire.PathResults, token, map[string]any{"results": []any{good, bad}})
}

func (a *asker) askWithoutRedis() {
	a.redis.Kill()
	a.ask(503, "GET", wire.PathJobs+"/nobody", "", nil)
	a.ask(503, "GET", wire.PathOps, testAdmin, nil)
	a.ask(503, "POST", wire.PathLease, "zpw_"+strings.Repeat("a", 43), nil)
	until(a.t, time.Minute, "the gateway is not ready", func() bool {
		r, err := a.request(http.MethodGet, a.url+"/readyz", "", nil)
		return err == nil && r.status == 503
	})
	a.ask(503, "GET", "/readyz", "", nil)
	for _, scope := range []string{"fleet", "zpe"} {
		a.ask(503, "GET", "/api/v1/"+scope+"/jobs", testAdmin, nil)
		a.ask(503, "GET", "/api/v1/"+scope+"/jobs/nobody", testAdmin, nil)
	}
	a.ask(503, "GET", "/api/v1/fleet/workers", testAdmin, nil)
}

// askOperations asks for what the gateway does itself.
func (a *asker) askOperations(f *testFleet, reader string) {
	const paths = "/api/v1/system/jobs"
	a.ask(200, "GET", "/api/v1/openapi.json", reader, nil)
	a.ask(401, "GET", "/api/v1/openapi.json", "", nil)
	a.ask(401, "GET", paths, "", nil)
	a.ask(401, "POST", "/api/v1/system/start", "nobody", nil)
	a.ask(403, "POST", "/api/v1/system/start", reader, nil)
	a.ask(403, "GET", paths, reader, nil, "X-Forwarded-Proto", "http")
	for _, bad := range []string{"?limit=0", "?limit=201", "?limit=1&limit=2", "?status=lost", "?cursor=x", "?color=red"} {
		a.ask(400, "GET", paths+bad, reader, nil)
	}
	a.ask(404, "GET", "/api/v1/moon/jobs", reader, nil)
	a.ask(404, "GET", paths+"/nobody", reader, nil)
	a.ask(404, "GET", paths+"/nobody/logs", reader, nil)
	a.ask(404, "GET", paths+"/nobody/events", reader, nil)
	a.ask(404, "POST", paths+"/nobody/cancel", testAdmin, nil)

	a.ask(200, "POST", "/api/v1/system/start?dryRun=true", testAdmin, nil)
	a.ask(400, "POST", "/api/v1/system/start?dryRun=true", testAdmin, `{"dryRun":false}`)
	a.ask(400, "POST", "/api/v1/system/start", testAdmin, `{"timeoutMs":999}`)
	a.ask(400, "POST", "/api/v1/system/start", testAdmin, `{"other":1}`)
	a.ask(415, "POST", "/api/v1/system/start", testAdmin, `{}`, "Content-Type", "text/plain")
	id := a.run("system/start", `{"timeoutMs":60000}`)
	job := paths + "/" + id
	r := a.ask(200, "GET", job+"?wait=1", reader, nil)
	etag := r.header.Get("ETag")
	a.ask(304, "GET", job, reader, nil, "If-None-Match", etag)
	a.ask(400, "GET", job+"?wait=61", reader, nil)
	a.ask(200, "GET", job+"/logs?tailLines=5&sinceSeconds=60", reader, nil)
	a.ask(400, "GET", job+"/logs?tailLines=0", reader, nil)
	r = a.ask(200, "GET", job+"/events?logs=true", reader, nil)
	ids := eventID.FindAllStringSubmatch(string(r.body), -1)
	if len(ids) == 0 {
		a.t.Fatalf("events without an id: %s", r.body)
	}
	a.ask(204, "GET", job+"/events?logs=true", reader, nil, "Last-Event-ID", ids[len(ids)-1][1])
	a.ask(400, "GET", job+"/events?logs=maybe", reader, nil)
	a.ask(409, "POST", job+"/cancel", testAdmin, nil)
	a.ask(403, "POST", job+"/cancel", reader, nil)
	a.ask(413, "POST", job+"/cancel", testAdmin, `{"x":"`+strings.Repeat("x", 64<<10)+`"}`)
	a.ask(404, "GET", "/api/v1/utils/jobs/"+id, reader, nil)

	a.ask(200, "POST", "/api/v1/system/fsck", testAdmin, `{"dryRun":true,"repair":true}`)
	a.run("system/fsck", `{"repair":true}`)
	a.ask(200, "POST", "/api/v1/system/drain?dryRun=true", testAdmin, nil)
	a.ask(400, "POST", "/api/v1/system/drain", testAdmin, `{"pollIntervalMs":199}`)

	if err := os.WriteFile(filepath.Join(f.dir, "a.pdf"), []byte("%PDF"), 0o600); err != nil {
		a.t.Fatal(err)
	}
	batch := `{"objects":["a.pdf"],"kind":"mock","concurrency":2,"ratePerSecond":5}`
	a.ask(200, "POST", "/api/v1/utils/submit-batch?dryRun=true", testAdmin, batch)
	a.ask(400, "POST", "/api/v1/utils/submit-batch", testAdmin, `{"objects":[]}`)
	a.ask(400, "POST", "/api/v1/utils/submit-batch", testAdmin, nil)
	// Nobody runs the job, so the operation waits, and there is room for no other.
	waiting := jobOf(a.ask(202, "POST", "/api/v1/utils/submit-batch", testAdmin, batch))
	a.ask(429, "POST", "/api/v1/utils/purge", testAdmin, `{"olderThanDays":30}`)
	a.ask(200, "POST", "/api/v1/utils/jobs/"+waiting+"/cancel", testAdmin, nil)
	until(a.t, time.Minute, "there is room again", func() bool {
		r, err := a.request("POST", a.url+"/api/v1/utils/purge", testAdmin, `{"olderThanDays":30}`)
		return err == nil && r.status == 202
	})
	a.ask(200, "POST", "/api/v1/utils/purge?dryRun=true", testAdmin, `{"olderThanDays":30}`)
	a.ask(400, "POST", "/api/v1/utils/purge", testAdmin, `{}`)
	a.run("utils/purge", `{"olderThanDays":30,"limit":5}`)
	a.ask(200, "POST", "/api/v1/utils/redrive?dryRun=true", testAdmin, nil)
	a.run("utils/redrive", `{"count":1,"ratePerSecond":0.5,"reason":"x","stopAfter":2}`)
	for _, operation := range []string{"utils/cancel", "utils/retry"} {
		a.ask(200, "POST", "/api/v1/"+operation+"?dryRun=true", testAdmin, `{"scope":"zpe","since":"24h"}`)
		a.ask(400, "POST", "/api/v1/"+operation, testAdmin, `{"scope":"fleet"}`)
		a.run(operation, `{"scope":"fleet","kind":"none","q":"x","until":"1h","ratePerSecond":5,"maxJobs":10,"stopAfterErrors":3}`)
	}
	a.ask(200, "GET", job+"/logs?times=true", reader, nil)
	a.ask(200, "GET", "/api/v1/utils/jobs?limit=1&status=succeeded&type=utils.purge", reader, nil)
}

var eventID = regexp.MustCompile(`(?m)^id: ?(\S+)$`)

// run starts an operation, when there is room, and waits until it has succeeded.
func (a *asker) run(operation, body string) string {
	a.t.Helper()
	var id string
	until(a.t, time.Minute, "there is room for "+operation, func() bool {
		r, err := a.request("POST", a.url+"/api/v1/"+operation, testAdmin, body)
		if err != nil {
			a.t.Fatal(err)
		}
		a.contract.check("POST", "/api/v1/"+operation, body, r)
		id = jobOf(r)
		return r.status == 202
	})
	scope, _, _ := strings.Cut(operation, "/")
	var job jobapi.Job
	readJSON(a.ask(200, "GET", "/api/v1/"+scope+"/jobs/"+id+"?wait=30", testAdmin, nil), &job)
	if job.Status != jobs.Succeeded {
		a.t.Errorf("%s is %s: %+v", operation, job.Status, job.Error)
	}
	return id
}

// askFleetJobs asks for jobs that workers run.
func (a *asker) askFleetJobs(f *testFleet, reader string) {
	const fleet = "/api/v1/fleet/jobs"
	worker := f.start("MOCK_PAGE_SECONDS=60", "WORKER_SLOTS=4", failsOtherKinds)
	f.submit("slow", 2)
	f.untilState(time.Minute, "slow", "processing")
	// Not drained while it runs: there is one system job at a time.
	drain := jobOf(a.ask(202, "POST", "/api/v1/system/drain", testAdmin, `{"pollIntervalMs":200}`))
	a.ask(409, "POST", "/api/v1/system/start", testAdmin, nil)
	a.ask(200, "POST", "/api/v1/system/jobs/"+drain+"/cancel", testAdmin, `{}`)
	a.run("system/start", `{}`) // or no worker could take over the job where the machine stands still

	if r := a.ask(200, "GET", "/api/v1/fleet/workers", testAdmin, nil); !strings.Contains(string(r.body), `"slots":4`) {
		a.t.Errorf("F-21: the worker is not shown: %s", r.body)
	}
	a.ask(400, "GET", "/api/v1/fleet/workers?limit=1", testAdmin, nil)
	a.ask(200, "GET", fleet+"?limit=1", testAdmin, nil)
	a.ask(200, "GET", fleet+"?status=running&type=fleet.mock", testAdmin, nil)
	a.ask(200, "GET", fleet+"/slow", testAdmin, nil)
	a.ask(200, "GET", fleet+"/slow/logs", testAdmin, nil)
	a.ask(404, "GET", fleet+"/nobody", testAdmin, nil)
	// Its worker does not hear of it in time.
	if err := worker.Process.Signal(syscall.SIGSTOP); err != nil {
		a.t.Fatal(err)
	}
	a.ask(202, "POST", fleet+"/slow/cancel", testAdmin, nil)
	if err := worker.Process.Signal(syscall.SIGCONT); err != nil {
		a.t.Fatal(err)
	}
	a.ask(200, "GET", fleet+"/slow/events?logs=true", testAdmin, nil)
	a.ask(409, "POST", fleet+"/slow/cancel", testAdmin, nil)
	for _, path := range []string{"", "?status=failed", "?status=succeeded&limit=1"} {
		a.ask(200, "GET", "/api/v1/zpe/jobs"+path, testAdmin, nil)
	}
	var page struct{ Items []jobapi.Item }
	readJSON(a.ask(200, "GET", "/api/v1/zpe/jobs", testAdmin, nil), &page)
	for _, item := range page.Items {
		for _, part := range []string{"", "/logs"} {
			a.ask(200, "GET", "/api/v1/zpe/jobs/"+item.ID+part, testAdmin, nil)
		}
	}
	if len(page.Items) < 3 {
		a.t.Errorf("%d jobs of zpe are listed, want those of before", len(page.Items))
	}
	page.Items = nil
	readJSON(a.ask(200, "GET", "/api/v1/zpe/jobs?status=succeeded", testAdmin, nil), &page)
	made := "/api/v1/zpe/jobs/" + page.Items[0].ID
	a.ask(200, "GET", made+"/artifacts", testAdmin, nil)
	for name, media := range map[string]string{"result.json": "application/json", "summary.txt": "text/plain; charset=utf-8", "freqs.csv": "text/csv; charset=utf-8"} {
		if r := a.ask(200, "GET", made+"/artifacts/"+name, testAdmin, nil); r.header.Get("Content-Type") != media {
			a.t.Errorf("%s is %s, want %s", name, r.header.Get("Content-Type"), media)
		}
	}
	a.ask(400, "GET", made+"/artifacts?x=1", testAdmin, nil)
	a.ask(404, "GET", made+"/artifacts/other.txt", testAdmin, nil)
	a.ask(403, "GET", made+"/artifacts/result.json", reader, nil)
	a.ask(200, "GET", made+"/artifacts", reader, nil)
	a.ask(404, "GET", made+"/artifacts/.hidden", testAdmin, nil)
	a.ask(404, "GET", fleet+"/slow/artifacts/result.json", testAdmin, nil)
	f.succeed("done")
	result := fleet + "/done/artifacts/result.json"
	tag := a.ask(200, "GET", result, testAdmin, nil).header.Get("ETag")
	a.ask(206, "GET", result, testAdmin, nil, "Range", "bytes=3-", "If-Range", tag)
	a.ask(200, "GET", result, testAdmin, nil, "Range", "bytes=3-", "If-Range", `"another"`)
	a.ask(416, "GET", result, testAdmin, nil, "Range", "bytes=999999-")
	a.ask(200, "GET", fleet+"/done/result", testAdmin, nil)
	a.ask(409, "GET", fleet+"/slow/result", testAdmin, nil)
	a.ask(403, "GET", fleet+"/slow/result", reader, nil)
	a.ask(404, "GET", fleet+"/nobody/result", testAdmin, nil)
	a.ask(200, "GET", made+"/result", testAdmin, nil)
	const thumbnail = `{"kind":"thumbnail","params":{"dpi":300}}`
	a.ask(201, "POST", fleet, testAdmin, thumbnail, "Idempotency-Key", "k1")
	a.ask(200, "POST", fleet, testAdmin, thumbnail, "Idempotency-Key", "k1")
	a.ask(409, "POST", fleet, testAdmin, `{"kind":"mock"}`, "Idempotency-Key", "k1")
	a.ask(409, "POST", fleet, testAdmin, `{"kind":"mock","id":"slow"}`)
	a.ask(400, "POST", fleet, testAdmin, `{"kind":"thumbnail","params":{"dpi":7}}`)
	a.ask(403, "POST", fleet, reader, thumbnail)
	other, err := a.request("POST", a.url+"/api/v1/zpe/jobs", testAdmin, thumbnail)
	if err != nil || other.status != 405 {
		a.t.Errorf("POST to another scope: %d %v", other.status, err)
	}
	a.contract.checkPlain("MethodNotAllowed", other)
	a.ask(200, "GET", fleet+"/slow/artifacts", testAdmin, nil)
	f.send(jobs.Job{ID: "odd", Kind: "bogus"})
	f.untilState(time.Minute, "odd", "failed")
	a.ask(202, "POST", fleet+"/odd/retry", testAdmin, nil)
	a.ask(409, "POST", fleet+"/slow/retry", testAdmin, `{}`)
	a.ask(409, "POST", made+"/retry", testAdmin, nil)
	a.ask(404, "POST", fleet+"/nobody/retry", testAdmin, nil)
	a.ask(400, "POST", fleet+"/odd/retry", testAdmin, `{"x":1}`)
}

func jsonText(t *testing.T, body any) string {
	t.Helper()
	if s, ok := body.(string); ok {
		return s
	}
	b, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// readJSON reads what has been held against the document already.
func readJSON(r reply, into any) { _ = json.Unmarshal(r.body, into) }
