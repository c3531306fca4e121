package trace

import (
	"strings"
	"time"
)

// Kind is what a span is, as OTLP counts.
type Kind int

// The kinds of spans.
const (
	Internal Kind = iota + 1
	Server        // of a request that came in
	Client        // of a request that went out
	Producer      // queues what others take
	Consumer      // takes what others have queued
)

// maxValue bounds the text of an attribute, and why a span has failed, in bytes.
const maxValue = 1 << 10

// Attr is an attribute of a span: a text, or a number.
type Attr struct {
	Key     string
	Text    string
	Number  int64
	Numeric bool
}

// Span is a piece of work: it begins with [Start] and ends with End. It belongs to one goroutine at a
// time. All methods may be called on nil, which is a span that is not recorded.
type Span struct {
	Context Context
	Parent  SpanID // zero for the first one of a trace
	Name    string
	Kind    Kind
	Began   time.Time
	Ended   time.Time
	Attrs   []Attr
	Failed  bool
	Reason  string // why it has failed

	tracer *Tracer
}

// Set adds an attribute, unless value is empty.
func (s *Span) Set(key, value string) {
	if s != nil && value != "" {
		s.Attrs = append(s.Attrs, Attr{Key: key, Text: clip(value)})
	}
}

// SetNumber adds an attribute.
func (s *Span) SetNumber(key string, n int) {
	if s != nil {
		s.Attrs = append(s.Attrs, Attr{Key: key, Number: int64(n), Numeric: true})
	}
}

// Since makes the span begin earlier than it was made.
func (s *Span) Since(began time.Time) {
	if s != nil && !began.IsZero() && began.Before(s.Began) {
		s.Began = began
	}
}

// Fail records that the work has failed, and why.
func (s *Span) Fail(reason string) {
	if s != nil {
		s.Failed, s.Reason = true, clip(reason)
	}
}

// End records the span. A second End changes nothing.
func (s *Span) End() {
	if s == nil || !s.Ended.IsZero() {
		return
	}
	if s.Ended = time.Now(); s.Ended.Before(s.Began) {
		s.Ended = s.Began
	}
	s.tracer.Export(s)
}

// EndWith is End of a span that has failed unless err is nil.
func (s *Span) EndWith(err error) {
	if s != nil && err != nil {
		s.Fail(err.Error())
	}
	s.End()
}

func clip(text string) string {
	if len(text) <= maxValue {
		return strings.Clone(text) // not a part of something large
	}
	return strings.ToValidUTF8(text[:maxValue], "")
}
