package otlp

import (
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/trace"
)

func TestD32Settings(t *testing.T) {
	const endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318"
	tests := []struct{ name, env, endpoint, wrong string }{
		{"none", "", "", ""},
		{"headers alone", "OTEL_EXPORTER_OTLP_HEADERS=a=b", "", ""},
		{"an address", endpoint, "http://127.0.0.1:4318/v1/traces", ""},
		{"an address with a path", "OTEL_EXPORTER_OTLP_ENDPOINT=https://host/otlp/", "https://host/otlp/v1/traces", ""},
		{"an address for traces", endpoint + " OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=https://host/in?x=1", "https://host/in?x=1", ""},
		{"disabled", endpoint + " OTEL_SDK_DISABLED=True", "", ""},
		{"no exporter", endpoint + " OTEL_TRACES_EXPORTER=none", "", ""},
		{"no address", "OTEL_EXPORTER_OTLP_ENDPOINT=localhost:4318", "", "OTEL_EXPORTER_OTLP_ENDPOINT"},
		{"another scheme", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=ftp://me:letmein@host/", "", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"},
		{"no host", "OTEL_EXPORTER_OTLP_ENDPOINT=http://", "", "OTEL_EXPORTER_OTLP_ENDPOINT"},
		{"gRPC", endpoint + " OTEL_EXPORTER_OTLP_PROTOCOL=grpc", "", "OTEL_EXPORTER_OTLP_PROTOCOL"},
		{"protobuf", endpoint + " OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf", "http://127.0.0.1:4318/v1/traces", ""},
		{"headers", endpoint + " OTEL_EXPORTER_OTLP_HEADERS=authorization=Basic%20letmein,x=%2C", "http://127.0.0.1:4318/v1/traces", ""},
		{"headers without =", endpoint + " OTEL_EXPORTER_OTLP_HEADERS=letmein", "", "OTEL_EXPORTER_OTLP_HEADERS"},
		{"headers with a line end", endpoint + " OTEL_EXPORTER_OTLP_HEADERS=a=letmein%0d%0ab:c", "", "OTEL_EXPORTER_OTLP_HEADERS"},
		{"headers with a bad key", endpoint + " OTEL_EXPORTER_OTLP_TRACES_HEADERS=a:letmein=b", "", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"},
		{"a bad resource", endpoint + " OTEL_RESOURCE_ATTRIBUTES=%zz=1", "", "OTEL_RESOURCE_ATTRIBUTES"},
		{"a bad sampler", endpoint + " OTEL_TRACES_SAMPLER=some", "", "OTEL_TRACES_SAMPLER"},
		{"a bad ratio", endpoint + " OTEL_TRACES_SAMPLER=traceidratio OTEL_TRACES_SAMPLER_ARG=NaN", "", "OTEL_TRACES_SAMPLER_ARG"},
		{"a large ratio", endpoint + " OTEL_TRACES_SAMPLER=traceidratio OTEL_TRACES_SAMPLER_ARG=1.5", "", "OTEL_TRACES_SAMPLER_ARG"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := Read(environment(tt.env))
			switch {
			case tt.wrong != "":
				if err == nil || !strings.Contains(err.Error(), tt.wrong) || strings.Contains(err.Error(), "letmein") {
					t.Errorf("error %v, want one of %s", err, tt.wrong)
				}
			case err != nil:
				t.Error(err)
			case tt.endpoint == "" && s != nil:
				t.Errorf("settings %+v, want none", s)
			case tt.endpoint != "" && s.Endpoint.String() != tt.endpoint:
				t.Errorf("endpoint %s, want %s", s.Endpoint, tt.endpoint)
			}
		})
	}
}

func environment(text string) func(string) string {
	env := map[string]string{}
	for pair := range strings.FieldsSeq(text) {
		name, value, _ := strings.Cut(pair, "=")
		env[name] = value
	}
	return func(name string) string { return env[name] }
}

func TestD32HeadersResourceAndSampler(t *testing.T) {
	const base = "OTEL_EXPORTER_OTLP_ENDPOINT=http://h OTEL_EXPORTER_OTLP_HEADERS=authorization=Basic%20abc,x=1 OTEL_SERVICE_NAME=mine OTEL_RESOURCE_ATTRIBUTES=a=b%2Cc "
	for sampler, want := range map[string]trace.Sampling{
		"": {Ratio: 1, ByParent: true}, "parentbased_always_on": {Ratio: 1, ByParent: true}, "parentbased_always_off": {ByParent: true},
		"always_on": {Ratio: 1}, "always_off": {}, "traceidratio": {Ratio: 0.25}, "parentbased_traceidratio": {Ratio: 0.25, ByParent: true},
	} {
		s, err := Read(environment(base + "OTEL_TRACES_SAMPLER=" + sampler + " OTEL_TRACES_SAMPLER_ARG=0.25"))
		if err != nil || s.Sampling != want {
			t.Errorf("sampler %q is %+v, %v", sampler, s.Sampling, err)
		}
		if s.Header.Get("Authorization") != "Basic abc" || s.Header.Get("X") != "1" || s.Service != "mine" || s.Resource[0] != (trace.Attr{Key: "a", Text: "b,c"}) {
			t.Errorf("settings %+v", s)
		}
	}
}
