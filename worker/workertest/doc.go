// Package workertest holds the promises of [worker.Source] and [worker.Status] as
// tests. Every implementation passes the same suites, in memory, over a network and
// in Redis; they wait for what happens and measure no time but the shortest.
//
// gateway.Agent is outside of [Source]: there the outcome ends a lease and not the
// ack, and a nack is a report upon which the gateway decides when the job runs again.
package workertest

import (
	"context"
	"testing"
	"time"
)

// within returns a context that keeps a broken test from hanging.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}
