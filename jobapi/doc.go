// Package jobapi is one asynchronous API for every long operation: a job with
// steps, progress, a log and an outcome, under four routes that are the same for
// each scope, whatever runs the jobs. SPEC.md has the contract.
//
// A scope's jobs come from a [Jobs]. Package engine runs operations of this
// process and is one; adapters for what other parts of the fleet run are others. A
// [Server] serves all of them over HTTP, and package client is its client.
package jobapi
