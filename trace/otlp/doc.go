// Package otlp sends the spans of package trace to a collector: OTLP over HTTP, in JSON. Settings are
// those variables of OpenTelemetry that [Read] names.
//
// Spans wait in memory, at most some thousands. A collector that is slow or away costs spans and never
// time: what does not fit is dropped and counted.
package otlp
