// Package gateway is how workers behind NAT are handed jobs: a control plane
// speaks HTTP to them and keeps everything it knows in Redis.
//
//	submitter ──HTTP──▶ gateway (any number of them) ◀──HTTPS── agent ─▶ pw.x
//	                       │
//	                     Redis: queue, leases, results, tokens
//
// This package is the worker's end of the protocol (SPEC.md, package wire): the [Client], and the
// [Agent], which leases jobs through it and delivers their outcomes, so that the loop of
// package worker runs jobs from a gateway as it does from Pub/Sub. It links no Redis
// client: an agent runs on another owner's machine.
//
// The control plane's end is gateway/control; gateway/queue keeps the jobs in
// Redis, for the control plane and for workers that may reach Redis themselves.
package gateway
