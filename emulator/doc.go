// Package emulator is a Pub/Sub server: the Publisher, Subscriber and Schema
// services of google.pubsub.v1 over gRPC and over REST/JSON, on one port.
//
// It exists because the fleet lives on leases, and a lease must be seen to end:
// a message handed out is leased for its ack deadline, is available again at
// the instant that lease ends, and is gone once it is acknowledged. The state
// of one subscription is a queue, which knows nothing of gRPC or HTTP; what
// one message costs does not depend on how many are queued behind it.
//
// A [Server] keeps its state from one [Server.Serve] to the next, and loses it
// with the process unless it was made by [Open]: then every change is a record
// in a journal, which is read into an image of the state at the next start.
//
// Built are leases, ordering keys, filters, dead-letter and retry policies,
// exactly-once delivery, retention, snapshots, seek, expiry, detaching and
// schemas.
// Push, and what leads to other services of Google's (BigQuery, Cloud Storage,
// ingestion, encryption keys, transforms), is not: a request that asks for it is
// refused with UNIMPLEMENTED and the name of the field.
//
// All time is the time package's, so that a testing/synctest bubble drives it.
//
// The package imports nothing of this module but its own parts.
package emulator
