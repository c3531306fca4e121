// Package emulator is a Pub/Sub server: the Publisher and Subscriber services
// of google.pubsub.v1 over gRPC and over REST/JSON, on one port.
//
// It exists because the fleet lives on leases, and a lease must be seen to end:
// a message handed out is leased for its ack deadline, is available again at
// the instant that lease ends, and is gone once it is acknowledged. The state
// of one subscription is a queue, which knows nothing of gRPC or HTTP; what
// one message costs does not depend on how many are queued behind it.
//
// Everything is in memory. A [Server] keeps its topics, subscriptions and
// messages from one [Server.Serve] to the next and loses them with the process.
// Message ordering, filters, dead letters, retry policies, exactly-once
// delivery, snapshots, seek, schemas and push are not built: a request that
// asks for one is refused with UNIMPLEMENTED and the name of what it asked for.
//
// All time is the time package's, so that a testing/synctest bubble drives it.
//
// The package imports nothing of this module.
package emulator
