// Package pubsub is the door of jobs that come over Pub/Sub, and both of its ends: a
// [Source] leases messages to workers, a [Publisher] queues jobs, [Submit] records one
// and queues it, and dead letters are kept by a [DeadLetterTopic] and read by a
// [DeadLetterReader]. The message is the contract of SPEC.md.
//
// It runs no job: that is what package worker does, which knows nothing of Pub/Sub.
package pubsub
