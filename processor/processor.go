// Package processor turns a job into pages and pages into a result. The loop
// exists once, in [Pages]: fetch the input, take page after page from an engine,
// checkpoint them, and store the result last. Engines produce the pages: [Mock]
// simulates them, [PDF] reads real documents in a child process.
//
// Results of a job live under results/{job_id}/:
//
//	pages.jsonl         one line a page, see [Record]
//	parts/…NNNNNNNN.jsonl checkpoints: pages from number N on; see SPEC.md for who deletes them
//	result.json         written last: its presence means that the job is complete
//
// An attempt that resumes starts at the first page without a checkpoint. What
// it stores is the same for every attempt, except times, so two attempts that
// overlap for a moment cannot spoil each other's work.
package processor

import (
	"context"
	"encoding/json"

	"github.com/batchfleet/batchfleet/jobs"
)

// Record is one line of pages.jsonl.
type Record struct {
	Page       int     `json:"page"` // from 1
	Text       string  `json:"text,omitempty"`
	Words      int     `json:"words"`
	Characters int     `json:"characters"` // runes that are not white space
	Images     int     `json:"images"`
	HasText    bool    `json:"has_text"`
	Seconds    float64 `json:"seconds,omitempty"` // simulated time; mock only
	Warning    string  `json:"warning,omitempty"` // what of the page was repaired, is missing or was guessed
	Failed     bool    `json:"failed,omitempty"`  // the page could not be read in full; the warning tells why
}

// Engine reads the documents of one kind.
type Engine interface {
	// Name is the engine's name in a result.
	Name() string
	// NeedsInput reports whether a job must name an input.
	NeedsInput() bool
	// Read opens the document in the file at path and passes it, and then its
	// pages from number from on, in order, to out. An error of out ends it and
	// is returned. ctx ends it soon.
	Read(ctx context.Context, job jobs.Job, path string, from int, out Sink) error
}

// Sink takes what an engine reads.
type Sink struct {
	// Open is called once with the number of pages and with what else is known of
	// the document; about becomes the result's field "document".
	Open func(pages int, about json.RawMessage) error
	// Warn, unless it is nil, is called after Open, or after the last page, with what
	// is damaged of the document as a whole.
	Warn func(warning string) error
	// Page takes one page.
	Page func(Record) error
}
