package jobapi

import "encoding/json"

// Schedule is a job that comes again and again, on the wire: GET and POST /api/v1/schedules.
type Schedule struct {
	Name    string          `json:"name"`                 // [a-z0-9][a-z0-9._-]{0,62}
	Cron    string          `json:"cron" required:"true"` // five fields, or @hourly, @daily, @weekly, @monthly, @yearly
	Zone    string          `json:"zone"`                 // of the tz database, such as Europe/Berlin; UTC when empty
	CatchUp string          `json:"catchUp"`              // which missed runs are made up for: one (the newest; when empty), all (the newest 100) or none
	Scope   string          `json:"scope"`                // whose jobs; fleet when empty
	Kind    string          `json:"kind" required:"true"`
	Params  json.RawMessage `json:"params,omitempty"`
	Inputs  []string        `json:"inputs,omitempty"` // objects of the storage
	Paused  bool            `json:"paused"`

	// What the server knows of it, which a request leaves out.
	Next  Time         `json:"nextAt"` // null while it is paused
	Last  *ScheduleRun `json:"last"`   // null before the first
	Saved Time         `json:"savedAt"`
}

// ScheduleRun is a run of a schedule.
type ScheduleRun struct {
	Due   Time   `json:"dueAt"`
	JobID string `json:"jobId,omitempty"`
	Error string `json:"error,omitempty"` // why there is no job
}

// What a schedule makes up for.
const (
	CatchUpOne  = "one"
	CatchUpAll  = "all"
	CatchUpNone = "none"
)
