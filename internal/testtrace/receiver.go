package testtrace

import (
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/trace"
)

// Receiver is a collector of OTLP over HTTP. What it refuses fails its test.
type Receiver struct {
	Spans
	URL string // for OTEL_EXPORTER_OTLP_ENDPOINT
	t   *testing.T
}

// Listen returns a receiver that runs until the test ends.
func Listen(t *testing.T) *Receiver {
	t.Helper()
	r := &Receiver{t: t}
	srv := httptest.NewServer(r)
	t.Cleanup(srv.Close)
	r.URL = srv.URL
	return r
}

// Service returns who has sent a span.
func Service(s *trace.Span) string { return Get(s, "service.name") }

// Services returns who has sent spans of a trace.
func (r *Receiver) Services(id string) []string {
	var all []string
	for _, s := range r.All(id) {
		all = append(all, Service(s))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

type received struct {
	ResourceSpans []struct {
		Resource struct {
			Attributes []receivedAttr `json:"attributes"`
		} `json:"resource"`
		ScopeSpans []struct {
			Spans []receivedSpan `json:"spans"`
		} `json:"scopeSpans"`
	} `json:"resourceSpans"`
}

type receivedSpan struct {
	TraceID           string         `json:"traceId"`
	SpanID            string         `json:"spanId"`
	ParentSpanID      string         `json:"parentSpanId"`
	Name              string         `json:"name"`
	Kind              int            `json:"kind"`
	StartTimeUnixNano string         `json:"startTimeUnixNano"`
	EndTimeUnixNano   string         `json:"endTimeUnixNano"`
	Attributes        []receivedAttr `json:"attributes"`
	Status            struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"status"`
}

type receivedAttr struct {
	Key   string `json:"key"`
	Value struct {
		StringValue string `json:"stringValue"`
		IntValue    string `json:"intValue"`
	} `json:"value"`
}

// ServeHTTP implements [http.Handler].
func (r *Receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	var body received
	if err := json.NewDecoder(req.Body).Decode(&body); err != nil || req.Method != http.MethodPost || req.URL.Path != "/v1/traces" || req.Header.Get("Content-Type") != "application/json" {
		r.t.Errorf("%s %s is no request of OTLP: %v", req.Method, req.URL, err)
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	for _, of := range body.ResourceSpans {
		for _, scope := range of.ScopeSpans {
			for _, s := range scope.Spans {
				r.Add(r.span(s, of.Resource.Attributes))
			}
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte(`{"partialSuccess":{}}`))
}

// span returns what was received, with the attributes of its process.
func (r *Receiver) span(s receivedSpan, of []receivedAttr) *trace.Span {
	got := &trace.Span{
		Name: s.Name, Kind: trace.Kind(s.Kind), Began: r.moment(s.StartTimeUnixNano), Ended: r.moment(s.EndTimeUnixNano),
		Failed: s.Status.Code == 2, Reason: s.Status.Message,
	}
	for _, id := range []struct {
		into []byte
		text string
	}{{got.Context.Trace[:], s.TraceID}, {got.Context.Span[:], s.SpanID}, {got.Parent[:], s.ParentSpanID}} {
		if b, err := hex.DecodeString(id.text); err != nil || len(b) != len(id.into) && len(b) > 0 || copy(id.into, b) < 0 {
			r.t.Errorf("span %s has id %q", s.Name, id.text)
		}
	}
	for _, a := range slices.Concat(s.Attributes, of) {
		got.Attrs = append(got.Attrs, trace.Attr{Key: a.Key, Text: a.Value.StringValue + a.Value.IntValue})
	}
	return got
}

func (r *Receiver) moment(nanoseconds string) time.Time {
	n, err := strconv.ParseInt(nanoseconds, 10, 64)
	if err != nil {
		r.t.Errorf("%q is no time in nanoseconds", nanoseconds)
	}
	return time.Unix(0, n)
}
