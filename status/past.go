package status

import (
	"strconv"
	"strings"
	"time"
)

// Past is an attempt at a job that is over, and was not its last.
type Past struct {
	Number   int
	Started  time.Time // zero if that is not known
	Finished time.Time // of one that has crashed: when its worker was last heard of
	Outcome  string    // failed, crashed or handed back
	Worker   string
	Reason   string // at most 200 bytes; empty of one that has crashed
}

// maxPastReason is how much is kept of why an attempt ended, in bytes.
const maxPastReason = 200

// parsePast reads what the scripts keep of past attempts: a line for each, with tabs between its fields. Somebody else may
// have written there.
func parsePast(text string) (all []Past) {
	for line := range strings.Lines(text) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(f) != 6 {
			continue
		}
		number, _ := strconv.Atoi(f[0])
		all = append(all, Past{
			Number: number, Started: momentOf(f[1]), Finished: momentOf(f[2]), Outcome: f[3], Worker: f[4],
			Reason: strings.ToValidUTF8(f[5], ""),
		})
	}
	return all
}
