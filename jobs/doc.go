// Package jobs defines the words the whole fleet shares: a [Job], the [Lease]
// under which one worker holds it, the [Claim] that makes it the only one to
// run it, the [Progress] it reports and the [Outcome] it ends with.
//
// A job is Queued, then Running under one claim at a time, then exactly one of
// Succeeded, Failed or Canceled. A lease that runs out puts the job back to
// Queued, so a job may be started more than once: handlers must be idempotent,
// and a job's [ID] is the key they use to recognise their earlier work.
//
// The package does no I/O and imports only the standard library; every other
// package may import it.
package jobs
