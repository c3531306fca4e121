package control_test

import (
	"bufio"
	"encoding/json"
	"errors"
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
)

// raw sends bytes on a connection of its own and reads one answer; nothing more
// is sent, but the connection stays open until the answer is there.
func (r *rig) raw(text string) answer {
	r.t.Helper()
	c, err := (&net.Dialer{}).DialContext(r.t.Context(), "tcp", strings.TrimPrefix(r.url, "http://"))
	if err != nil {
		r.t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	go func() { _, _ = io.WriteString(c, text) }() // the server may close before it has read all
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(body)}
}

func TestZ03EveryErrorHasTheOneForm(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.plane.CheckPayload = func([]byte) error { panic("secret inside") } })
	for _, tt := range []struct {
		method, path string
		body         any
		status       int
		code         wire.Code
		header       string // as name: value
	}{
		{"GET", "/", nil, 404, wire.NotFound, ""},
		{"GET", "/calc/zpe", nil, 404, wire.NotFound, ""},
		{"POST", "/calc/zpe/jobs/", nil, 404, wire.NotFound, ""},
		{"GET", "/calc/zpe//jobs/x", nil, 404, wire.NotFound, ""},
		{"GET", "/calc/zpe/jobs/../jobs/x", nil, 404, wire.NotFound, ""},
		{"GET", "/calc/zpe/jobs/a%2Fresult", nil, 404, wire.NotFound, ""},
		{"GET", "/calc/zpe/jobs/%2e%2e", nil, 404, wire.NotFound, ""},
		{"GET", "/calc/zpe/jobs/a%00b", nil, 404, wire.NotFound, ""},
		{"GET", "/calc/zpe/jobs/index", nil, 404, wire.JobNotFound, ""},
		{"GET", "/calc/zpe/jobs/a:b", nil, 404, wire.JobNotFound, ""},
		{"GET", "/calc/zpe/jobs/" + strings.Repeat("x", 5000), nil, 404, wire.JobNotFound, ""},
		{"GET", "/calc/zpe/jobs", nil, 405, wire.MethodNotAllowed, "Allow: POST, OPTIONS"},
		{"DELETE", "/calc/zpe/jobs/x", nil, 405, wire.MethodNotAllowed, "Allow: GET, HEAD, OPTIONS"},
		{"BREW", wire.PathLease, nil, 405, wire.MethodNotAllowed, "Allow: POST, OPTIONS"},
		{"POST", wire.PathJobs, `{"a":`, 400, wire.InvalidPayload, ""},
		{"POST", wire.PathJobs, ``, 400, wire.InvalidPayload, ""},
		{"POST", wire.PathJobs, `[]`, 400, wire.InvalidPayload, ""},
		{"POST", wire.PathJobs, `"x"`, 400, wire.InvalidPayload, ""},
		{"POST", wire.PathJobs, `{"a":1}{}`, 400, wire.InvalidPayload, ""},
		{"POST", wire.PathJobs, `{"a":1,"a":2}`, 400, wire.InvalidPayload, ""},
		{"POST", wire.PathJobs, `{"a":"` + strings.Repeat("x", 1<<20) + `"}`, 413, wire.PayloadTooLarge, ""},
		{"POST", wire.PathJobs, `{}`, 500, wire.Internal, ""},
	} {
		a := r.do(tt.method, tt.path, tt.body)
		m := refused(t, a, tt.status, tt.code)
		if name, value, _ := strings.Cut(tt.header, ": "); a.header.Get(name) != value {
			t.Errorf("%s %s: %s is %q, want %q", tt.method, tt.path, name, a.header.Get(name), value)
		}
		if strings.Contains(m, "secret") {
			t.Errorf("says %q", m)
		}
		if t.Failed() {
			t.Fatalf("at %s %.100s", tt.method, tt.path)
		}
	}
	for _, media := range []string{"text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin1", "application/jsonx"} {
		refused(t, r.do("POST", wire.PathJobs, `{}`, "Content-Type", media), 415, wire.UnsupportedMedia)
	}
	refused(t, r.do("POST", wire.PathJobs, `{}`, "Content-Encoding", "gzip"), 415, wire.UnsupportedMedia)
	if !strings.Contains(r.log.String(), "secret inside") {
		t.Error("the log does not say why it panicked")
	}
	if a := r.do("HEAD", "/calc/zpe/jobs/x", nil); a.status != 404 || a.body != "" {
		t.Errorf("HEAD answered %d %q", a.status, a.body)
	}
}

func TestZ04PayloadThatIsNoGoodIsRefusedInItsCheckersWords(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) {
		r.plane.CheckPayload = func(b []byte) error {
			if strings.Contains(string(b), "bad") {
				return errors.New("structure.atoms[3].element: no such element: Xx")
			}
			return nil
		}
	})
	if m := refused(t, r.do("POST", wire.PathJobs, `{"bad":1}`), 400, wire.InvalidPayload); m != "structure.atoms[3].element: no such element: Xx" {
		t.Error(m)
	}
	if keys := r.keys(); len(keys) != 0 {
		t.Errorf("these keys were written: %q", keys)
	}
	r.submit()
}

func TestZ28SubmissionWithAKeyHappensOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	submit := func(body string, keys ...string) answer {
		var headers []string
		for _, k := range keys {
			headers = append(headers, "Idempotency-Key", k)
		}
		return r.do("POST", wire.PathJobs, body, headers...)
	}
	first := decode[wire.SubmitResponse](t, submit(`{"a":1}`, "k-1"))
	if again := decode[wire.SubmitResponse](t, submit(`{"a":1}`, "k-1")); again != first {
		t.Errorf("submitted %v, and again %v", first, again)
	}
	if other := decode[wire.SubmitResponse](t, submit(`{"a":1}`, "k-2")); other == first {
		t.Error("another key got the same job")
	}
	refused(t, submit(`{"a":2}`, "k-1"), 422, wire.IdempotencyReused)
	for _, bad := range [][]string{{""}, {"a b"}, {strings.Repeat("x", 256)}, {"é"}, {"a", "a"}, {"a", "b"}} {
		refused(t, submit(`{"a":1}`, bad...), 400, wire.InvalidPayload)
	}
	until(t, "2 jobs are queued", func() bool { return r.metric("batchfleet_gateway_queue_depth") == 2 })
}

func TestStrangersAreRefusedBeforeTheirBodyIsRead(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	w := r.worker()
	head := func(token, length string) string {
		return "POST /calc/zpe/compute/jobs/x/result HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nAuthorization: Bearer " + token + "\r\n" + length + "\r\n\r\n"
	}
	chunk := fmt.Sprintf("%x\r\n%s\r\n", 33<<10, strings.Repeat(" ", 33<<10))
	for name, text := range map[string]string{
		"announced, nothing sent": head("stranger", "Content-Length: 1000000"),
		"announced as too large":  head("stranger", "Content-Length: 99999999"),
		"announced as not large":  head("stranger", "Content-Length: 100000"),
		"malformed token, small":  head("a b", "Content-Length: 100"),
		"chunked without an end":  head("stranger", "Transfer-Encoding: chunked") + chunk + chunk,
		"malformed token":         head("a b", "Content-Length: 1000000"),
	} {
		t.Run(name, func(t *testing.T) {
			refused(t, r.raw(text), 401, wire.Unauthorized)
		})
	}
	for name, text := range map[string]string{
		"announced": head(w.token, "Content-Length: 99999999"),
		"chunked":   head(w.token, "Transfer-Encoding: chunked") + strings.Repeat(chunk, 1000),
	} {
		t.Run("a worker's too large body, "+name, func(t *testing.T) {
			refused(t, r.raw(text), 413, wire.PayloadTooLarge)
		})
	}
}

func TestResultWithTooManyKeysIsRefusedWhileItComes(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	w := r.worker()
	id := r.submit()
	head := fmt.Sprintf("POST /calc/zpe/compute/jobs/%s/result HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n", id, w.token, 31<<20)
	body := `{"lease_id":"` + w.lease().LeaseID + `","result":{` + strings.Repeat(`"k":1,`, 51_000) // and nothing more comes
	if m := refused(t, r.raw(head+body), 413, wire.PayloadTooLarge); m != "Body with more than 100000 keys and values" {
		t.Errorf("says %q", m)
	}
}

func TestLargeResultsAreTaken(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	w, g := r.leased()
	id := g.JobID
	body := done(g.LeaseID)
	body["freqs_csv"] = strings.Repeat("1,4296.01\n", 400_000) // 4 MB
	for range control.LargeOfOne + 1 {                         // each gives its place back
		if a := decode[wire.ReportResponse](t, w.report("result", id, body)); !a.OK {
			t.Error(a)
		}
	}
	if a := r.do("GET", "/calc/zpe/jobs/"+id+"/files?kind=freqs", nil); a.body != body["freqs_csv"] {
		t.Errorf("%d bytes came back", len(a.body))
	}
	for range 20 { // more than may be in hand at once: each gave its place back
		refused(t, w.report("result", id, done("x"+strings.Repeat("y", 100<<10))), 400, wire.InvalidPayload)
	}
	decode[wire.ReportResponse](t, w.report("result", id, body))
}

func TestZ79EveryLargeBodyGivesItsPlaceBack(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	id := r.submit()
	w := r.worker()
	g := w.lease()
	large := func(body map[string]any) map[string]any {
		body["unknown"] = strings.Repeat("x", 100<<10)
		return body
	}
	for _, tt := range []struct {
		path string
		body map[string]any
	}{
		{wire.PathLease, large(map[string]any{})},
		{"/calc/zpe/compute/jobs/" + id + "/heartbeat", large(map[string]any{"lease_id": g.LeaseID})},
		{"/calc/zpe/compute/jobs/" + id + "/failed", large(broken(g.LeaseID, "X"))},
	} {
		for n := range control.LargeOfOne + 1 {
			if a := w.post(tt.path, tt.body); a.status >= 300 {
				t.Fatalf("%s the %d. time: %d %s", tt.path, n+1, a.status, a.body)
			}
		}
	}
}

func TestZ79WaitForRoomForALargeBodyEnds(t *testing.T) {
	t.Parallel()
	testrun.Long(t, "it waits for seconds")
	r := newRig(t, nil)
	w := r.worker()
	id := r.submit()
	body := done(w.lease().LeaseID)
	body["summary_text"] = strings.Repeat("x", 100<<10)
	full := newRigOn(t, r.redis, func(r *rig) { r.queue.CallTimeout = 5 * time.Second })
	giveBack, err := control.TakeRoom(t.Context(), full.plane)
	if err != nil {
		t.Fatal(err)
	}
	w.rig = full
	a := w.report("result", id, body)
	if m := refused(t, a, 503, wire.Unavailable); m != "The gateway has as many large bodies on their way as it may have; try again later" || a.header.Get("Retry-After") != "5" {
		t.Errorf("says %q with Retry-After %q", m, a.header.Get("Retry-After"))
	}
	giveBack()
	until(t, "there is room", func() bool { return w.report("result", id, body).status == 200 })
}

func TestZ79ResultComesAlsoOverASlowLine(t *testing.T) {
	t.Parallel()
	testrun.Long(t, "it waits for seconds")
	r := newRig(t, nil)
	w := r.worker()
	id := r.submit()
	body := done(w.lease().LeaseID)
	body["summary_text"] = strings.Repeat("x", 200<<10)
	hasty := newRigOn(t, r.redis, func(r *rig) { // the body takes longer than either
		r.server.ReadTimeout, r.server.WriteTimeout = 1500*time.Millisecond, 2*time.Second
	})
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(hasty.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST /calc/zpe/compute/jobs/%s/result HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n", id, w.token, len(text))
	for piece := range slices.Chunk(text, len(text)/10+1) {
		time.Sleep(250 * time.Millisecond) // on the line
		if _, err := conn.Write(piece); err != nil {
			t.Fatalf("the gateway hung up: %v", err)
		}
	}
	_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("answered %+v", resp)
	}
}

func TestFieldsThatAlmostMatchDoNotCount(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	w, g := r.leased()
	id := g.JobID
	for _, body := range []string{
		`{"LEASE_ID":"` + g.LeaseID + `","result":{},"summary_text":"","freqs_csv":""}`,
		`{"lease_id":"` + g.LeaseID + `","Result":{},"summary_text":"","freqs_csv":""}`,
		`{"lease_id":"` + g.LeaseID + `","lease_id":"x","result":{},"summary_text":"","freqs_csv":""}`,
		`{"lease_id":"` + g.LeaseID + `","result":{},"result":{},"summary_text":"","freqs_csv":""}`,
		`{"lease_id":["` + g.LeaseID + `"],"result":{},"summary_text":"","freqs_csv":""}`,
		`{"lease_id":"` + g.LeaseID + `","result":{},"summary_text":5,"freqs_csv":""}`,
		`{"lease_id":"` + g.LeaseID + `","result":{},"summary_text":"","freqs_csv":"","worker_id":{}}`,
	} {
		refused(t, w.report("result", id, body), 400, wire.InvalidPayload)
	}
	if j := r.job(id); j.Status != "started" {
		t.Errorf("job: %+v", j)
	}
}
