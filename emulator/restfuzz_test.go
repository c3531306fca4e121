package emulator

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// furnishing are requests that leave a server with one of everything.
var furnishing = []struct{ method, path, body string }{
	{"PUT", "/v1/projects/test/topics/jobs", `{"labels":{"a":"b"},"messageRetentionDuration":"3600s"}`},
	{"PUT", "/v1/projects/test/subscriptions/jobs", `{"topic":"projects/test/topics/jobs","enableMessageOrdering":true,"retainAckedMessages":true}`},
	{"PUT", "/v1/projects/test/subscriptions/exact", `{"topic":"projects/test/topics/jobs","enableExactlyOnceDelivery":true,"filter":"attributes:k",
		"retryPolicy":{"minimumBackoff":"1s"},"deadLetterPolicy":{"deadLetterTopic":"projects/test/topics/jobs","maxDeliveryAttempts":5}}`},
	{"POST", "/v1/projects/test/topics/jobs:publish", `{"messages":[{"data":"eA==","attributes":{"k":"v"},"orderingKey":"o"},{"data":"eQ=="}]}`},
	{"POST", "/v1/projects/test/subscriptions/jobs:pull", `{"maxMessages":1}`},
	{"PUT", "/v1/projects/test/snapshots/snap", `{"subscription":"projects/test/subscriptions/jobs"}`},
	{"POST", "/v1/projects/test/schemas?schemaId=person", `{"type":"AVRO","definition":"{\"type\":\"record\",\"name\":\"P\",\"fields\":[{\"name\":\"n\",\"type\":\"string\"}]}"}`},
}

// FuzzRESTServer sends any one request to a server that has one of everything.
func FuzzRESTServer(f *testing.F) {
	for _, r := range furnishing {
		path, query, _ := strings.Cut(r.path, "?")
		f.Add(r.method, path, query, []byte(r.body))
	}
	for _, seed := range []struct{ method, path, query, body string }{
		{"PATCH", "/v1/projects/test/topics/jobs", "", `{"topic":{"labels":{"c":"d"}},"updateMask":"labels,schemaSettings.encoding"}`},
		{"PATCH", "/v1/projects/test/subscriptions/jobs", "", `{"subscription":{"retryPolicy":{"maximumBackoff":"9s"}},"updateMask":"retryPolicy.maximumBackoff"}`},
		{"GET", "/v1/projects/test/topics", "pageSize=1&pageToken=YQ&%24alt=json%3Benum-encoding%3Dint", ""},
		{"GET", "/v1/projects/test/topics/jobs/snapshots", "", ""},
		{"POST", "/v1/projects/test/subscriptions/jobs:acknowledge", "", `{"ackIds":["00000000000000000000000000000001"]}`},
		{"POST", "/v1/projects/test/subscriptions/exact:modifyAckDeadline", "", `{"ackIds":["00000000000000000000000000000001"],"ackDeadlineSeconds":9}`},
		{"POST", "/v1/projects/test/subscriptions/jobs:seek", "", `{"time":"2026-01-01T00:00:00.000000001Z"}`},
		{"POST", "/v1/projects/test/subscriptions/jobs:seek", "", `{"snapshot":"projects/test/snapshots/snap"}`},
		{"POST", "/v1/projects/test/schemas:validateMessage", "", `{"name":"projects/test/schemas/person","message":"AmE=","encoding":"BINARY"}`},
		{"POST", "/v1/projects/test/schemas:validate", "", `{"schema":{"type":"PROTOCOL_BUFFER","definition":"syntax=\"proto3\";message A{string b=1;}"}}`},
		{"POST", "/v1/projects/test/schemas/person:commit", "", `{"schema":{"name":"projects/test/schemas/person","type":"AVRO","definition":"\"int\""}}`},
		{"DELETE", "/v1/projects/test/schemas/person@0:deleteRevision", "revisionId=0", ""},
		{"DELETE", "/v1/projects/test/schemas/x:deleteRevision", "revision_id=%zz&$alt=json", "{}"},
		{"DELETE", "/v1/projects/test/topics/jobs", "", ""},
		{"GET", "/stats", "", ""},
		{"HEAD", "/healthz", "x", ""},
	} {
		f.Add(seed.method, seed.path, seed.query, []byte(seed.body))
	}
	f.Fuzz(func(t *testing.T, method, path, query string, body []byte) {
		s := New(Config{Log: slog.New(slog.DiscardHandler)})
		h := s.handler([]any{publisher{s.broker}, subscriber{s.broker, new(sync.WaitGroup)}, schemas{s.broker}})
		ask := func(within time.Duration, method, path, query string, body []byte) *httptest.ResponseRecorder {
			u, err := url.Parse("http://x" + path)
			if err != nil {
				return nil // net/http answers such a request by itself
			}
			if query != "" {
				u.RawQuery = query
			}
			ctx, cancel := context.WithTimeout(t.Context(), within)
			defer cancel()
			req := &http.Request{Method: method, URL: u, Body: io.NopCloser(bytes.NewReader(body)), Header: http.Header{}}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, req.WithContext(ctx))
			return w
		}
		for _, r := range furnishing {
			if w := ask(time.Minute, r.method, r.path, "", []byte(r.body)); w.Code != http.StatusOK {
				t.Fatalf("%s %s: %d %s", r.method, r.path, w.Code, w.Body)
			}
		}
		within := time.Minute
		if strings.HasSuffix(path, ":pull") { // it waits for a message
			within = 20 * time.Millisecond
		}
		w := ask(within, method, path, query, body)
		if w == nil {
			return
		}
		isJSON := strings.HasPrefix(w.Header().Get("Content-Type"), "application/json")
		if isJSON && !json.Valid(w.Body.Bytes()) {
			t.Errorf("answer %d %q is not JSON", w.Code, w.Body)
		}
		if !isJSON && path != "/healthz" && path != "/metrics" {
			t.Errorf("answer %d has type %q", w.Code, w.Header().Get("Content-Type"))
		}
		switch w.Code {
		case http.StatusNotImplemented:
		case http.StatusGatewayTimeout: // a pull that waited for as long as it could
			if !strings.HasSuffix(path, ":pull") {
				t.Errorf("answer %q to %s", w.Body, path)
			}
		default:
			if w.Code >= 500 {
				t.Errorf("answer %d %q to a bad request", w.Code, w.Body)
			}
		}
	})
}
