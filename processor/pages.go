package processor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/storage"
)

// Pages runs jobs page by page. Its methods may be called concurrently.
type Pages struct {
	Engine Engine
	Store  storage.Store
	Log    *slog.Logger
	// Dir is where inputs and pages are kept while a job runs; the system's
	// place for temporary files when empty.
	Dir string

	MaxInputBytes int64         // a larger input fails the job
	MaxPages      int           // more pages fail the job; 0 for no limit
	Checkpoint    time.Duration // between checkpoints; 30 s when zero
}

// run is one attempt at one job.
type run struct {
	*Pages
	job     jobs.Job
	report  func(jobs.Progress)
	began   time.Time
	total   int
	about   json.RawMessage
	tally   tally
	spool   *spool
	fetched input
}

// Earlier implements the worker's handler: it finds the result of an attempt
// that ended before its outcome could be recorded.
func (p *Pages) Earlier(ctx context.Context, job jobs.Job) (jobs.Result, bool, error) {
	earlier, err := Stored(ctx, p.Store, job.ID)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return jobs.Result{}, false, nil
	case err != nil && !errors.Is(err, fs.ErrInvalid):
		return jobs.Result{}, false, fmt.Errorf("look for an earlier result: %w", err)
	case err != nil || earlier.Document.Input != job.Input:
		p.Log.WarnContext(ctx, "earlier result is unreadable or of another input, and will be replaced", "job", job.ID, "err", err)
		return jobs.Result{}, false, nil
	}
	p.deleteCheckpoints(ctx, job, earlier.Document.SHA256)
	return earlier.result(), true, nil
}

// deleteCheckpoints deletes the checkpoints of an attempt that was killed between
// storing the result and doing so itself.
func (p *Pages) deleteCheckpoints(ctx context.Context, job jobs.Job, sha256 string) {
	if sha256 != "" && len(sha256) != 64 {
		return // not written by us
	}
	ctx, cancel := context.WithTimeout(ctx, cleanupTimeout)
	defer cancel()
	s := &spool{dir: p.Dir, store: p.Store, job: job.ID, input: sha256}
	defer s.remove()
	_ = s.resume(ctx, func(Record) {}) // parts that cannot be found now do no harm
	s.deleteParts(ctx)
}

// Run implements the worker's handler.
func (p *Pages) Run(ctx context.Context, job jobs.Job, report func(jobs.Progress)) (jobs.Result, error) {
	r := &run{Pages: p, job: job, report: report, began: time.Now()}
	if r.Engine.NeedsInput() && job.Input == "" {
		return jobs.Result{}, fmt.Errorf("job names no input: pdf_path is empty")
	}
	if r.Engine.NeedsInput() {
		fetched, err := p.fetch(ctx, job, func() { report(jobs.Progress{Step: "fetch", Message: "Processing started..."}) })
		if err != nil {
			return jobs.Result{}, err
		}
		defer fetched.remove()
		r.fetched = fetched
	}
	if err := p.removeUnfinished(ctx, job.ID); err != nil {
		return jobs.Result{}, err
	}
	r.spool = &spool{dir: p.Dir, store: p.Store, job: job.ID, input: r.fetched.sha256}
	defer func() { r.spool.remove() }()
	result, err := r.pages(ctx)
	if errors.Is(context.Cause(ctx), jobs.ErrDrained) {
		r.finalCheckpoint(ctx)
	}
	if isFinal(ctx, err) {
		cleanupCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
		defer cancel()
		r.spool.deleteParts(cleanupCtx)
	}
	return result, err
}

// finalCheckpointTimeout bounds the last checkpoint of a worker that stops: it waits
// half a second for a handler that it has stopped.
const finalCheckpointTimeout = 400 * time.Millisecond

// finalCheckpoint saves the pages of a worker that stops, for the next one. If that
// fails or takes too long, the next one reads them again.
func (r *run) finalCheckpoint(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finalCheckpointTimeout)
	defer cancel()
	if err := r.spool.checkpoint(ctx); err != nil {
		r.Log.WarnContext(ctx, "cannot save the pages of a job that is handed back", "job", r.job.ID, "err", err)
	}
}

// cleanupTimeout bounds how long a job that has ended deletes its checkpoints.
const cleanupTimeout = 10 * time.Second

// isFinal reports whether a job that ended with err will not run again.
func isFinal(ctx context.Context, err error) bool {
	switch cause := context.Cause(ctx); {
	case err == nil:
		return true
	case cause != nil: // otherwise the worker is stopping and has no time, or has lost the job
		return errors.Is(cause, jobs.ErrCanceled) || errors.Is(cause, jobs.ErrTimeout) || errors.Is(cause, jobs.ErrStalled)
	default:
		return !errors.Is(err, jobs.ErrUnavailable)
	}
}

// pages reads from where an earlier attempt stopped, to the end.
func (r *run) pages(ctx context.Context) (jobs.Result, error) {
	if err := r.spool.resume(ctx, r.tally.add); err != nil {
		return jobs.Result{}, fmt.Errorf("resume at checkpoint: %w", err)
	}
	err := r.read(ctx)
	if errors.Is(err, errOtherDocument) {
		r.Log.WarnContext(ctx, "checkpoint does not fit the document and is dropped", "job", r.job.ID, "err", err)
		r.spool.deleteParts(ctx)
		r.spool.remove()
		r.spool, r.tally = &spool{dir: r.Dir, store: r.Store, job: r.job.ID, input: r.fetched.sha256}, tally{}
		err = r.read(ctx)
	}
	if err != nil {
		return jobs.Result{}, err
	}
	return r.store(ctx)
}

// errOtherDocument marks a checkpoint with more pages than the document.
var errOtherDocument = errors.New("checkpoint of another document")

// read takes the pages that are not in a checkpoint from the engine.
func (r *run) read(ctx context.Context) error {
	from := r.spool.last + 1
	if from > 1 {
		r.Log.InfoContext(ctx, "resuming at checkpoint", "job", r.job.ID, "page", from)
	}
	every, saved := cmp.Or(r.Checkpoint, 30*time.Second), time.Now()
	return r.Engine.Read(ctx, r.job, r.fetched.path, from, Sink{
		Open: func(pages int, about json.RawMessage) error {
			if err := checkPageCount(pages, r.MaxPages); err != nil {
				return err
			}
			if pages < 0 || len(about) > maxSummary/2 {
				return fmt.Errorf("engine %s described the document with %d pages and %d bytes", r.Engine.Name(), pages, len(about))
			}
			if r.spool.last > pages {
				return fmt.Errorf("%w: %d pages of %d", errOtherDocument, r.spool.last, pages)
			}
			r.total, r.about = pages, about
			return nil
		},
		Warn: func(warning string) error {
			r.tally.warn(warning)
			return nil
		},
		Page: func(rec Record) error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if rec.Page > r.total {
				return fmt.Errorf("engine %s passed page %d of %d", r.Engine.Name(), rec.Page, r.total)
			}
			if err := r.spool.add(rec); err != nil {
				return err
			}
			r.tally.add(rec)
			r.report(jobs.Progress{
				Done: rec.Page, Total: r.total, Step: "pages",
				Message: r.pageMessage(rec.Page),
			})
			if time.Since(saved) < every {
				return nil
			}
			saved = time.Now()
			if errors.Is(jobs.Held(ctx), jobs.ErrUnavailable) {
				return nil // later: the pages go on while nothing is known of the claim
			}
			return r.spool.checkpoint(ctx)
		},
	})
}

// pageMessage is the contract's text.
func (r *run) pageMessage(page int) string {
	return fmt.Sprintf("Page %d/%d analyzing...", page, r.total)
}

// store writes the pages and then the result.
func (r *run) store(ctx context.Context) (jobs.Result, error) {
	if r.spool.last < r.total {
		return jobs.Result{}, fmt.Errorf("engine %s ended after page %d of %d", r.Engine.Name(), r.spool.last, r.total)
	}
	if r.total > 0 && r.tally.failed == r.total {
		return jobs.Result{}, fmt.Errorf("no page could be read: %s", append(r.tally.warnings, "")[0])
	}
	s := r.summary()
	if r.total > 0 {
		r.report(jobs.Progress{Done: r.total, Total: r.total, Step: "store", Message: r.pageMessage(r.total)})
		if err := jobs.AwaitHeld(ctx); err != nil {
			return jobs.Result{}, err
		}
		if err := r.spool.put(ctx, pagesName(r.job.ID)); err != nil {
			return jobs.Result{}, fmt.Errorf("store pages: %w", err)
		}
		s.TextObject = pagesName(r.job.ID)
	}
	if err := jobs.AwaitHeld(ctx); err != nil {
		return jobs.Result{}, err
	}
	if err := putJSON(ctx, r.Store, resultName(r.job.ID), s); err != nil {
		return jobs.Result{}, fmt.Errorf("store result: %w", err)
	}
	return s.result(), nil
}

// checkPageCount returns an error if a document has more pages than most; 0 is no
// limit.
func checkPageCount(pages, most int) error {
	if most > 0 && pages > most {
		return fmt.Errorf("document has %d pages, at most %d are allowed (MAX_PAGES)", pages, most)
	}
	return nil
}
