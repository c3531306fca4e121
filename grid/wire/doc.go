// Package wire holds the grid's contract: frames over TCP, the types of messages, and the JSON that they carry. It is
// written down in SPEC.md.
//
// A frame is read whole or not at all, and refused before its memory is taken if it is too long. The package keeps no
// connection and starts no goroutine.
package wire
