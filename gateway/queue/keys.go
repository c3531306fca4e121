package queue

import "github.com/batchfleet/batchfleet/jobs"

// The keys, as gateway/SPEC.md lists them.
const (
	queueKey   = "zpe:queue"          // LIST of job ids: LPUSH, RPOP
	delayKey   = "zpe:delay"          // ZSET of job ids by when they run again
	dlqKey     = "zpe:dlq"            // LIST of job ids, newest first
	indexKey   = "zpe:lease:index"    // ZSET of job ids by the end of their lease
	revokedKey = "zpe:revoked_tokens" // SET of token hashes
	workersKey = "zpe:workers"        // ZSET of worker ids by when their records expire
	opsKey     = "zpe:ops"            // HASH of switches
	checkKey   = "zpe:check"          // STRING, written to see that Redis takes writes, and before WAIT
	turnsKey   = "zpe:turns"          // ZSET of kinds by when one was last chosen among several
	cancelsKey = "zpe:cancels"        // ZSET of ids of running jobs by when somebody has asked for them to be stopped, in unix ms
)

// KindZPE is the kind that every gateway has. In this package the empty kind means it, too,
// and what a method returns has that.
const KindZPE jobs.Kind = "zpe"

// A kind other than zpe has a queue and dead letters of its own, under the keys of zpe with
// its name behind a colon. These are SETs of the kinds that have any.
const (
	queueKindsKey = "zpe:queue_kinds"
	dlqKindsKey   = "zpe:dlq_kinds"
)

func queueOf(kind jobs.Kind) string { return ofKind(queueKey, kind) }
func dlqOf(kind jobs.Kind) string   { return ofKind(dlqKey, kind) }

func ofKind(key string, kind jobs.Kind) string {
	if kind == "" || kind == KindZPE {
		return key
	}
	return key + ":" + string(kind)
}

// plain returns the empty kind for zpe.
func plain(kind string) jobs.Kind {
	if jobs.Kind(kind) == KindZPE {
		return ""
	}
	return jobs.Kind(kind)
}

// listKey is a ZSET of the ids of all jobs of one of States, by when they were
// created, in unix ms: of kind zpe, or of all other kinds.
func listKey(state string, others bool) string {
	if others {
		return "zpe:other_jobs:" + state
	}
	return "zpe:jobs:" + state
}

// countsKey is a HASH of how many jobs came and ended, in all and by the hour.
func countsKey(others bool) string {
	if others {
		return "zpe:other_counts"
	}
	return "zpe:counts"
}

// changesKey is a STREAM of the ids of jobs that have changed.
func changesKey(others bool) string {
	if others {
		return "zpe:other_changes"
	}
	return "zpe:changes"
}

func payloadKey(id jobs.ID) string     { return "zpe:payload:" + string(id) }
func statusKey(id jobs.ID) string      { return "zpe:status:" + string(id) }
func leaseKey(id jobs.ID) string       { return "zpe:lease:" + string(id) }
func retryKey(id jobs.ID) string       { return "zpe:retry_count:" + string(id) }
func resultKey(id jobs.ID) string      { return "zpe:result:" + string(id) }
func summaryKey(id jobs.ID) string     { return "zpe:summary:" + string(id) }
func freqsKey(id jobs.ID) string       { return "zpe:freqs:" + string(id) }
func reapedKey(id jobs.ID) string      { return "zpe:reaped:" + string(id) }
func lateKey(id jobs.ID) string        { return "zpe:late:" + string(id) }
func tokenKey(hash string) string      { return "zpe:token:" + hash }
func enrollKey(hash string) string     { return "zpe:enroll:" + hash }
func idempotentKey(hash string) string { return "zpe:idempotency:" + hash }
func workerKey(id string) string       { return "zpe:worker:" + id }
func workerTokensKey(id string) string { return "zpe:worker_tokens:" + id }
func logKey(id jobs.ID) string         { return "zpe:log:" + string(id) }
func artifactsKey(id jobs.ID) string   { return "zpe:artifacts:" + string(id) }
func uploadKey(name string) string     { return "zpe:upload:" + name }
func checkpointKey(id jobs.ID) string  { return "zpe:checkpoint:" + string(id) }
func uploadsKey(id jobs.ID, lease string) string {
	return "zpe:uploads:" + string(id) + ":" + lease
}

func failedAckKey(id jobs.ID, lease string) string {
	return "zpe:failed_ack:" + string(id) + ":" + lease
}
