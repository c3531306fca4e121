package otlp

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/batchfleet/batchfleet/trace"
)

// Env are the variables of OpenTelemetry that are heeded, by their usual names. Others are ignored.
type Env struct {
	Endpoint       string `envconfig:"OTEL_EXPORTER_OTLP_ENDPOINT" doc:"address of a collector of traces that takes OTLP over HTTP, such as http://localhost:4318, to which v1/traces is added; no traces when empty"`
	TracesEndpoint string `envconfig:"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT" doc:"the whole address for traces, in place of the one above"`
	Headers        string `envconfig:"OTEL_EXPORTER_OTLP_HEADERS" doc:"what is sent with each request, as key=value separated by commas, percent-encoded: mostly a token"`
	TracesHeaders  string `envconfig:"OTEL_EXPORTER_OTLP_TRACES_HEADERS" doc:"the same, in its place"`
	CAFile         string `envconfig:"OTEL_EXPORTER_OTLP_CERTIFICATE" doc:"certificates in PEM to trust for it beside the system's"`
	Service        string `envconfig:"OTEL_SERVICE_NAME" doc:"the name under which spans are shown; the program's and the command's, such as batchfleet-worker, when empty"`
	Resource       string `envconfig:"OTEL_RESOURCE_ATTRIBUTES" doc:"what is said of this process, as key=value separated by commas, percent-encoded"`
	Sampler        string `envconfig:"OTEL_TRACES_SAMPLER" default:"parentbased_always_on" doc:"which traces are recorded: always_on, always_off, traceidratio, or one of them for traces that begin here: parentbased_always_on, parentbased_always_off, parentbased_traceidratio"`
	SamplerArg     string `envconfig:"OTEL_TRACES_SAMPLER_ARG" doc:"of traceidratio: which part of the traces, from 0 to 1; 1 when empty"`
	Exporter       string `envconfig:"OTEL_TRACES_EXPORTER" doc:"none: no traces"`
	Disabled       string `envconfig:"OTEL_SDK_DISABLED" doc:"true: no traces"`
}

// Settings are where spans go, and which.
type Settings struct {
	Endpoint *url.URL    // the whole address
	Header   http.Header // of each request; secret
	CAFile   string
	Service  string
	Resource []trace.Attr
	Sampling trace.Sampling
}

// Read returns the settings in an environment; nil when no traces are wanted. An error never has an
// address or a header in it: they may hold secrets.
func Read(getenv func(string) string) (*Settings, error) {
	traces, all := getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), getenv("OTEL_EXPORTER_OTLP_ENDPOINT")
	name, address := "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", traces
	if address == "" {
		name, address = "OTEL_EXPORTER_OTLP_ENDPOINT", all
	}
	if address == "" || strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true") || getenv("OTEL_TRACES_EXPORTER") == "none" {
		return nil, nil //nolint:nilnil // no traces are wanted
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return nil, fmt.Errorf("%s is no address of OTLP over HTTP: want http://host:4318 or https://host", name)
	}
	if traces == "" {
		u = u.JoinPath("v1", "traces")
	}
	s := &Settings{Endpoint: u, Header: http.Header{}, CAFile: getenv("OTEL_EXPORTER_OTLP_CERTIFICATE"), Service: getenv("OTEL_SERVICE_NAME")}
	name = "OTEL_EXPORTER_OTLP_TRACES_HEADERS"
	if getenv(name) == "" {
		name = "OTEL_EXPORTER_OTLP_HEADERS"
	}
	headers, err := pairs(getenv(name))
	if err != nil {
		return nil, fmt.Errorf("%s %w", name, err)
	}
	for _, h := range headers {
		if strings.ContainsFunc(h.Key, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`()<>@,;:\"/[]?={}`, r) }) ||
			strings.ContainsFunc(h.Text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return nil, fmt.Errorf("%s has a key or a value that no header can have", name)
		}
		s.Header.Set(h.Key, h.Text)
	}
	if s.Resource, err = pairs(getenv("OTEL_RESOURCE_ATTRIBUTES")); err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES %w", err)
	}
	if protocol := getenv("OTEL_EXPORTER_OTLP_PROTOCOL"); protocol == "grpc" {
		return nil, errors.New("OTEL_EXPORTER_OTLP_PROTOCOL is grpc: only OTLP over HTTP is spoken here, mostly at port 4318")
	}
	s.Sampling, err = sampling(getenv("OTEL_TRACES_SAMPLER"), getenv("OTEL_TRACES_SAMPLER_ARG"))
	return s, err
}

func sampling(sampler, arg string) (s trace.Sampling, err error) {
	which, byParent := strings.CutPrefix(sampler, "parentbased_")
	s.ByParent = byParent || sampler == ""
	switch which {
	case "", "always_on":
		s.Ratio = 1
	case "always_off":
	case "traceidratio":
		if s.Ratio = 1; arg == "" {
			break
		}
		if s.Ratio, err = strconv.ParseFloat(arg, 64); err != nil || !(0 <= s.Ratio && s.Ratio <= 1) {
			return s, fmt.Errorf("OTEL_TRACES_SAMPLER_ARG is %.40q: want a number from 0 to 1", arg)
		}
	default:
		return s, fmt.Errorf("OTEL_TRACES_SAMPLER is %.40q: want always_on, always_off, traceidratio, parentbased_always_on, parentbased_always_off or parentbased_traceidratio", sampler)
	}
	return s, nil
}

// pairs reads key=value, separated by commas and percent-encoded, as W3C Baggage has them.
func pairs(text string) (all []trace.Attr, err error) {
	for pair := range strings.SplitSeq(text, ",") {
		if pair = strings.TrimSpace(pair); pair == "" {
			continue
		}
		key, value, ok := strings.Cut(pair, "=")
		key, err := url.PathUnescape(strings.TrimSpace(key))
		value, err2 := url.PathUnescape(strings.TrimSpace(value))
		if !ok || key == "" || errors.Join(err, err2) != nil {
			return nil, errors.New("is no list of key=value, separated by commas and percent-encoded")
		}
		all = append(all, trace.Attr{Key: key, Text: value})
	}
	return all, nil
}
