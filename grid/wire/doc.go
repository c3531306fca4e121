// Package wire has the grid's wire format: frames over TCP, their types, and the JSON in their payloads. It is specified in SPEC.md.
//
// A frame that is too long is refused before memory is allocated for it. The package keeps no connection and starts no goroutine.
package wire
