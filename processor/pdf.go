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
// because every document may be hostile. The child can run out of memory or time, or
// crash; the worker only gets an error.
type PDF struct {
	// Executable and Args start a child that calls [ServePDF] on its stdin and
	// stdout.
	Executable string
	Args       []string
	// Children keeps children for further documents; nil starts a new child for each
	// document.
	Children *Children

	MaxPages    int           // a document with more pages is not read; 0 for no limit
	Memory      int64         // bytes the child may use, and each program it starts
	Timeout     time.Duration // for a document, on the wall clock and on the CPU
	PageTimeout time.Duration // for a page

	Workers  int    // pages read at the same time; 0 means 1
	Last     int    // the last page wanted; 0 for all
	Password string // of the user or of the owner, for documents that do not open without

	// Strict fails a document with the first warning of damage. It is what has asked for
	// that, such as --strict, for the error; empty when nothing has.
	Strict string
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

// maxReplies is how many bytes a child may write in all. A book of 5000 dense pages
// takes a tenth of that. Without a limit, a small document whose every page expands
// to the limit of a page could fill the worker's disk.
const maxReplies = 2 << 30

// Read implements [Engine]. An error wraps [jobs.ErrUnavailable] when no child
// could be started or the file at path is missing. A child that fails is the
// document's fault.
func (p PDF) Read(ctx context.Context, _ jobs.Job, path string, from int, out Sink) error {
	return p.readInChild(ctx, pdfRequest{Path: []byte(path), From: from}, out, path)
}

// readInChild has a child answer a request. needs are the files that the child
// opens: if one is missing, that is not the document's fault.
func (p PDF) readInChild(ctx context.Context, req pdfRequest, out Sink, needs ...string) error {
	req.Last, req.Workers, req.Password = p.Last, p.Workers, p.Password
	c := childReplies{out: out, next: req.From, last: req.Last, maxPages: p.MaxPages, strict: p.Strict}
	began := time.Now()
	used, err := p.request(ctx, req, &c, p.Timeout, false)
	if used && c.needsRetry(err) && ctx.Err() == nil {
		// An earlier document may have damaged the child. How a child ends counts
		// against a document only if the child has read nothing else. A reply that the
		// document cannot be read is accepted from any child.
		req.From = c.next
		c.opened, c.isInvalid, c.replyErr = false, false, nil
		left := p.Timeout
		if left > 0 {
			left = max(left-time.Since(began), 1)
		}
		_, err = p.request(ctx, req, &c, left, true)
	}
	for _, name := range needs {
		if _, missing := os.Stat(name); err != nil && missing != nil && ctx.Err() == nil {
			return fmt.Errorf("look for what the pdf reader needs: %w", localError(missing))
		}
	}
	return c.childError(ctx, err, p)
}

// request sends a request to a child, one that has read other documents unless
// newChild is set, and keeps the child if all went well.
func (p PDF) request(ctx context.Context, req pdfRequest, c *childReplies, wall time.Duration, newChild bool) (used bool, err error) {
	request, err := json.Marshal(req)
	if err != nil {
		return false, err
	}
	var child *command.Session
	if !newChild {
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
	err = child.Do(ctx, append(request, '\n'), wall, func(line []byte) (bool, error) {
		defer watch.Reset(p.PageTimeout)
		watch.Stop() // storing a checkpoint is not the page's time
		c.replyErr = c.reply(line)
		return c.done, c.replyErr
	})
	if err != nil || !c.done || c.damaged || !p.Children.keep(child) {
		child.Close()
	}
	return used, err
}

// command returns how to start a child; alone if it starts no programs itself.
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

// withoutStack cuts the stack traces off the stderr of a Go program that crashed.
// They are of no use to the user who sent the document.
func withoutStack(stderr string) string {
	for _, begin := range []string{"\n\nruntime stack:", "\n\ngoroutine "} {
		stderr, _, _ = strings.Cut(stderr, begin)
	}
	return stderr
}
