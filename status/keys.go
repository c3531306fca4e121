package status

import "github.com/batchfleet/batchfleet/jobs"

// indexKey is a sorted set of job ids by the time they were first heard of, in
// microseconds since 1970; and for each state there is one of the jobs in it,
// with the same scores. Each is in a slot of its own.
const indexKey = "jobs:index"

func stateIndexKey(s jobs.State) string { return indexKey + ":" + s.String() }

// kindIndexPrefix and a kind are the key of an index of the queued jobs of that kind.
const kindIndexPrefix = "jobs:queued:"

func kindIndexKey(kind string) string { return kindIndexPrefix + indexedKind(kind) }

// states are those that have an index of their own: all.
var states = []jobs.State{jobs.Queued, jobs.Running, jobs.Succeeded, jobs.Failed, jobs.Canceled}

// indexKeys are the index and then those of the states, in their order.
func indexKeys() []string {
	keys := []string{indexKey}
	for _, state := range states {
		keys = append(keys, stateIndexKey(state))
	}
	return keys
}

const (
	drainKey  = "fleet:draining" // since when, while no worker shall take a job
	queuesKey = "fleet:queues"   // hash of queues by name
	// hash of workers by id, when they were last heard of and what they said; in the
	// same hash slot as workerKey
	workersKey = "{fleet}:workers"
	// sorted set of jobs that are not to start yet, by when they are due, in milliseconds since
	// 1970; and who publishes those that are
	delayedKey  = "{fleet}:delayed"
	promoterKey = "{fleet}:promoter"
	watchKey    = "fleet:watch"     // the id of the worker that looks for silent ones
	repairKey   = "fleet:repair"    // when to look next for forgotten jobs, and on which run of Redis
	kindsKey    = "jobs:kinds"      // sorted set of kinds by when a job of them was last queued
	flowKey     = "jobs:flow"       // hash of how many jobs came and ended
	feedKey     = "jobs:feed"       // stream of the ids of jobs that have changed
	pausedKey   = "{fleet}:paused"  // hash of paused kinds, each with the ms since 1970 from which on
	drainedKey  = "{fleet}:drained" // hash of workers by id that shall take no jobs, each with the ms since when
)

// workerKey is there while a worker lives.
func workerKey(id string) string { return "{fleet}:worker:" + id }

// jobKey is the contract's key. Its companions carry the whole of it in braces
// and so hash to the same slot of a cluster.
func jobKey(id jobs.ID) string    { return "job:" + string(id) }
func claimKey(id jobs.ID) string  { return "{job:" + string(id) + "}:claim" }
func cancelKey(id jobs.ID) string { return "{job:" + string(id) + "}:cancel" }
func logKey(id jobs.ID) string    { return "{job:" + string(id) + "}:log" }
func detailKey(id jobs.ID) string { return "{job:" + string(id) + "}:detail" }
func paramsKey(id jobs.ID) string { return "{job:" + string(id) + "}:params" }

// jobKeys are those keys in the order in which most scripts take them.
func jobKeys(id jobs.ID) []string {
	return []string{jobKey(id), claimKey(id), cancelKey(id), logKey(id), detailKey(id), paramsKey(id)}
}
