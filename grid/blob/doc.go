// Package blob stores content that is too large for a frame, and transfers it over the connections of the grid. SPEC.md has the frames.
//
// A [Store] keeps blobs in a directory, by their SHA-256. A [Server] serves a store to the peer of one connection; a [Client] at the other end puts and
// gets blobs. Both get the frames of their connection by Handle, which never waits for the disk or the peer, and send frames by a function that must not
// wait, such as Send of package link.
//
// Blobs are sent in chunks, in turns if there are several, and at most [Window] bytes before they are acknowledged: other frames never wait behind
// more. After a connection was lost, a transfer goes on where it was.
package blob
