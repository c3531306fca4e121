package processor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/batchfleet/batchfleet/command"
	"github.com/batchfleet/batchfleet/jobs"
)

// childReplies reads the replies of a child, or of two if the first one fails, to
// one request.
type childReplies struct {
	out       Sink
	next      int // the page the child reads
	last      int // the last page wanted; 0 for all, until the document is open
	pages     int
	maxPages  int  // 0 for no limit
	announced bool // out.Open was called
	opened    bool // by the present child
	done      bool
	damaged   bool   // there were warnings
	isInvalid bool   // the child has sent an invalid reply
	strict    string // what asks that damaged documents fail; empty for nothing
	warnings  int    // of the document as a whole
	// replyErr is why the replies were not read to their end: the document cannot be
	// read, a reply was invalid, or out has failed.
	replyErr error
}

// reply handles one line of the child.
func (c *childReplies) reply(line []byte) error {
	var r pdfReply
	if err := json.Unmarshal(line, &r); err != nil {
		return c.invalid("sent an invalid reply %s: %w", c.position(), err)
	}
	switch {
	case c.done:
		return c.invalid("wrote more after the end")
	case r.Failed != "" && c.opened:
		return fmt.Errorf("pdf reader gave up %s: %s", c.position(), jobs.Clip(r.Failed, maxFailure, ""))
	case r.Failed != "":
		return errors.New(jobs.Clip(r.Failed, maxFailure, ""))
	case r.Opened != nil && !c.opened:
		if err := checkPageCount(r.Opened.Pages, c.maxPages); err != nil {
			return err
		}
		if c.opened = true; c.announced {
			if r.Opened.Pages != c.pages {
				return c.invalid("found %d pages, and then %d", c.pages, r.Opened.Pages)
			}
			return nil
		}
		about, err := json.Marshal(r.Opened.Info)
		if err != nil {
			return err
		}
		c.announced, c.pages = true, r.Opened.Pages
		if c.last <= 0 || c.last > c.pages {
			c.last = c.pages
		}
		if err := c.out.Open(r.Opened.Pages, about); err != nil {
			return err
		}
		return c.warn(r.Opened.Warnings)
	case r.Page != nil && c.opened:
		if r.Page.Page != c.next || c.next > c.last {
			return c.invalid("passed page %d %s", r.Page.Page, c.position())
		}
		r.Page.Warning = jobs.Clip(r.Page.Warning, maxFailure, "")
		c.damaged = c.damaged || r.Page.Warning != ""
		if err := c.checkStrict(r.Page.Warning); err != nil {
			return err
		}
		if err := c.out.Page(*r.Page); err != nil {
			return err
		}
		c.next++
	case r.Skipped > 0 && r.Skipped < c.next && c.opened:
	case r.Done && c.opened:
		c.done = true
		return c.warn(r.Late)
	default:
		return c.invalid("sent an invalid reply %s", c.position())
	}
	return nil
}

func (c *childReplies) invalid(format string, args ...any) error {
	c.isInvalid = true
	return fmt.Errorf("pdf reader "+format, args...)
}

// needsRetry reports whether the document has to be read in a new child, as this one
// may have failed because of the documents before. Timeouts of pages are this
// document's own once it is open.
func (c *childReplies) needsRetry(err error) bool {
	exit := (*command.ExitError)(nil)
	switch {
	case errors.Is(err, errPageTimeout):
		return !c.opened
	case errors.As(err, &exit):
		return exit.Reason == command.Exited || exit.Reason == command.Signaled || exit.Reason == command.OverMemory
	default:
		return c.isInvalid || err == nil && !c.done
	}
}

// maxDocumentWarnings is how many warnings of a document as a whole are passed on.
const maxDocumentWarnings = 20

// warn passes on what is damaged of the document as a whole.
func (c *childReplies) warn(warnings []string) error {
	for _, w := range warnings {
		w = jobs.Clip(w, maxFailure, "")
		if err := c.checkStrict(w); err != nil {
			return err
		}
		c.damaged = true
		if c.warnings++; w == "" || c.warnings > maxDocumentWarnings || c.out.Warn == nil {
			continue
		}
		if err := c.out.Warn(w); err != nil {
			return err
		}
	}
	return nil
}

// checkStrict returns an error for a warning if damaged documents are to fail.
func (c *childReplies) checkStrict(warning string) error {
	if c.strict == "" || warning == "" {
		return nil
	}
	return fmt.Errorf("document is damaged: %s (%s)", warning, c.strict)
}

// maxFailure is how many bytes of a child's message about a failure are kept.
const maxFailure = 1 << 10

// childError returns the error of the request, given how the child ended.
func (c *childReplies) childError(ctx context.Context, err error, p PDF) error {
	exit := (*command.ExitError)(nil)
	switch {
	case err == nil && c.done:
		return nil
	case err == nil:
		return fmt.Errorf("pdf reader ended %s before it had answered", c.position())
	case errors.Is(err, errPageTimeout):
		return fmt.Errorf("pdf reader was stopped %s: nothing came for %s (PDF_PAGE_TIMEOUT)", c.position(), p.PageTimeout)
	case errors.As(err, &exit):
		exit.Stderr = withoutStack(exit.Stderr)
		switch exit.Reason {
		case command.OverWall:
			exit.Limit = p.Timeout.String() + ", PDF_TIMEOUT"
		case command.OverCPU:
			exit.Limit = p.Timeout.String() + " of CPU time, PDF_TIMEOUT"
		case command.OverMemory:
			exit.Limit += ", PDF_MAX_MEMORY"
		case command.Exited, command.Signaled, command.OverOutput, command.OverProcesses, command.OverDisk: // the last two have no limit here
		}
		return fmt.Errorf("pdf reader ended %s: %w", c.position(), exit)
	case c.replyErr != nil:
		return c.replyErr
	case ctx.Err() != nil:
		return context.Cause(ctx)
	default:
		return fmt.Errorf("run pdf reader: %w", localError(err))
	}
}

func (c *childReplies) position() string {
	switch {
	case !c.opened:
		return "while it opened the document"
	case c.next > c.last:
		return "after the last page"
	default:
		return fmt.Sprintf("at page %d of %d", c.next, c.pages)
	}
}
