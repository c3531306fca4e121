package cli

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
)

func resultCommand(c *connection) *cobra.Command {
	var dir string
	var text, list, asJSON bool
	cmd := &cobra.Command{
		Use: "result JOB", Short: "Fetch what a job has made", Args: cobra.ExactArgs(1),
		Long: "Fetch what a job has made: print its result.json; with --text only the text of the document, or the summary of a\n" +
			"calculation; with -o put all its files into a directory, in the place of files with their names.",
		Example: `  batchfleet result 01KDZ3NDEKTSV4RRFFQ69G5FAV
  batchfleet result --text 01KDZ3NDEKTSV4RRFFQ69G5FAV | less
  batchfleet result -o results 01KDZ3NDEKTSV4RRFFQ69G5FAV`,
	}
	flags := cmd.Flags()
	c.flags(cmd)
	c.scopeFlag(cmd)
	flags.StringVarP(&dir, "output", "o", "", "put all files into this directory, which is made if it is not there, and print their paths")
	flags.BoolVar(&text, "text", false, "print the text alone")
	flags.BoolVar(&list, "list", false, "list the files, and fetch none")
	jsonFlag(cmd, &asJSON)
	cmd.MarkFlagsMutuallyExclusive("output", "text", "list")
	cmd.MarkFlagsMutuallyExclusive("text", "json")
	cmd.ValidArgsFunction = c.completeJobs
	cmd.RunE = c.ofJob(needRedis, "fetch result of", func(ctx context.Context, cmd *cobra.Command, j jobapi.Job) error {
		out := cmd.OutOrStdout()
		switch {
		case !keepers[j.Scope]:
			return program.Exit(program.Usage, fmt.Errorf("job %s is an operation and leaves no files: `batchfleet get %s` shows its result", j.ID, j.ID))
		case j.Status == jobs.Failed:
			return ended(j)
		case j.Status != jobs.Succeeded:
			return program.Exit(program.Failed, fmt.Errorf("job %s has no result: it is %s", j.ID, j.Status))
		}
		files, err := c.Artifacts(ctx, j.Scope, j.ID)
		if err != nil {
			return err
		}
		switch {
		case list:
			return printRows(out, asJSON, files, []any{"FILE", "BYTES", "TYPE"}, func(a jobapi.Artifact) []any { return []any{a.Name, a.Bytes, a.MediaType} })
		case dir != "":
			return c.save(ctx, j, files, dir, out, asJSON)
		case text:
			return c.printText(ctx, j, files, out)
		}
		return c.print(ctx, j, files, "result.json", out)
	})
	return cmd
}

// lacksFile returns an error unless a job has a file.
func lacksFile(j jobapi.Job, files []jobapi.Artifact, name string) error {
	if slices.ContainsFunc(files, func(a jobapi.Artifact) bool { return a.Name == name }) {
		return nil
	}
	return program.Exit(program.Failed, fmt.Errorf("job %s has no %s; `batchfleet result --list %s` shows what it has", j.ID, name, j.ID))
}

// print writes a file of a job to out, safe for a terminal if it is one.
func (c *connection) print(ctx context.Context, j jobapi.Job, files []jobapi.Artifact, name string, out io.Writer) error {
	if err := lacksFile(j, files, name); err != nil {
		return err
	}
	safe := &safeWriter{to: out, raw: !isTerminal(out)}
	if err := c.Artifact(ctx, j.Scope, j.ID, name, safe); err != nil {
		return err
	}
	return safe.end()
}

// printText writes the text of a document, a form feed after each page as `batchfleet pdf`
// does, or the summary of a calculation.
func (c *connection) printText(ctx context.Context, j jobapi.Job, files []jobapi.Artifact, out io.Writer) error {
	if j.Scope == "zpe" {
		return c.print(ctx, j, files, "summary.txt", out)
	}
	if err := lacksFile(j, files, "pages.jsonl"); err != nil {
		return err
	}
	pages := &pageWriter{to: out, raw: !isTerminal(out)}
	err := c.Artifact(ctx, j.Scope, j.ID, "pages.jsonl", pages)
	if err == nil && len(pages.rest) > 0 {
		err = fmt.Errorf("read pages.jsonl of job %s: its last line is not whole", j.ID)
	}
	return err
}

// maxLine bounds a line of text or of pages.jsonl, in bytes: far above what a page may have.
const maxLine = 64 << 20

// safeWriter makes text safe for a terminal, line by line, unless it is to stay as it is.
type safeWriter struct {
	to   io.Writer
	raw  bool
	rest []byte // a line whose end has not come
}

func (s *safeWriter) Write(p []byte) (int, error) {
	if s.raw {
		return s.to.Write(p)
	}
	i := bytes.LastIndexByte(p, '\n') + 1
	if i == 0 && len(s.rest) < 1<<16 {
		s.rest = append(s.rest, p...)
		return len(p), nil
	}
	if i == 0 {
		i = len(p)
	}
	_, err := io.WriteString(s.to, severalLines(append(s.rest, p[:i]...)))
	s.rest = append(s.rest[:0], p[i:]...)
	return len(p), err
}

func (s *safeWriter) end() error {
	_, err := io.WriteString(s.to, severalLines(s.rest))
	return err
}

// pageWriter prints the text of each line of pages.jsonl.
type pageWriter struct {
	to   io.Writer
	raw  bool
	rest []byte // a line whose end has not come
}

func (w *pageWriter) Write(p []byte) (int, error) {
	for left := p; ; {
		line, rest, whole := bytes.Cut(left, []byte("\n"))
		w.rest = append(w.rest, line...)
		switch {
		case len(w.rest) > maxLine:
			return 0, fmt.Errorf("read pages.jsonl: a line is longer than %d bytes", maxLine)
		case !whole:
			return len(p), nil
		}
		if err := w.page(w.rest); err != nil {
			return 0, err
		}
		w.rest, left = w.rest[:0], rest
	}
}

func (w *pageWriter) page(line []byte) error {
	var page struct {
		Text string `json:"text"`
	}
	if err := json.Unmarshal(line, &page); err != nil {
		return fmt.Errorf("read pages.jsonl: %w", err)
	}
	text := strings.TrimSuffix(page.Text, "\n")
	if !w.raw {
		text = severalLines([]byte(text))
	}
	_, err := fmt.Fprintf(w.to, "%s\n\f", text)
	return err
}

// save puts the files of a job into a directory. A file appears whole or not at all.
func (c *connection) save(ctx context.Context, j jobapi.Job, files []jobapi.Artifact, dir string, out io.Writer, asJSON bool) error {
	if err := os.MkdirAll(dir, 0o777); err != nil { //nolint:gosec // the user's umask decides
		return program.Exit(program.Usage, fmt.Errorf("-o: %w", err))
	}
	var saved []savedFile
	for _, a := range files {
		path := filepath.Join(dir, a.Name)
		if err := c.saveOne(ctx, j, a.Name, path); err != nil {
			return err
		}
		saved = append(saved, savedFile{path, a.Bytes})
	}
	if len(files) == 0 {
		return program.Exit(program.Failed, fmt.Errorf("job %s has left no files", j.ID))
	}
	return printRows(out, asJSON, saved, nil, func(s savedFile) []any { return []any{s.File} })
}

// savedFile is how a file that was saved is printed as JSON.
type savedFile struct {
	File  string `json:"file"`
	Bytes int64  `json:"bytes"`
}

func (c *connection) saveOne(ctx context.Context, j jobapi.Job, name, path string) (err error) {
	// With the mode that the user's umask leaves, as of any file that a command makes.
	f, err := os.OpenFile(filepath.Join(filepath.Dir(path), ".batchfleet-"+rand.Text()), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666) //nolint:gosec // so it is meant
	if err != nil {
		return program.Exit(program.Usage, fmt.Errorf("-o: %w", err))
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	if err := errors.Join(c.Artifact(ctx, j.Scope, j.ID, name, f), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return program.Exit(program.Failed, fmt.Errorf("-o: %w", err))
	}
	return nil
}
