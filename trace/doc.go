// Package trace follows a job over the programs that handle it, in spans as OpenTelemetry has them. A
// [Context] names a span and travels as a W3C traceparent; package trace/otlp sends the spans to a
// collector.
//
// A [Tracer] travels in a context: [Start] makes a span where there is one and is free where there is
// none. A traceparent travels without a Tracer too: [With] puts it into a context, [Of] takes it from
// there, and [Handler] adds its trace id to what is logged under that context.
package trace
