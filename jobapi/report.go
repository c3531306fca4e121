package jobapi

import "context"

// Reporter is a Jobs whose door has more to tell than jobs: disks, GPUs, callbacks, credits.
type Reporter interface {
	// Report returns tables for people, in the order in which they are to be read.
	Report(ctx context.Context) ([]Section, error)
}

// Section is a table of a report. All of its texts are for people and hold no secrets.
type Section struct {
	Title   string     `json:"title"`
	Columns []string   `json:"columns"`
	Rows    [][]string `json:"rows"` // each as long as Columns; at most 200
}
