// Package emulator is a Pub/Sub server: the Publisher, Subscriber and Schema
// services of google.pubsub.v1 over gRPC and over REST/JSON, on one port.
//
// It exists because the fleet depends on leases that end on time: a delivered
// message is leased for its ack deadline, is available again at the instant that
// lease ends, and is removed once it is acknowledged. The state of one subscription
// is a queue, which is independent of gRPC and HTTP; the cost of a message does not
// depend on the length of the queue.
//
// A [Server] keeps its state from one [Server.Serve] to the next, and loses it
// with the process unless it was made by [Open]: then every change is a record
// in a journal, which is read into an image of the state at the next start.
//
// Implemented are leases, ordering keys, filters, dead-letter and retry policies,
// exactly-once delivery, retention, snapshots, seek, expiry, detaching and
// schemas.
// Push, and what leads to other services of Google's (BigQuery, Cloud Storage,
// ingestion, encryption keys, transforms), is not: a request that asks for it is
// refused with UNIMPLEMENTED and the name of the field.
//
// All time is the time package's, so that a testing/synctest bubble drives it.
//
// Of this module the package imports only its own parts and the journal.
package emulator
