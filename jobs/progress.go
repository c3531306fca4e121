package jobs

import "time"

// Progress is how far a running job has come. Some values may never be reported; the
// newest counts.
type Progress struct {
	Done, Total int    // pages or steps; Total is 0 while it is not known
	Step        string // which part of the work is under way: "fetch", "pages", "store"
	Message     string // for people: "Page 3/12 analyzing..."
	Logged      bool   // the job's log has Message already
}

// Percent returns Done of Total as a whole number from 0 to 100; 0 while Total
// is unknown. It is int(done/total*100) in floating point, because that is how
// the contract computes it: 29 of 100 pages are 28 percent.
func (p Progress) Percent() int {
	if p.Total <= 0 {
		return 0
	}
	return max(0, min(100, int(float64(p.Done)/float64(p.Total)*100)))
}

// MaxLines is how many lines of a job's log one report may carry.
const MaxLines = 500

// Lines are lines for the log of a job.
type Lines struct {
	Before int // how many lines of the attempt come before them
	Text   []string
}

// Result is what a job has made.
type Result struct {
	Object string // name of the result in the store
	Text   string // the result itself, in JSON, if it is not in the store
	Pages  int    // pages processed
	Files  int    // files made, by a job of people's own kinds

	Damaged      bool // something of the input was repaired, is missing or was guessed
	DamagedPages int  // pages where that is so
}

// Outcome is how a job ended, or an attempt that is to be made again. State is Succeeded,
// Failed or Canceled.
type Outcome struct {
	State  State
	Result Result // only when Succeeded
	Reason string // for people, why it failed; only when Failed
	Code   string // what kind of failure it was, if its handler has set one; see [Failure]
	Final  bool   // another attempt would fail, too
	Detail string // further text for people

	// Retry and RetryAfter are those of the [Failure]; only when Failed. The job has not ended.
	Retry      bool
	RetryAfter time.Duration
}
