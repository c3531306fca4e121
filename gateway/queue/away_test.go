package queue

import (
	"errors"
	"testing"

	"github.com/batchfleet/batchfleet/jobs"
)

// reply is an error that Redis answers.
type reply string

func (r reply) Error() string { return string(r) }
func (reply) RedisError()     {}

func TestZ07AnswersOfRedisThatMeanItIsAway(t *testing.T) {
	t.Parallel()
	tests := map[string]bool{
		"LOADING Redis is loading the dataset in memory":                                                                            true,
		"READONLY You can't write against a read only replica. script: 1a2b, on @user_script:3.":                                    true,
		"OOM command not allowed when used memory > 'maxmemory'. script: 1a2b, on @user_script:3.":                                  true,
		"ERR Error running script (call to f_1a2b): @user_script:3: -OOM command not allowed when used memory > 'maxmemory'.":       true,
		"ERR Error running script (call to f_1a2b): @user_script:3: @user_script: 3: -READONLY You can't write against a replica. ": true,
		"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.":                          true,
		"NOAUTH Authentication required.":                                                              true,
		"ERR max number of clients reached":                                                            true,
		"ERR max daily request limit exceeded. Limit: 500000, Usage: 500000.":                          true,
		"WRONGTYPE Operation against a key holding the wrong kind of value":                            false,
		"ERR Error running script (call to f_1a2b): @user_script:3: WRONGTYPE Operation against a key": false,
		"ERR user_script:3: attempt to compare nil with number":                                        false,
		"NOPERM this user has no permissions to run the 'evalsha' command":                             true,
		"NOPERM ACL failure in script: User u has no permissions to run the 'set' command":             true,
		"ERR Protocol error: unauthenticated multibulk length":                                         true,
		"CROSSSLOT Keys in request don't hash to the same slot":                                        false,
	}
	for text, want := range tests {
		if got := errors.Is(unavailable("ask", reply(text)), jobs.ErrUnavailable); got != want {
			t.Errorf("%q: away=%v, want %v", text, got, want)
		}
	}
}
