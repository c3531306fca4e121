package queue

import "time"

// When a job runs again is decided here and in lua/retry.lua, how often by
// [Rules].MaxRetries. Which failures are final is the protocol's: see package control.

// maxUncounted is how often a job may come back uncounted: a worker that is always
// stopping must not run it without end.
const maxUncounted = 100

// RetryDelay is how long a job waits after its n-th failure: min(300, 10·2ⁿ)
// seconds, as the contract says.
func RetryDelay(n int) time.Duration {
	return min(300*time.Second, 10*time.Second<<max(0, min(n, 5))) // no shift overflows
}

// runAts are the script arguments that say when a job runs again after its
// 1st, 2nd, … failure.
func (q *Queue) runAts(now time.Time) []any {
	at := make([]any, max(0, q.MaxRetries))
	for i := range at {
		at[i] = unix(now.Add(RetryDelay(i + 1)))
	}
	return at
}
