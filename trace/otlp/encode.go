package otlp

import (
	"encoding/json"
	"strconv"

	"github.com/batchfleet/batchfleet/redact"
	"github.com/batchfleet/batchfleet/trace"
)

// The message of OTLP, in JSON: numbers of 64 bits are strings, ids are hexadecimal.
type (
	exportRequest struct {
		ResourceSpans []resourceSpans `json:"resourceSpans"`
	}
	resourceSpans struct {
		Resource   resource     `json:"resource"`
		ScopeSpans []scopeSpans `json:"scopeSpans"`
	}
	resource struct {
		Attributes []attribute `json:"attributes"`
	}
	scopeSpans struct {
		Scope scope  `json:"scope"`
		Spans []span `json:"spans"`
	}
	scope struct {
		Name    string `json:"name"`
		Version string `json:"version,omitempty"`
	}
	span struct {
		Trace      string      `json:"traceId"`
		Span       string      `json:"spanId"`
		Parent     string      `json:"parentSpanId,omitempty"`
		Name       string      `json:"name"`
		Kind       trace.Kind  `json:"kind"`
		Began      string      `json:"startTimeUnixNano"`
		Ended      string      `json:"endTimeUnixNano"`
		Attributes []attribute `json:"attributes,omitempty"`
		Status     *spanStatus `json:"status,omitempty"`
	}
	spanStatus struct {
		Code    int    `json:"code"`
		Message string `json:"message,omitempty"`
	}
	attribute struct {
		Key   string `json:"key"`
		Value value  `json:"value"`
	}
	value struct {
		Text   *string `json:"stringValue,omitempty"`
		Number *string `json:"intValue,omitempty"`
	}
)

// statusError is that of a span that has failed.
const statusError = 2

// encode returns the body of a request, without secrets that package redact knows.
func (e *Exporter) encode(batch []*trace.Span) ([]byte, error) {
	spans := make([]span, len(batch))
	for i, s := range batch {
		spans[i] = span{
			Trace: s.Context.Trace.String(), Span: s.Context.Span.String(), Name: s.Name, Kind: s.Kind,
			Began: strconv.FormatInt(s.Began.UnixNano(), 10), Ended: strconv.FormatInt(s.Ended.UnixNano(), 10),
			Attributes: attributes(s.Attrs),
		}
		if s.Parent != (trace.SpanID{}) {
			spans[i].Parent = s.Parent.String()
		}
		if s.Failed {
			spans[i].Status = &spanStatus{statusError, redact.Reason(s.Reason)}
		}
	}
	return json.Marshal(exportRequest{[]resourceSpans{{
		Resource:   resource{attributes(e.Resource)},
		ScopeSpans: []scopeSpans{{scope{"batchfleet", e.Version}, spans}},
	}}})
}

func attributes(attrs []trace.Attr) []attribute {
	all := make([]attribute, 0, len(attrs))
	for _, a := range attrs {
		one := attribute{Key: a.Key}
		if a.Numeric {
			one.Value.Number = new(strconv.FormatInt(a.Number, 10))
		} else {
			one.Value.Text = new(redact.Text(a.Text))
		}
		all = append(all, one)
	}
	return all
}
