package gateway

import (
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/httpd/client"
	"github.com/batchfleet/batchfleet/jobs"
)

func FuzzTokenFile(f *testing.F) {
	f.Add([]byte(`{"gateway":"https://g","worker_id":"w","token":"zpw_12345678","issued_at":"2026-01-02T03:04:05Z","expires_at":"2026-01-09T03:04:05Z"}`))
	f.Add([]byte("zpw_12345678\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		tok, err := parseToken(text)
		if err != nil {
			return
		}
		if strings.ContainsAny(tok.Token, "\r\n \x00") || len(tok.Token) > maxTokenSize {
			t.Errorf("token %q cannot be sent", tok.Token)
		}
		_ = tok.rotateAt()
		again, err := json.Marshal(tok)
		if err != nil {
			return // a year beyond 9999
		}
		if got, err := parseToken(again); err == nil && got.Token != tok.Token {
			t.Errorf("%q became %q", tok.Token, got.Token)
		}
	})
}

func FuzzState(f *testing.F) {
	yes := true
	for _, e := range []entry{
		{Version: 1, JobID: "j1", LeaseID: "L", TTLSeconds: 600, State: stepRunning},
		{Version: 1, JobID: "j1", LeaseID: "L", TTLSeconds: 600, State: stepResult, Object: "results/j1/result.json"},
		{Version: 1, JobID: "j1", LeaseID: "L", TTLSeconds: 600, State: stepFailed, Failed: &wire.FailedRequest{LeaseID: "L", ErrorCode: "X", ErrorMessage: "x", Retryable: &yes}},
	} {
		text, err := httpd.EncodeJSON(e)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		e, err := parseEntry(text)
		if err != nil {
			return
		}
		if _, err := jobs.ParseID(string(e.JobID)); err != nil || strings.ContainsAny(e.file(), "/\\") || e.ttl() <= 0 {
			t.Errorf("accepted %+v", e)
		}
		again, err := httpd.EncodeJSON(e)
		if err != nil {
			return // a year beyond 9999
		}
		if got, err := parseEntry(again); err != nil || !reflect.DeepEqual(got, e) {
			t.Errorf("%+v became %+v, %v", e, got, err)
		}
	})
}

func FuzzAnswer(f *testing.F) {
	for _, body := range []string{
		`{"job_id":"j1","payload":{},"lease_id":"L","lease_ttl_seconds":600,"retry_count":0}`,
		`{"error":{"code":"LEASE_LOST","message":"x","details":{}}}`,
		`{"lease_id":"L","lease_ttl_seconds":1e999}`,
		`{"jobs":[{"job_id":"j1","payload":{},"lease_id":"L","lease_ttl_seconds":600,"retry_count":0}]}`, `{"jobs":[]}`,
		`{"results":[{"job_id":"j1","ok":true,"idempotent":false}]}`, `{"results":[{"job_id":"j1","status":409,"error":{"code":"LEASE_LOST","message":"x","details":{}}}]}`,
		`{"heartbeats":[{"job_id":"j1","lease_id":"L","lease_ttl_seconds":600,"expires_at":1,"cancel_requested":true}]}`,
		`<html>`, `{`, `null`, `[[[[`,
	} {
		f.Add(200, "application/json", "3", body)
		f.Add(409, "application/json; charset=utf-8", "Mon, 02 Jan 2006 15:04:05 GMT", body)
		f.Add(302, "text/html", "-1", body)
	}
	f.Fuzz(func(t *testing.T, status int, kind, after, body string) {
		resp := &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {kind}, "Retry-After": {after}, "Location": {body}}}
		for _, into := range []interface{ checked() error }{&leaseChecked{}, &beatChecked{}, &registerChecked{}, &failedChecked{}, &leasesChecked{}, &resultsChecked{}, &beatsChecked{}} {
			none, err := readResponse(resp, []byte(body), call{response: into, empty: true})
			if err == nil && !none {
				err = into.checked()
			}
			if err == nil {
				continue
			}
			if e := (*Error)(nil); errors.As(err, &e) && (e.RetryAfter < 0 || e.RetryAfter > client.MaxRetryAfter || e.Status != status && status != 200) {
				t.Errorf("status %d: %+v", status, e)
			}
			if len(err.Error()) > 3000 || !utf8.ValidString(client.Hide(err).Error()) {
				t.Errorf("%d bytes of error: %q", len(err.Error()), err)
			}
		}
	})
}

type (
	leaseChecked    struct{ wire.LeaseResponse }
	beatChecked     struct{ wire.HeartbeatResponse }
	registerChecked struct{ wire.RegisterResponse }
	failedChecked   struct{ wire.FailedResponse }
	leasesChecked   struct{ wire.LeasesResponse }
	resultsChecked  struct{ wire.ResultsResponse }
	beatsChecked    struct{ wire.HeartbeatsResponse }
)

func (a *leaseChecked) checked() error    { return checkLease(&a.LeaseResponse) }
func (a *beatChecked) checked() error     { return nil }
func (a *registerChecked) checked() error { return checkRegister(&a.RegisterResponse) }
func (a *failedChecked) checked() error   { return nil }
func (a *leasesChecked) checked() error   { return checkLeases(a.Jobs) }

func (a *resultsChecked) checked() error {
	answers, err := resultAnswers([]wire.JobResult{{JobID: "j1"}}, a.ResultsResponse)
	if err == nil {
		err = answers[0].Err
	}
	return err
}

func (a *beatsChecked) checked() error {
	answers, err := heartbeatAnswers([]wire.JobHeartbeat{{JobID: "j1", HeartbeatRequest: wire.HeartbeatRequest{LeaseID: "L"}}}, a.HeartbeatsResponse)
	if err == nil {
		err = answers[0].Err
	}
	return err
}
