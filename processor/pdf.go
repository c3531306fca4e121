package processor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/command"
	"github.com/batchfleet/batchfleet/jobs"
)

// PDF is the engine of kind "pdf": the built-in reader, in a child process,
// because every document is hostile until read. The child can lose its memory,
// its time or its mind; the worker only learns what became of it.
type PDF struct {
	// Executable and Args start a child that calls [ServePDF] on its stdin and
	// stdout.
	Executable string
	Args       []string
	// Children keeps those that may read another document; nil starts a new child
	// for each document.
	Children *Children

	MaxPages    int           // a document with more pages is not read; 0 for no limit
	Memory      int64         // bytes the child may use, and each program it starts
	Timeout     time.Duration // for a document, on the wall clock and on the CPU
	PageTimeout time.Duration // for a page

	Workers  int    // pages read at the same time; 0 means 1
	Last     int    // the last page wanted; 0 for all
	Password string // of the user or of the owner, for documents that do not open without

	// Strict fails a document with the first warning of damage.
	Strict bool
}

// Name implements [Engine].
func (p PDF) Name() string { return "builtin" }

// NeedsInput implements [Engine].
func (p PDF) NeedsInput() bool { return true }

// errPageTimeout is the cause of a child's end when one page took too long.
var errPageTimeout = errors.New("page timeout")

// maxReply is the longest line a child may write: a page's text with every byte
// escaped.
const maxReply = 6*maxPageText + 1<<20

// maxReplies is how many bytes a child may write in all. A book of 5000 dense
// pages is a tenth of that; without a bound, a small document whose every page
// unfolds to the limit could fill the worker's disk.
const maxReplies = 2 << 30

// Read implements [Engine]. An error wraps [jobs.ErrUnavailable] when no child
// could be started or the file at path is gone; what becomes of a child is the
// document's fault.
func (p PDF) Read(ctx context.Context, _ jobs.Job, path string, from int, out Sink) error {
	return p.converse(ctx, pdfRequest{Path: []byte(path), From: from}, out, path)
}

// converse lets a child answer a request. needs are the files without which it
// cannot: if one is gone, the document is not to blame.
func (p PDF) converse(ctx context.Context, req pdfRequest, out Sink, needs ...string) error {
	req.Last, req.Workers, req.Password = p.Last, p.Workers, p.Password
	c := conversation{out: out, next: req.From, last: req.Last, most: p.MaxPages, strict: p.Strict}
	began := time.Now()
	used, err := p.ask(ctx, req, &c, p.Timeout, false)
	if used && c.doubtful(err) && ctx.Err() == nil {
		// It may have been broken by what it read before. How a child ends counts
		// against a document only if the child has read nothing else. That a document
		// cannot be read is taken from any child that says so.
		req.From = c.next
		c.open, c.broken, c.refused = false, false, nil
		left := p.Timeout
		if left > 0 {
			left = max(left-time.Since(began), 1)
		}
		_, err = p.ask(ctx, req, &c, left, true)
	}
	for _, name := range needs {
		if _, gone := os.Stat(name); err != nil && gone != nil && ctx.Err() == nil {
			return fmt.Errorf("look for what the pdf reader needs: %w", local(gone))
		}
	}
	return c.verdict(ctx, err, p)
}

// ask puts a request to a child, one that has read other documents unless it
// shall be fresh, and gives it back if all went well.
func (p PDF) ask(ctx context.Context, req pdfRequest, c *conversation, wall time.Duration, fresh bool) (used bool, err error) {
	request, err := json.Marshal(req)
	if err != nil {
		return false, err
	}
	var child *command.Session
	if !fresh {
		child = p.Children.take()
	}
	if used = child != nil; !used {
		if child, err = p.command(req.Poppler == nil).Open(ctx); err != nil {
			return false, err
		}
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	watch := time.AfterFunc(p.PageTimeout, func() { stop(errPageTimeout) })
	defer watch.Stop()
	err = child.Ask(ctx, append(request, '\n'), wall, func(line []byte) (bool, error) {
		defer watch.Reset(p.PageTimeout)
		watch.Stop() // storing a checkpoint is not the page's time
		c.refused = c.reply(line)
		return c.done, c.refused
	})
	if err != nil || !c.done || c.warned || !p.Children.keep(child) {
		child.Close()
	}
	return used, err
}

// command returns how a child is started; alone if it starts no programs itself.
func (p PDF) command(alone bool) *command.Command {
	cpu := p.Timeout
	if p.Children != nil && cpu > 0 {
		cpu += keepCPU // the kernel counts over the life of the child
	}
	return &command.Command{
		Path: p.Executable, Args: p.Args, Alone: alone,
		// The collector works harder before the hard limit is reached.
		Env: []string{"GOMEMLIMIT=" + strconv.FormatInt(p.Memory*3/4, 10), "GOTRACEBACK=none"},
		Limits: command.Limits{
			Memory: p.Memory, CPU: cpu, FileBytes: 1, OpenFiles: 64,
			LineBytes: maxReply, OutputBytes: maxReplies,
		},
	}
}

// conversation is the parent's side of one child.
type conversation struct {
	out   Sink
	next  int // the page the child works on
	last  int // the last page wanted; 0 for all, until the document is open
	pages int
	most  int  // pages the document may have; 0 for no limit
	told  bool // the sink knows of the document
	open  bool // by the child that is asked
	done  bool
	// warned says that the document was not read without trouble.
	warned bool
	// broken says that the child talks nonsense.
	broken bool
	// strict refuses damaged documents.
	strict bool
	passed int // warnings of the document passed on
	// refused is why the conversation was broken off: the document cannot be
	// read, the child talks nonsense, or the sink wants no more.
	refused error
}

// reply takes one line of the child.
func (c *conversation) reply(line []byte) error {
	var r pdfReply
	if err := json.Unmarshal(line, &r); err != nil {
		return c.nonsense("wrote nonsense %s: %w", c.where(), err)
	}
	switch {
	case c.done:
		return c.nonsense("wrote more after the end")
	case r.Failed != "" && c.open:
		return fmt.Errorf("pdf reader gave up %s: %s", c.where(), clip(r.Failed, maxFailure))
	case r.Failed != "":
		return errors.New(clip(r.Failed, maxFailure))
	case r.Opened != nil && !c.open:
		if err := overPages(r.Opened.Pages, c.most); err != nil {
			return err
		}
		if c.open = true; c.told {
			if r.Opened.Pages != c.pages {
				return c.nonsense("found %d pages, and then %d", c.pages, r.Opened.Pages)
			}
			return nil
		}
		about, err := json.Marshal(r.Opened.Info)
		if err != nil {
			return err
		}
		c.told, c.pages = true, r.Opened.Pages
		if c.last <= 0 || c.last > c.pages {
			c.last = c.pages
		}
		if err := c.out.Open(r.Opened.Pages, about); err != nil {
			return err
		}
		return c.warn(r.Opened.Warnings)
	case r.Page != nil && c.open:
		if r.Page.Page != c.next || c.next > c.last {
			return c.nonsense("passed page %d %s", r.Page.Page, c.where())
		}
		r.Page.Warning = clip(r.Page.Warning, maxFailure)
		c.warned = c.warned || r.Page.Warning != ""
		if err := c.refuse(r.Page.Warning); err != nil {
			return err
		}
		if err := c.out.Page(*r.Page); err != nil {
			return err
		}
		c.next++
	case r.Skipped > 0 && r.Skipped < c.next && c.open:
	case r.Done && c.open:
		c.done = true
		return c.warn(r.Late)
	default:
		return c.nonsense("wrote nonsense %s", c.where())
	}
	return nil
}

func (c *conversation) nonsense(format string, args ...any) error {
	c.broken = true
	return fmt.Errorf("pdf reader "+format, args...)
}

// doubtful reports whether a child may have ended so because of what it had read
// before this document. Its time has nothing to do with that once the document
// is open.
func (c *conversation) doubtful(err error) bool {
	exit := (*command.ExitError)(nil)
	switch {
	case errors.Is(err, errPageTimeout):
		return !c.open
	case errors.As(err, &exit):
		return exit.Reason == command.Exited || exit.Reason == command.Signaled || exit.Reason == command.OverMemory
	default:
		return c.broken || err == nil && !c.done
	}
}

// maxDocumentWarnings is how many warnings of a document as a whole are passed on.
const maxDocumentWarnings = 20

// warn passes on what is damaged of the document as a whole.
func (c *conversation) warn(warnings []string) error {
	for _, w := range warnings {
		w = clip(w, maxFailure)
		if err := c.refuse(w); err != nil {
			return err
		}
		c.warned = true
		if c.passed++; w == "" || c.passed > maxDocumentWarnings || c.out.Warn == nil {
			continue
		}
		if err := c.out.Warn(w); err != nil {
			return err
		}
	}
	return nil
}

// refuse ends a damaged document where that is wanted.
func (c *conversation) refuse(warning string) error {
	if !c.strict || warning == "" {
		return nil
	}
	return fmt.Errorf("document is damaged: %s (PDF_ON_DAMAGE=fail)", warning)
}

// maxFailure is how many bytes of a child's words about a failure are kept.
const maxFailure = 1 << 10

// verdict translates how the child ended.
func (c *conversation) verdict(ctx context.Context, err error, p PDF) error {
	exit := (*command.ExitError)(nil)
	switch {
	case err == nil && c.done:
		return nil
	case err == nil:
		return fmt.Errorf("pdf reader ended %s without a word", c.where())
	case errors.Is(err, errPageTimeout):
		return fmt.Errorf("pdf reader was stopped %s: nothing came for %s (PDF_PAGE_TIMEOUT)", c.where(), p.PageTimeout)
	case errors.As(err, &exit):
		exit.Stderr = withoutStack(exit.Stderr)
		switch exit.Reason {
		case command.OverWall:
			exit.Limit = p.Timeout.String() + ", PDF_TIMEOUT"
		case command.OverCPU:
			exit.Limit = p.Timeout.String() + " of CPU time, PDF_TIMEOUT"
		case command.OverMemory:
			exit.Limit += ", PDF_MAX_MEMORY"
		case command.Exited, command.Signaled, command.OverOutput:
		}
		return fmt.Errorf("pdf reader ended %s: %w", c.where(), exit)
	case c.refused != nil:
		return c.refused
	case ctx.Err() != nil:
		return context.Cause(ctx)
	default:
		return fmt.Errorf("run pdf reader: %w", local(err))
	}
}

// withoutStack returns what a Go program says when it crashes without where it
// was, which says nothing to whoever sent the document.
func withoutStack(words string) string {
	for _, begin := range []string{"\n\nruntime stack:", "\n\ngoroutine "} {
		words, _, _ = strings.Cut(words, begin)
	}
	return words
}

func (c *conversation) where() string {
	switch {
	case !c.open:
		return "while it opened the document"
	case c.next > c.last:
		return "after the last page"
	default:
		return fmt.Sprintf("at page %d of %d", c.next, c.pages)
	}
}
