package control_test

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/gateway/control"
	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/internal/testrun"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/status/redistest"
	"github.com/batchfleet/batchfleet/storage"
)

// filesIn returns storage and spool in a directory, for one gateway.
func filesIn(t *testing.T, dir string) *control.Files {
	t.Helper()
	store, err := storage.NewLocal(dir + "/store")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	spool, err := control.OpenSpool(dir + "/spool")
	if err != nil {
		t.Fatal(err)
	}
	return &control.Files{Store: store, Spool: spool, MaxArtifact: 1 << 20, MaxInput: 1 << 20}
}

func withFiles(t *testing.T) func(*rig) {
	dir := t.TempDir()
	return func(r *rig) {
		r.plane.Kinds = map[jobs.Kind]control.Kind{"thumbnail": {Waits: []time.Duration{time.Millisecond}}, "wordcount": {}}
		r.plane.Files = filesIn(t, dir)
	}
}

func sumOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// attempt is one at a job of kind thumbnail.
type attempt struct {
	worker
	job, lease string
}

func (w worker) attempt() attempt {
	w.t.Helper()
	g := w.leaseOf("/calc/thumbnail/compute/jobs/lease")
	return attempt{w, g.JobID, g.LeaseID}
}

func (a attempt) path(name string) string {
	return "/calc/thumbnail/compute/jobs/" + a.job + "/artifacts/" + name
}

func (a attempt) headers(sum string, more ...string) []string {
	return append(append(bearer(a.token), "X-Lease-Id", a.lease, "X-Content-SHA256", sum), more...)
}

// put sends an artifact, or a part of it.
func (a attempt) put(name, whole string, part ...int) answer {
	a.t.Helper()
	if len(part) == 0 {
		return a.do("PUT", a.path(name), whole, a.headers(sumOf(whole))...)
	}
	from, to := part[0], part[1]
	return a.do("PUT", a.path(name), whole[from:to], a.headers(sumOf(whole), "Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, to-1, len(whole)))...)
}

func (a attempt) have(name, whole string) wire.UploadResponse {
	a.t.Helper()
	return decode[wire.UploadResponse](a.t, a.do("GET", fmt.Sprintf("%s?size=%d", a.path(name), len(whole)), nil, a.headers(sumOf(whole))...))
}

func (a attempt) finish(names ...string) answer {
	a.t.Helper()
	body := map[string]any{"lease_id": a.lease, "result": map[string]any{"pages": 1}}
	var list []wire.Artifact
	for i := 0; i+1 < len(names); i += 2 {
		list = append(list, wire.Artifact{Name: names[i], Size: int64(len(names[i+1])), SHA256: sumOf(names[i+1]), Type: "image/png"})
	}
	body["artifacts"] = list
	return a.reportOf("thumbnail", "result", a.job, body)
}

func TestK17AnArtifactGoesUpInPartsAndComesDown(t *testing.T) {
	r := newRig(t, withFiles(t))
	w := r.worker()
	id := r.submitKind("thumbnail")
	a := w.attempt()
	page, log := strings.Repeat("0123456789", 30_000), "line\n"
	if got := a.have("page-1.png", page); got != (wire.UploadResponse{}) {
		t.Errorf("before anything was sent: %+v", got)
	}
	if got := decode[wire.UploadResponse](t, a.put("page-1.png", page, 0, 100_000)); got.Offset != 100_000 || got.Complete {
		t.Errorf("after the first part: %+v", got)
	}
	refused(t, a.finish("page-1.png", page), 409, wire.Incomplete)
	for _, from := range []int{0, 99_999, 100_001} {
		refusal := a.put("page-1.png", page, from, 200_000)
		refused(t, refusal, 409, wire.OffsetMismatch)
		if !strings.Contains(refusal.body, `"details":{"offset":100000}`) {
			t.Errorf("answered %s, want the offset", refusal.body)
		}
	}
	decode[wire.UploadResponse](t, a.put("page-1.png", page, 100_000, 200_000))
	if got := a.have("page-1.png", page); got.Offset != 200_000 || got.Complete {
		t.Errorf("after two parts: %+v", got)
	}
	refused(t, a.finish("page-1.png", page), 409, wire.Incomplete)
	for range 2 { // the answer was lost
		if got := decode[wire.UploadResponse](t, a.put("page-1.png", page, 200_000, len(page))); !got.Complete {
			t.Errorf("after all parts: %+v", got)
		}
	}
	if got := a.have("page-1.png", page); !got.Complete {
		t.Errorf("after all parts: %+v", got)
	}
	refused(t, a.finish("page-1.png", page, "log.txt", log), 409, wire.Incomplete)
	decode[wire.UploadResponse](t, a.put("log.txt", log))
	decode[wire.UploadResponse](t, a.put("empty", ""))
	decode[wire.UploadResponse](t, a.put("not-named.txt", "x"))
	refused(t, r.do("GET", "/calc/thumbnail/jobs/"+id+"/artifacts", nil), 409, wire.NotFinished)
	decode[wire.ReportResponse](t, a.finish("page-1.png", page, "log.txt", log, "empty", ""))
	if again := decode[wire.ReportResponse](t, a.finish("page-1.png", page, "log.txt", log, "empty", "")); !again.Idempotent {
		t.Error("the same result again counts as another")
	}
	refused(t, a.finish("page-1.png", page), 409, wire.AlreadyFinished)

	list := decode[wire.ArtifactsResponse](t, r.do("GET", "/calc/thumbnail/jobs/"+id+"/artifacts", nil)).Artifacts
	want := []wire.Artifact{
		{Name: "empty", SHA256: sumOf(""), Type: "image/png"},
		{Name: "log.txt", Size: 5, SHA256: sumOf(log), Type: "image/png"},
		{Name: "page-1.png", Size: 300_000, SHA256: sumOf(page), Type: "image/png"},
	}
	if !slices.Equal(list, want) {
		t.Errorf("listed %+v, want %+v", list, want)
	}
	path := "/calc/thumbnail/jobs/" + id + "/artifacts/"
	for _, tt := range []struct {
		name, header string
		status       int
		want         string
	}{
		{"all of it", "", 200, page},
		{"a range", "bytes=5-9", 206, page[5:10]},
		{"to the end", "bytes=299998-", 206, "89"},
		{"beyond the end", "bytes=299998-999999", 206, "89"},
		{"the last bytes", "bytes=-3", 206, "789"},
		{"two ranges", "bytes=1-2,4-5", 200, page},
		{"no range", "bytes=x", 200, page},
		{"backwards", "bytes=9-5", 200, page},
	} {
		var headers []string
		if tt.header != "" {
			headers = []string{"Range", tt.header}
		}
		got := r.do("GET", path+"page-1.png", nil, headers...)
		if got.status != tt.status || got.body != tt.want || got.header.Get("X-Content-SHA256") != sumOf(page) || got.header.Get("Content-Type") != "image/png" {
			t.Errorf("%s: %d, %d bytes, %v", tt.name, got.status, len(got.body), got.header)
		}
	}
	refused(t, r.do("GET", path+"page-1.png", nil, "Range", "bytes=300000-"), 416, wire.RangeNotSatisfied)
	if got := r.do("GET", path+"page-1.png", nil, "Range", "bytes=5-9", "If-Range", `"else"`); got.status != 200 || got.body != page {
		t.Errorf("a range of something else: %d, %d bytes", got.status, len(got.body))
	}
	if got := r.do("HEAD", path+"page-1.png", nil); got.status != 200 || got.header.Get("Content-Length") != "300000" || got.body != "" {
		t.Errorf("HEAD: %d %v", got.status, got.header)
	}
	refused(t, r.do("GET", path+"not-named.txt", nil), 404, wire.ArtifactNotFound)
	refused(t, r.do("GET", "/calc/wordcount/jobs/"+id+"/artifacts/log.txt", nil), 404, wire.JobNotFound)
	refused(t, r.do("GET", "/calc/zpe/jobs/"+id+"/artifacts/log.txt", nil), 404, wire.NotFound)
}

func TestK17ArtifactsThatAreRefused(t *testing.T) {
	r := newRig(t, withFiles(t))
	w, other := r.worker(), r.worker()
	r.submitKind("thumbnail")
	a := w.attempt()
	for name, tt := range map[string]struct {
		path, body string
		headers    []string
		status     int
		code       wire.Code
	}{
		"a name that leads elsewhere": {a.path(".."), "x", a.headers(sumOf("x")), 404, wire.NotFound},
		"a hidden name":               {a.path(".x"), "x", a.headers(sumOf("x")), 400, wire.InvalidPayload},
		"an encoded slash":            {a.path("a%2Fb"), "x", a.headers(sumOf("x")), 404, wire.NotFound},
		"no sum":                      {a.path("x"), "x", append(bearer(a.token), "X-Lease-Id", a.lease), 400, wire.InvalidPayload},
		"another sum":                 {a.path("x"), "x", a.headers(sumOf("y")), 422, wire.DigestMismatch},
		"too large":                   {a.path("x"), strings.Repeat("x", 1<<20+1), a.headers(sumOf("x")), 413, wire.PayloadTooLarge},
		"too large as a whole":        {a.path("x"), "x", a.headers(sumOf("x"), "Content-Range", "bytes 0-0/99999999"), 413, wire.PayloadTooLarge},
		"a range that is none":        {a.path("x"), "x", a.headers(sumOf("x"), "Content-Range", "bytes 0-1/1"), 400, wire.InvalidPayload},
		"a range of another length":   {a.path("x"), "xx", a.headers(sumOf("xx"), "Content-Range", "bytes 0-0/2"), 400, wire.InvalidPayload},
		"no lease":                    {a.path("x"), "x", append(bearer(a.token), "X-Content-SHA256", sumOf("x")), 400, wire.InvalidPayload},
		"another lease":               {a.path("x"), "x", append(bearer(a.token), "X-Lease-Id", "else", "X-Content-SHA256", sumOf("x")), 409, wire.LeaseLost},
		"another worker":              {a.path("x"), "x", append(bearer(other.token), "X-Lease-Id", a.lease, "X-Content-SHA256", sumOf("x")), 409, wire.LeaseLost},
		"no token":                    {a.path("x"), "x", []string{"X-Lease-Id", a.lease}, 401, wire.Unauthorized},
		"an unknown token":            {a.path("x"), "x", append(bearer("zpw_x"), "X-Lease-Id", a.lease), 401, wire.Unauthorized},
		"another kind":                {strings.Replace(a.path("x"), "thumbnail", "wordcount", 1), "x", a.headers(sumOf("x")), 404, wire.JobNotFound},
	} {
		t.Run(name, func(t *testing.T) { refused(t, r.do("PUT", tt.path, tt.body, tt.headers...), tt.status, tt.code) })
	}
	// What did not have its sum is forgotten, and can be sent again.
	if got := decode[wire.UploadResponse](t, a.put("x", "y")); !got.Complete {
		t.Errorf("sent again: %+v", got)
	}
	refused(t, a.reportOf("thumbnail", "result", a.job, map[string]any{
		"lease_id": a.lease, "result": map[string]any{}, "artifacts": []wire.Artifact{{Name: "../x", SHA256: sumOf("")}},
	}), 400, wire.InvalidPayload)
}

func TestK17AnUploadGoesOnAfterABrokenConnectionAndARestart(t *testing.T) {
	s := redistest.New(t)
	files := withFiles(t)
	r := newRigOn(t, s, files)
	w := r.worker()
	r.submitKind("thumbnail")
	a := w.attempt()
	whole := strings.Repeat("abcdefghij", 50_000)
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(r.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "PUT %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nX-Lease-Id: %s\r\nX-Content-SHA256: %s\r\nContent-Length: %d\r\n\r\n%s",
		a.path("big"), a.token, a.lease, sumOf(whole), len(whole), whole[:123_456])
	until(t, "the first bytes have arrived", func() bool { return a.have("big", whole).Offset == 123_456 })
	refused(t, a.put("big", whole), 503, wire.Unavailable) // another request sends it
	_ = conn.Close()
	until(t, "the gateway knows that the connection is gone", func() bool {
		got := a.put("big", whole, 123_456, 200_000)
		return got.status == 200
	})
	r.stop() // as after kill -9: nothing of the upload is in the process

	r2 := newRigOn(t, s, files)
	b := attempt{worker{r2, w.id, w.token}, a.job, a.lease}
	if got := b.have("big", whole); got.Offset != 200_000 {
		t.Fatalf("after a restart there is %+v", got)
	}
	decode[wire.UploadResponse](t, b.put("big", whole, 200_000, len(whole)))
	decode[wire.ReportResponse](t, b.finish("big", whole))
	if got := r2.do("GET", "/calc/thumbnail/jobs/"+a.job+"/artifacts/big", nil); got.body != whole {
		t.Errorf("it came down as %d bytes with sum %s", len(got.body), sumOf(got.body))
	}
}

func TestK17WhatAnAbandonedAttemptUploadedNeverShows(t *testing.T) {
	r := newRig(t, withFiles(t))
	w := r.worker()
	id := r.submitKind("thumbnail")
	first := w.attempt()
	decode[wire.UploadResponse](t, first.put("page.png", "of the first attempt"))
	decode[wire.UploadResponse](t, first.put("only-first.png", "x"))
	decode[wire.UploadResponse](t, first.put("half.png", "half", 0, 2))
	decode[wire.FailedResponse](t, w.reportOf("thumbnail", "failed", id, broken(first.lease, "EXIT_3")))
	var second attempt
	until(t, "it runs again", func() bool {
		a := w.post("/calc/thumbnail/compute/jobs/lease", wire.LeaseRequest{WaitSeconds: 5})
		if a.status != http.StatusOK {
			return false
		}
		g := decode[wire.LeaseResponse](t, a)
		second = attempt{w, g.JobID, g.LeaseID}
		return true
	})
	refused(t, first.put("page.png", "too late"), 409, wire.LeaseLost)
	if got := second.have("page.png", "of the first attempt"); got.Offset > 0 || got.Complete {
		t.Errorf("the second attempt has %+v of the first", got)
	}
	refused(t, second.finish("only-first.png", "x"), 409, wire.Incomplete)
	decode[wire.UploadResponse](t, second.put("page.png", "of the second"))
	if n, err := control.Clean(t.Context(), r.plane); err != nil || n != 2 {
		t.Errorf("cleaned %d, %v; want the 2 of the first attempt", n, err)
	}
	decode[wire.ReportResponse](t, second.finish("page.png", "of the second"))
	if n, err := control.Clean(t.Context(), r.plane); err != nil || n != 0 {
		t.Errorf("cleaned %d, %v after it has finished", n, err)
	}
	if got := r.do("GET", "/calc/thumbnail/jobs/"+id+"/artifacts/page.png", nil); got.body != "of the second" {
		t.Errorf("the artifact is %q", got.body)
	}
	if list := decode[wire.ArtifactsResponse](t, r.do("GET", "/calc/thumbnail/jobs/"+id+"/artifacts", nil)).Artifacts; len(list) != 1 {
		t.Errorf("listed %+v", list)
	}
	if n, err := r.plane.Files.Spool.Sweep(time.Hour); err != nil || n != 0 {
		t.Errorf("swept %d new parts, %v", n, err)
	}
	if n, err := r.plane.Files.Spool.Sweep(-time.Hour); err != nil || n != 1 {
		t.Errorf("swept %d parts, %v; want that of the first attempt", n, err)
	}
	r.rdb.Del(t.Context(), "zpe:status:"+id) // it has expired
	if n, err := control.Clean(t.Context(), r.plane); err != nil || n != 1 {
		t.Errorf("cleaned %d, %v after the job has expired", n, err)
	}
	refused(t, r.do("GET", "/calc/thumbnail/jobs/"+id+"/artifacts/page.png", nil), 404, wire.JobNotFound)
}

func TestK17ALateResultKeepsItsArtifacts(t *testing.T) {
	r := newRig(t, withFiles(t))
	w := r.worker()
	id := r.submitKind("thumbnail")
	a := w.attempt()
	decode[wire.UploadResponse](t, a.put("page.png", "late"))
	r.ahead.Store(int64(time.Hour)) // longer than a lease
	if !control.Round(r.plane, t.Context()) {
		t.Fatal("no round of the reaper")
	}
	refused(t, a.finish("page.png", "late", "other.png", "x"), 409, wire.LeaseLost)
	refused(t, r.do("GET", "/calc/thumbnail/admin/jobs/"+id+"/late", nil, bearer(adminToken)...), 404, wire.LateNotFound)
	refused(t, a.finish("page.png", "late"), 409, wire.LeaseLost)
	if n, err := control.Clean(t.Context(), r.plane); err != nil || n != 0 {
		t.Errorf("cleaned %d, %v", n, err)
	}
	decode[wire.JobResponse](t, r.do("POST", "/calc/thumbnail/admin/jobs/"+id+"/late/accept", nil, bearer(adminToken)...))
	if got := r.do("GET", "/calc/thumbnail/jobs/"+id+"/artifacts/page.png", nil); got.body != "late" {
		t.Errorf("the artifact is %d %q", got.status, got.body)
	}
}

func TestK17InputsAreUploadedAndReadByTheWorkerOfTheJob(t *testing.T) {
	r := newRig(t, withFiles(t))
	w, other := r.worker(), r.worker()
	text := strings.Repeat("a document\n", 10_000)
	in := decode[wire.InputResponse](t, r.do("POST", "/calc/thumbnail/inputs", text, "Content-Type", "application/pdf", "X-Content-SHA256", sumOf(text)))
	if in.Size != int64(len(text)) || in.SHA256 != sumOf(text) || !strings.HasPrefix(in.Input, "uploads/") {
		t.Fatalf("the upload is %+v", in)
	}
	refused(t, r.do("POST", "/calc/thumbnail/inputs", text, "X-Content-SHA256", sumOf("else")), 422, wire.DigestMismatch)
	refused(t, r.do("POST", "/calc/thumbnail/inputs", strings.Repeat("x", 1<<20+1)), 413, wire.PayloadTooLarge)
	for _, input := range []string{"uploads/../x", "x", in.Input + "x", "uploads/00000000000000000000000000"} {
		a := r.do("POST", "/calc/thumbnail/jobs", map[string]any{"input": input})
		refused(t, a, 400, wire.InvalidPayload)
		if !strings.Contains(a.body, `"field":"input"`) {
			t.Errorf("input %q: answered %s", input, a.body)
		}
	}
	id := decode[wire.SubmitResponse](t, r.do("POST", "/calc/thumbnail/jobs", map[string]any{"input": in.Input})).JobID
	g := w.leaseOf("/calc/thumbnail/compute/jobs/lease")
	var payload wire.SubmitRequest
	if err := json.Unmarshal(g.Payload, &payload); err != nil || payload.Input != in.Input || string(payload.Params) != "{}" {
		t.Errorf("the worker got %s, %v", g.Payload, err)
	}
	path := "/calc/thumbnail/compute/jobs/" + id + "/input"
	headers := append(bearer(w.token), "X-Lease-Id", g.LeaseID)
	if got := r.do("GET", path, nil, headers...); got.status != 200 || got.body != text || got.header.Get("X-Content-SHA256") != sumOf(text) {
		t.Errorf("the input is %d, %d bytes, %v", got.status, len(got.body), got.header)
	}
	if got := r.do("GET", path, nil, append(headers, "Range", "bytes=100000-")...); got.status != 206 || got.body != text[100_000:] {
		t.Errorf("the rest of the input is %d, %d bytes", got.status, len(got.body))
	}
	refused(t, r.do("GET", path, nil, append(bearer(other.token), "X-Lease-Id", g.LeaseID)...), 409, wire.LeaseLost)
	refused(t, r.do("GET", path, nil), 401, wire.Unauthorized)
	if n, err := control.Clean(t.Context(), r.plane); err != nil || n != 0 {
		t.Errorf("cleaned %d, %v while there is a job of it", n, err)
	}
	r.rdb.Del(t.Context(), "zpe:status:"+id) // it has expired
	if n, err := control.Clean(t.Context(), r.plane); err != nil || n != 1 {
		t.Errorf("cleaned %d, %v after its job has expired", n, err)
	}
	r.submitKind("wordcount")
	none := w.leaseOf("/calc/wordcount/compute/jobs/lease")
	refused(t, r.do("GET", "/calc/wordcount/compute/jobs/"+none.JobID+"/input", nil, append(bearer(w.token), "X-Lease-Id", none.LeaseID)...), 404, wire.InputNotFound)
}

func TestK17AGatewayWithoutStorageSaysSo(t *testing.T) {
	r := newKindRig(t, nil)
	w := r.worker()
	refused(t, r.do("POST", "/calc/thumbnail/inputs", "x"), 503, wire.StorageDisabled)
	r.submitKind("thumbnail")
	refused(t, w.attempt().put("x", "x"), 503, wire.StorageDisabled)
}

// TestK17ABodyThatStopsIsCutOff holds a request for an artifact to the pace of other bodies.
func TestK17ABodyThatStopsIsCutOff(t *testing.T) {
	t.Parallel()
	testrun.Long(t, "it waits for half a minute")
	r := newRig(t, withFiles(t))
	w := r.worker()
	r.submitKind("thumbnail")
	a := w.attempt()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(r.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "PUT %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nX-Lease-Id: %s\r\nX-Content-SHA256: %s\r\nContent-Length: 100\r\n\r\nhalf",
		a.path("slow"), a.token, a.lease, sumOf("x"))
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusRequestTimeout || !strings.Contains(string(text), string(wire.RequestTimeout)) {
		t.Errorf("answered %d %s", resp.StatusCode, text)
	}
	if got := decode[wire.UploadResponse](t, r.do("GET", a.path("slow")+"?size=100", nil, a.headers(sumOf("x"))...)); got.Offset != 4 {
		t.Errorf("of what came there is %+v", got)
	}
}
