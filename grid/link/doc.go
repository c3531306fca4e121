// Package link carries frames over one connection: both ends of the grid, and what stands between them, use it.
//
// A [Conn] has one writer, so frames are whole, and its [Conn.Send] never waits: what a peer does not read is bounded, and then the
// connection is closed. Frames that are sent at the same time share one write. The reader is the caller of [Conn.Receive], which also
// answers pings and ends a connection whose peer is silent.
package link
