package status

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
)

// Document is the JSON value of the key job:ID, with exactly these six fields.
// Frontends poll it.
type Document struct {
	Status    string `json:"status"` // queued, processing, completed, failed or canceled
	Progress  int    `json:"progress"`
	Message   string `json:"message"`
	ResultURL string `json:"result_url"` // object name of the result once completed
	ErrorMsg  string `json:"error_msg"`  // the cause once failed, at most MaxErrorMsg bytes
	UpdatedAt string `json:"updated_at"` // RFC 3339, UTC
}

// MaxErrorMsg is the longest error_msg in bytes.
const MaxErrorMsg = 4 << 10

// The messages of the contract.
const (
	messageQueued    = "Waiting for a worker..."
	messageStarted   = "Processing started..."
	messageCompleted = "Processing completed!"
	messageFailed    = "Error occurred"
	messageCanceled  = "Canceled"
)

// words are the contract's names of the states.
var words = map[jobs.State]string{
	jobs.Queued:    "queued",
	jobs.Running:   "processing",
	jobs.Succeeded: "completed",
	jobs.Failed:    "failed",
	jobs.Canceled:  "canceled",
}

// State returns the state that the document's status word stands for, or 0 if
// it is none of the contract's words.
func (d Document) State() jobs.State { return stateOf(d.Status) }

func stateOf(word string) jobs.State {
	for state, w := range words {
		if w == word {
			return state
		}
	}
	return 0
}

// text returns d as JSON, dated now.
func (d Document) text() string {
	head, tail := d.halves()
	return head + strconv.Itoa(d.Progress) + tail
}

// halves returns the JSON of d before and after the number of its progress,
// for scripts that put the number in themselves.
func (d Document) halves() (head, tail string) {
	head = `{"status":` + quote(d.Status) + `,"progress":`
	tail = fmt.Sprintf(`,"message":%s,"result_url":%s,"error_msg":%s,"updated_at":%s}`,
		quote(d.Message), quote(d.ResultURL), quote(d.ErrorMsg), quote(time.Now().UTC().Format(time.RFC3339)))
	return head, tail
}

func quote(s string) string {
	b, _ := json.Marshal(s) // a string always has a JSON form
	return string(b)
}
