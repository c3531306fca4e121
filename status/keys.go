package status

import "github.com/batchfleet/batchfleet/jobs"

// indexKey is a sorted set of job ids by the time they were first heard of, in
// microseconds since 1970.
const indexKey = "jobs:index"

// jobKey is the contract's key. Its companions carry the whole of it in braces
// and so hash to the same slot of a cluster.
func jobKey(id jobs.ID) string    { return "job:" + string(id) }
func claimKey(id jobs.ID) string  { return "{job:" + string(id) + "}:claim" }
func cancelKey(id jobs.ID) string { return "{job:" + string(id) + "}:cancel" }
func logKey(id jobs.ID) string    { return "{job:" + string(id) + "}:log" }
func detailKey(id jobs.ID) string { return "{job:" + string(id) + "}:detail" }
