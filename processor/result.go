package processor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/storage"
)

// Summary is the content of result.json. The first four fields are a contract.
type Summary struct {
	JobID         jobs.ID  `json:"job_id"`
	Pages         int      `json:"pages"`
	ProcessedAt   string   `json:"processed_at"`            // RFC 3339, UTC
	Seconds       float64  `json:"processing_time_seconds"` // of the attempt that ended it, to 1/100
	SchemaVersion int      `json:"schema_version"`
	Kind          string   `json:"kind"`
	Engine        string   `json:"engine"`
	Document      Document `json:"document"`
	TextObject    string   `json:"text_object"` // name of pages.jsonl; empty for a document without pages
	Warnings      []string `json:"warnings"`    // of the document, then of the first pages that have one, at most 100
	FailedPages   int      `json:"failed_pages"`
	Damaged       bool     `json:"damaged"`       // there are warnings
	DamagedPages  int      `json:"damaged_pages"` // pages with a warning
}

func (s Summary) result() jobs.Result {
	return jobs.Result{Object: resultName(s.JobID), Pages: s.Pages, Damaged: s.Damaged, DamagedPages: s.DamagedPages}
}

// OfDocument reports whether the result is that of a document, real or simulated. Results of other kinds have another
// form.
func (s Summary) OfDocument() bool { return s.Kind == "" || s.Kind == "pdf" || s.Kind == "mock" }

// Document describes a job's input and the sum of its pages.
type Document struct {
	Input         string          `json:"input,omitempty"`
	Bytes         int64           `json:"bytes,omitempty"`
	SHA256        string          `json:"sha256,omitempty"`
	Words         int             `json:"words"`
	Characters    int             `json:"characters"`
	Images        int             `json:"images"`
	PagesWithText int             `json:"pages_with_text"`
	ScannedPages  int             `json:"scanned_pages"`  // images but no text
	BlankPages    int             `json:"blank_pages"`    // neither
	Info          json.RawMessage `json:"info,omitempty"` // what the engine knows
}

// schemaVersion counts the incompatible changes of Summary.
const schemaVersion = 1

// maxSummary bounds a result.json in bytes. The largest outline the reader
// allows, with every byte escaped, takes 20 MB.
const maxSummary = 64 << 20

func resultsDir(id jobs.ID) string { return "results/" + string(id) }
func resultName(id jobs.ID) string { return resultsDir(id) + "/result.json" }
func pagesName(id jobs.ID) string  { return resultsDir(id) + "/pages.jsonl" }

// tally adds up pages as they pass.
type tally struct {
	Document        // the sums alone
	failed, damaged int
	warnings        []string // of pages
	document        []string // warnings of the document as a whole
}

const maxWarnings = 100

func (t *tally) add(r Record) {
	t.Words += r.Words
	t.Characters += r.Characters
	t.Images += r.Images
	if r.Warning != "" {
		t.damaged++
		if len(t.warnings) < maxWarnings {
			t.warnings = append(t.warnings, r.Warning)
		}
	}
	switch {
	case r.HasText:
		t.PagesWithText++
	case r.Failed:
		t.failed++
	case r.Images > 0:
		t.ScannedPages++
	default:
		t.BlankPages++
	}
}

// warn keeps a warning of the document as a whole. An attempt that begins again
// repeats them.
func (t *tally) warn(warning string) {
	if len(t.document) < maxDocumentWarnings && !slices.Contains(t.document, warning) {
		t.document = append(t.document, warning)
	}
}

func (r *run) summary() Summary {
	t := r.tally
	document := t.Document
	document.Input, document.Bytes, document.SHA256, document.Info = r.job.Input, r.fetched.bytes, r.fetched.sha256, r.about
	warnings := append(append([]string{}, t.document...), t.warnings...)
	return Summary{
		JobID:         r.job.ID,
		Pages:         r.total,
		ProcessedAt:   time.Now().UTC().Format(time.RFC3339),
		Seconds:       math.Round(time.Since(r.began).Seconds()*100) / 100,
		SchemaVersion: schemaVersion,
		Kind:          string(r.job.Kind),
		Engine:        r.Engine.Name(),
		Document:      document,
		Warnings:      warnings[:min(len(warnings), maxWarnings)],
		FailedPages:   t.failed,
		Damaged:       len(warnings) > 0,
		DamagedPages:  t.damaged,
	}
}

// putJSON stores v for people to read: indented, with a newline at the end.
func putJSON(ctx context.Context, store storage.Store, name string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return store.Put(ctx, name, bytes.NewReader(append(text, '\n')))
}

// Stored returns the result.json of a job. The error wraps [fs.ErrNotExist] when
// there is none, and [fs.ErrInvalid] when it is not of this job or cannot be read.
func Stored(ctx context.Context, store storage.Store, id jobs.ID) (Summary, error) {
	f, err := store.Open(ctx, resultName(id))
	if err != nil {
		return Summary{}, err
	}
	defer f.Close()
	var s Summary
	err = json.NewDecoder(io.LimitReader(f, maxSummary)).Decode(&s)
	switch {
	case errors.Is(err, jobs.ErrUnavailable) || ctx.Err() != nil:
		// It may be valid: it could not be read at this time.
		return Summary{}, fmt.Errorf("read the result of job %s: %w", id, err)
	case err == nil && s.JobID != id:
		return Summary{}, fmt.Errorf("result of job %s: %w: it names job %q", id, fs.ErrInvalid, s.JobID)
	case err != nil:
		return Summary{}, fmt.Errorf("result of job %s: %w: %v", id, fs.ErrInvalid, err) //nolint:errorlint // one cause is enough
	}
	return s, nil
}
