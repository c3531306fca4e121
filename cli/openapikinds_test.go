package cli

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/cli/openapi"
	"github.com/batchfleet/batchfleet/cli/own"
	"github.com/batchfleet/batchfleet/gateway/control"
	"github.com/batchfleet/batchfleet/gateway/provider"
	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/internal/testrun"
	"github.com/batchfleet/batchfleet/jobapi"
)

// describedKinds is a kinds file with the kinds whose routes are looked at.
const describedKinds = upperKind + `
[blob]
command = ["blob"]
[blob.params.bytes]
type = "integer"
required = true
`

// TestK03DescriptionHasEveryRouteOfKinds compares what is described with what is registered.
func TestK03DescriptionHasEveryRouteOfKinds(t *testing.T) {
	testrun.Once(t, "what the commands start has race tests of its own")
	name := filepath.Join(t.TempDir(), "kinds.toml")
	if err := os.WriteFile(name, []byte(describedKinds), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := own.OpenFile(&own.Env{File: name}, false, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	set := file.Set()
	text, err := openapi.Of(set)
	if err != nil {
		t.Fatal(err)
	}
	var registered []string
	api := openJobServer(t.Context(), jobServerConfig{
		redis: redis.NewClient(&redis.Options{}),
		zpe:   &provider.ZPE{}, others: &provider.Kinds{ZPE: &provider.ZPE{Others: true}}, kinds: file, guard: jobapi.Closed, metrics: prometheus.NewRegistry(), log: slog.New(slog.DiscardHandler),
	})
	plane := &control.Control{Metrics: control.NewMetrics("test", &queue.Queue{}), Kinds: control.KindsOf(set)}
	for _, r := range slices.Concat(plane.Routes(), api.Routes(), gridRoutes(t), []string{"GET /healthz", "GET /readyz"}) {
		if !strings.HasSuffix(r, " /api/v1/fleet/jobs") && !strings.HasSuffix(r, " /api/v1/gateway/jobs") { // which are described by themselves
			r = strings.Replace(inScope.ReplaceAllString(r, "/api/v1/{scope}/$2"), "/api/v1/gateway/jobs/", "/api/v1/{scope}/jobs/", 1)
		}
		all := []string{r}
		if r == "POST /calc/{kind}/jobs" { // whose body depends on the kind
			all = []string{"POST /calc/upper/jobs", "POST /calc/blob/jobs"}
		}
		for _, r := range all {
			if !slices.Contains(registered, r) {
				registered = append(registered, r)
			}
		}
	}
	slices.Sort(registered)
	if d := cmp.Diff(newContract(t, text).operations(), registered); d != "" {
		t.Errorf("described (-) and registered (+):\n%s", d)
	}
}

// TestK03ServedDescriptionIsTrueOfKinds calls the routes of kinds of a real gateway, and holds what it answers against what it
// says of itself.
func TestK03ServedDescriptionIsTrueOfKinds(t *testing.T) {
	t.Parallel()
	testrun.Once(t, "what the commands start has race tests of its own")
	g := newTestGateway(t)
	addr := freeAddr(t)
	g.startGateway(addr, g.withKinds(g.write("kinds.toml", describedKinds), t.TempDir())...)
	served, err := g.request("GET", "http://"+addr+"/api/v1/openapi.json", testAdmin, nil)
	if err != nil || served.status != http.StatusOK {
		t.Fatalf("%d, %v", served.status, err)
	}
	a := &asker{g, newContract(t, served.body), "http://" + addr}
	worker := g.tokenOf(g.enrolled("a"))
	const jobs, work = "/calc/upper/jobs", "/calc/upper/compute/jobs"

	// Submission.
	var in wire.InputResponse
	fill(t, a.ask(200, "POST", "/calc/upper/inputs", "", "some text"), &in)
	a.ask(413, "POST", "/calc/upper/inputs", "", strings.Repeat("x", 2001))
	a.ask(422, "POST", "/calc/upper/inputs", "", "some text", "X-Content-SHA256", strings.Repeat("0", 64))
	id := jobOf(a.ask(200, "POST", jobs, "", map[string]any{"params": map[string]any{"suffix": "?"}, "input": in.Input}))
	a.ask(400, "POST", jobs, "", `{"params":{"suffix":7}}`)
	a.ask(400, "POST", "/calc/blob/jobs", "", `{"params":{}}`)
	a.ask(201, "POST", "/api/v1/gateway/jobs", testAdmin, map[string]any{"kind": "blob", "params": map[string]any{"bytes": 7}}, "Idempotency-Key", "k")
	a.ask(200, "POST", "/api/v1/gateway/jobs", testAdmin, map[string]any{"kind": "blob", "params": map[string]any{"bytes": 7}}, "Idempotency-Key", "k")
	a.ask(409, "POST", "/api/v1/gateway/jobs", testAdmin, map[string]any{"kind": "blob", "params": map[string]any{"bytes": 8}}, "Idempotency-Key", "k")
	a.ask(400, "POST", "/api/v1/gateway/jobs", testAdmin, map[string]any{"kind": "blob", "params": map[string]any{"bytes": "x"}})
	a.ask(400, "POST", "/api/v1/gateway/jobs", testAdmin, map[string]any{"kind": "upper", "input": "uploads/none"})
	a.ask(200, "GET", "/api/v1/gateway/jobs", testAdmin, nil)
	a.ask(200, "GET", "/api/v1/gateway/jobs/"+id, testAdmin, nil)

	// Its worker.
	var lease wire.LeaseResponse
	fill(t, a.ask(200, "POST", work+"/lease", worker, wire.LeaseRequest{Kinds: []string{"upper"}, Features: []string{"renew"}}), &lease)
	if lease.JobID != id {
		t.Fatalf("leased %+v, want job %s", lease, id)
	}
	at := work + "/" + id
	held := []string{"X-Lease-Id", lease.LeaseID}
	a.ask(200, "GET", at+"/input", worker, nil, held...)
	a.ask(206, "GET", at+"/input", worker, nil, append(held, "Range", "bytes=2-3")...)
	a.ask(416, "GET", at+"/input", worker, nil, append(held, "Range", "bytes=900-")...)
	a.ask(401, "GET", at+"/input", "", nil, held...)
	a.ask(409, "GET", at+"/input", worker, nil, "X-Lease-Id", "other")
	a.ask(200, "POST", at+"/heartbeat", worker, map[string]any{"lease_id": lease.LeaseID})
	sum := append(held, "X-Content-SHA256", sumOf(strings.NewReader("0123456789")))
	a.ask(200, "GET", at+"/artifacts/a.txt?size=10", worker, nil, sum...)
	a.ask(200, "PUT", at+"/artifacts/a.txt", worker, "01234", append(sum, "Content-Range", "bytes 0-4/10")...)
	a.ask(409, "PUT", at+"/artifacts/a.txt", worker, "6789", append(sum, "Content-Range", "bytes 6-9/10")...)
	a.ask(200, "PUT", at+"/artifacts/a.txt", worker, "56789", append(sum, "Content-Range", "bytes 5-9/10")...)
	a.ask(422, "PUT", at+"/artifacts/b.txt", worker, "something else", sum...)
	artifacts := []wire.Artifact{{Name: "a.txt", Size: 10, SHA256: sum[3], Type: "text/plain"}}
	a.ask(409, "POST", at+"/result", worker, map[string]any{"lease_id": lease.LeaseID, "result": map[string]any{}, "artifacts": []wire.Artifact{{Name: "c.txt", Size: 10, SHA256: sum[3]}}})
	a.ask(409, "GET", jobs+"/"+id+"/artifacts", "", nil)
	a.ask(200, "POST", at+"/result", worker, map[string]any{"lease_id": lease.LeaseID, "result": map[string]any{"a": 1}, "artifacts": artifacts})

	// What it has made.
	a.ask(200, "GET", jobs+"/"+id, "", nil)
	a.ask(200, "GET", jobs+"/"+id+"/result", "", nil)
	a.ask(200, "GET", jobs+"/"+id+"/artifacts", "", nil)
	a.ask(200, "GET", jobs+"/"+id+"/artifacts/a.txt", "", nil)
	a.ask(206, "GET", jobs+"/"+id+"/artifacts/a.txt", "", nil, "Range", "bytes=-3")
	a.ask(404, "GET", jobs+"/"+id+"/artifacts/none.txt", "", nil)
	a.ask(404, "GET", "/calc/blob/jobs/"+id, "", nil)
	a.ask(404, "GET", "/calc/none/jobs/"+id, "", nil)

	// One that fails, and the operators.
	failing := jobOf(a.ask(200, "POST", jobs, "", `{}`))
	fill(t, a.ask(200, "POST", work+"/lease", worker, wire.LeaseRequest{Kinds: []string{"upper"}}), &lease)
	a.ask(200, "POST", work+"/"+failing+"/failed", worker, map[string]any{"lease_id": lease.LeaseID, "error_code": "EXIT_65", "error_message": "no", "retryable": false})
	dead := "/calc/upper/admin/dlq"
	a.ask(200, "GET", dead, testAdmin, nil)
	a.ask(200, "GET", dead+"/"+failing, testAdmin, nil)
	a.ask(200, "POST", dead+"/"+failing+"/requeue", testAdmin, nil)
	a.ask(200, "POST", jobs+"/"+failing+"/cancel", "", nil)
	a.ask(200, "GET", "/calc/upper/compute/servers", testAdmin, nil)
	a.ask(200, "GET", "/calc/upper/admin/ops", testAdmin, nil)
}

func fill(t *testing.T, r reply, into any) {
	t.Helper()
	if err := json.Unmarshal(r.body, into); err != nil {
		t.Fatalf("%s: %v", r.body, err)
	}
}
