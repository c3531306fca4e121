package jobapi

// Overview is what GET /api/v1/overview answers: the fleet at one look.
type Overview struct {
	At       Time            `json:"at"`
	Scopes   []ScopeOverview `json:"scopes"`
	Workers  WorkerCounts    `json:"workers"`
	Errors   []ErrorGroup    `json:"errors"`   // of the newest failed jobs, the most frequent first
	Warnings []Warning       `json:"warnings"` // the most urgent first
}

// ScopeOverview are the numbers of a scope.
type ScopeOverview struct {
	Name        string         `json:"name"`
	Unavailable string         `json:"unavailable,omitempty"` // why there are no numbers now
	States      map[string]int `json:"states"`                // all five, by their words; empty where they are not known
	Kinds       []KindOverview `json:"kinds"`
	DeadLetters *int           `json:"deadLetters"` // null where that is not known
	Recent      []Point        `json:"recent"`      // the last 5 minutes, a point each 10 s, oldest first
	Day         []Point        `json:"day"`         // the last 24 hours and the current one, a point each, oldest first
}

// KindOverview are the numbers of a kind.
type KindOverview struct {
	Kind    string     `json:"kind"`
	Queued  int        `json:"queued"`
	Running int        `json:"running"`
	Oldest  Time       `json:"oldestQueuedAt"`
	Paused  Time       `json:"pausedSince"` // null while it is not paused
	Workers int        `json:"workers"`     // live ones that run it
	Slots   int        `json:"slots"`
	Wait    *Quantiles `json:"wait"` // of the newest jobs that have ended, at most 200; null without one
	Run     *Quantiles `json:"run"`
}

// Quantiles are in milliseconds.
type Quantiles struct {
	P50 int64 `json:"p50Ms"`
	P95 int64 `json:"p95Ms"`
	P99 int64 `json:"p99Ms"`
	N   int   `json:"n"` // of how many jobs
}

// Point is how many jobs came and ended in an interval that begins at At.
type Point struct {
	At        Time  `json:"at"`
	In        int64 `json:"in"`
	Succeeded int64 `json:"succeeded"`
	Failed    int64 `json:"failed"`
	Canceled  int64 `json:"canceled"`
}

// WorkerCounts counts workers by their state.
type WorkerCounts struct {
	Working  int `json:"working"`
	Idle     int `json:"idle"`
	Draining int `json:"draining"`
	Unready  int `json:"unready"`
	Silent   int `json:"silent"`
	Slots    int `json:"slots"` // of those that are neither silent nor draining
	InHand   int `json:"jobs"`  // that they run
}

// ErrorGroup are failed jobs whose errors have the same [Fingerprint].
type ErrorGroup struct {
	Fingerprint string `json:"fingerprint"`
	Scope       string `json:"scope"`
	Type        string `json:"type"`
	Code        string `json:"code"`
	Message     string `json:"message"` // of the newest
	Count       int    `json:"count"`   // among the newest 200 failed jobs of the scope
	Newest      Time   `json:"newestAt"`
	JobID       string `json:"jobId"` // the newest
}

// Warning is something that a person should look at.
type Warning struct {
	Code    string `json:"code"` // UNAVAILABLE, NO_WORKER, SILENT_WORKER, DRAINING, PAUSED
	Message string `json:"message"`
	Scope   string `json:"scope"`
	Kind    string `json:"kind,omitempty"`
	Worker  string `json:"worker,omitempty"`
	Since   Time   `json:"since"`
}
