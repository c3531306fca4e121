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
	MessageQueued    = "Waiting for a worker..."
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

// State returns the state that the document's status word stands for, or 0 for
// none. A word that is not the contract's was written by somebody else; it counts
// as Running, because the scripts take it for a job that has begun and not ended.
func (d Document) State() jobs.State {
	if state := stateOf(d.Status); state != 0 || d.Status == "" {
		return state
	}
	return jobs.Running
}

func stateOf(word string) jobs.State {
	for state, w := range words {
		if w == word {
			return state
		}
	}
	return 0
}

// maxDocument is the longest document that is read, in bytes. A longer one is not
// ours: our longest text is an error of 4 KiB, which quoting makes 24 KiB at most.
const maxDocument = 32 << 10

// parseDocument reads the value of a key job:ID, which anybody may have written.
// It reports false for what is not a JSON object with a status word; other fields
// that are not what they should be are left empty.
func parseDocument(text string) (d Document, ok bool) {
	if len(text) > maxDocument {
		return Document{}, false
	}
	// Not into d itself: that would take "Status" for "status", as the scripts do not.
	var fields map[string]json.RawMessage
	if json.Unmarshal([]byte(text), &fields) != nil {
		return Document{}, false
	}
	for name, into := range map[string]*string{
		"status": &d.Status, "message": &d.Message, "result_url": &d.ResultURL, "error_msg": &d.ErrorMsg, "updated_at": &d.UpdatedAt,
	} {
		if json.Unmarshal(fields[name], into) != nil {
			*into = ""
		}
	}
	var progress float64
	if json.Unmarshal(fields["progress"], &progress) == nil {
		d.Progress = int(max(0, min(progress, 100)))
	}
	return d, d.Status != ""
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
		quote(jobs.Visible(d.Message)), quote(d.ResultURL), quote(d.ErrorMsg), quote(time.Now().UTC().Format(time.RFC3339)))
	return head, tail
}

func quote(s string) string {
	b, _ := json.Marshal(s) // a string always has a JSON form
	return string(b)
}
