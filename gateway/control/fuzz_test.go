package control

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/httpd"
)

// FuzzReports reads any text as each of the bodies that workers send. What is
// taken must be within its limits and must be storable.
func FuzzReports(f *testing.F) {
	for _, s := range []string{
		`{"lease_id":"a","result":{"x":1e-17},"summary_text":"s","freqs_csv":"f","meta":{"computation_time_seconds":1,"timestamp":"2026-02-18T09:30:00Z"}}`,
		`{"lease_id":"a","error_code":"QE_RUNTIME_ERROR","error_message":"m","traceback":"t","retryable":false}`,
		`{"features":["renew"],"wait_seconds":3e1,"request_id":"x.y"}`,
		`{"lease_id":"a","progress":{"done":1,"total":2},"message":"é"}`,
		`{"meta":{"worker_hostname":"` + strings.Repeat("é", 150) + `"},"result":{},"summary_text":"","freqs_csv":""}`,
		`{"max":64}`, `{"results":[{"job_id":"a","lease_id":"l","result":{},"summary_text":"","freqs_csv":""},{"job_id":"../b"}]}`,
		`{"heartbeats":[{"job_id":"a","lease_id":"l","progress":{"done":1,"total":2},"message":"é"},{"job_id":"index"}]}`,
		`{"token":"zpe_x","name":"n","meta":{"a":[null]}}`, ``, `null`, `{"result":null}`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		read := func(v any) bool {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(text))
			r.Header.Set("Content-Type", "application/json")
			return httpd.ReadJSON(httptest.NewRecorder(), r, 1<<20, v, httpd.BodyOptions{AllowEmpty: true, IgnoreUnknown: true}) == nil
		}
		short := func(what, s string, limit int) {
			if len(s) > limit || !utf8.ValidString(s) {
				t.Errorf("%s is kept as %q", what, s)
			}
		}
		var result wire.ResultRequest
		if read(&result) {
			if r, err := parseResult(&result); err == nil {
				var meta wire.Meta
				if _, err := httpd.CanonicalJSON([]byte(r.JSON)); err != nil || r.JSON[0] != '{' || json.Unmarshal([]byte(r.Meta), &meta) != nil {
					t.Errorf("kept result %q with meta %q: %v", r.JSON, r.Meta, err)
				}
				short("host", meta.WorkerHostname, wire.MaxName)
				short("version", meta.QEVersion, wire.MaxName)
			}
		}
		var failed wire.FailedRequest
		if read(&failed) {
			if f, err := parseFailed(&failed); err == nil {
				short("code", f.Code, wire.MaxErrorCode)
				short("message", f.Message, wire.MaxErrorMessage)
				short("traceback", f.Traceback, wire.MaxTraceback)
				if f.Code == "" || f.RetryPolicy == "" {
					t.Errorf("failure %+v", f)
				}
			}
		}
		var lease wire.LeaseRequest
		if read(&lease) {
			if ask, err := parseLease(&lease); err == nil && (ask.most < 1 || ask.most > wire.MaxBatch || ask.wait < 0 || ask.wait.Seconds() > wire.MaxWait || strings.ContainsAny(ask.RequestID, ": \n")) {
				t.Errorf("lease %+v waits %s", ask, ask.wait)
			}
		}
		var heartbeat wire.HeartbeatRequest
		if read(&heartbeat) {
			if b, err := parseHeartbeat(&heartbeat); err == nil {
				short("message", b.Message, wire.MaxErrorMessage)
				if b.Done < 0 || b.Total < 0 || b.wait < 0 || b.wait.Seconds() > wire.MaxWait {
					t.Errorf("beat %+v waits %s", b, b.wait)
				}
			}
		}
		var results wire.ResultsRequest
		if read(&results) {
			if all, err := parseResults(&results); err == nil {
				for _, r := range all {
					if r.err == nil && (r.job == "" || !isWord(r.lease) || r.what.JSON[0] != '{') {
						t.Errorf("one of several results: %+v", r)
					}
				}
			}
		}
		var heartbeats wire.HeartbeatsRequest
		if read(&heartbeats) {
			if all, err := parseHeartbeats(&heartbeats); err == nil {
				for _, h := range all {
					if h.err == nil && (h.job == "" || !isWord(h.lease)) {
						t.Errorf("one of several heartbeats: %+v", h)
					}
					short("message", h.what.Message, wire.MaxErrorMessage)
				}
			}
		}
		var register wire.RegisterRequest
		if read(&register) && checkRegister(&register, true) == nil {
			short("name", register.Name, wire.MaxName)
			if !json.Valid(register.Meta) {
				t.Errorf("meta %q", register.Meta)
			}
		}
	})
}
