package control

import (
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/jobs"
)

// What follows is asked of the requests of workers, by HTTP or not.

// parseID returns the id of a job in a path. What cannot be an id is no job's.
func parseID(s string) (jobs.ID, error) {
	id, err := queue.ParseID(s)
	if err != nil {
		return "", queue.ErrNoJob
	}
	return id, nil
}

func checkLease(id string) error {
	switch {
	case id == "":
		return missing("lease_id")
	case !isWord(id):
		return invalid("lease_id", "no lease has such an id")
	}
	return nil
}

// waitOf returns a wait_seconds as a duration.
func waitOf(seconds float64) (time.Duration, error) {
	if seconds < 0 || seconds > wire.MaxWait {
		return 0, invalid("wait_seconds", "want 0 to %d", wire.MaxWait)
	}
	return time.Duration(seconds * float64(time.Second)), nil
}

// name returns a name that somebody has given, or an error that says which
// field it is.
func name(field, s string) error {
	if len(s) > wire.MaxName {
		return invalid(field, "%d bytes long, at most %d are allowed", len(s), wire.MaxName)
	}
	if !jobs.IsVisible(s) {
		return invalid(field, "it must not hold control characters or invisible formatting characters (such as right-to-left marks)")
	}
	return nil
}

// shown returns a worker's text for people: what a terminal would obey is written
// out, and at most limit bytes are kept.
func shown(s string, limit int) string {
	return jobs.Clip(jobs.Visible(jobs.Clip(s, limit, "")), limit, "")
}

// isWord reports whether s is made of letters, digits, '.', '_' and '-', at
// most 64 of them.
func isWord(s string) bool {
	return s != "" && len(s) <= 64 && strings.Trim(s, wordLetters) == ""
}

const wordLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"
