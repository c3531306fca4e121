// Package engine runs operations of this process as jobs, in memory: a restart
// forgets them. Each scope has its own [Engine].
//
// A job is queued, then running in one goroutine, which does its steps one after
// the other, then succeeded, failed or canceled, whichever comes first; after that
// nothing of it changes. A job that is canceled or out of time has ended at once,
// but counts as running until its step has returned.
//
// Locks are taken in the order engine, budget of logs, log. Steps are never called
// under one, and readers of jobs do not wait for writers of logs.
package engine
