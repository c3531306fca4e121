package cli

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
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
	"github.com/batchfleet/batchfleet/grid/leader"
	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
)

func resultCommand(c *connection) *cobra.Command {
	var dir, name string
	var text, list, asJSON bool
	cmd := &cobra.Command{
		Use: "result JOB", Short: "Fetch what a job has made", Args: cobra.ExactArgs(1),
		Long: "Fetch what a job has made: print its result.json; with --text only the text of the document, the summary of a\n" +
			"calculation, or the one text file that another kind has left; with --artifact one file; with -o put all its files\n" +
			"into a directory, in the place of files with their names. A download that breaks off goes on where it was.",
		Example: `  batchfleet result 01KDZ3NDEKTSV4RRFFQ69G5FAV
  batchfleet result --text 01KDZ3NDEKTSV4RRFFQ69G5FAV | less
  batchfleet result -o results 01KDZ3NDEKTSV4RRFFQ69G5FAV
  batchfleet result --artifact page-1.png 01KDZ3NDEKTSV4RRFFQ69G5FAV > page.png`,
	}
	flags := cmd.Flags()
	c.flags(cmd)
	c.scopeFlag(cmd)
	flags.StringVarP(&dir, "output", "o", "", "put all files into this directory, which is made if it is not there, and print their paths")
	flags.BoolVar(&text, "text", false, "print the text alone")
	flags.StringVar(&name, "artifact", "", "print this file alone, one of those that --list shows; not to a terminal unless it is text")
	flags.BoolVar(&list, "list", false, "list the files, and fetch none")
	jsonFlag(cmd, &asJSON)
	cmd.MarkFlagsMutuallyExclusive("output", "text", "artifact", "list")
	cmd.MarkFlagsMutuallyExclusive("text", "artifact", "json")
	cmd.ValidArgsFunction = c.completeJobs
	cmd.RunE = c.ofJob(needRedis, "fetch result of", func(ctx context.Context, cmd *cobra.Command, j jobapi.Job) error {
		out := cmd.OutOrStdout()
		switch {
		case !keepers[j.Scope]:
			return program.Exit(program.Usage, fmt.Errorf("job %s is an operation and leaves no files: `batchfleet %s%s%s` shows its result", j.ID, showOf(c.group), j.ID, c.given()))
		case j.Scope == leader.Scope && j.Status.Terminal(): // a program may leave files, however it ends
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
		case len(files) == 0 && j.Status != jobs.Succeeded:
			return ended(j)
		case list:
			return printRows(out, asJSON, files, []any{"FILE", "BYTES", "TYPE"}, func(a jobapi.Artifact) []any { return []any{a.Name, a.Bytes, a.MediaType} })
		case dir != "":
			return c.save(ctx, j, files, dir, out, asJSON)
		case text:
			return c.printText(ctx, j, files, out)
		case name != "":
			return c.print(ctx, j, files, name, out)
		case j.Scope == leader.Scope && len(files) > 0:
			return program.Exit(program.Usage, fmt.Errorf("what the program of job %s has left is %s: give -o DIR to fetch it", j.ID, oneLine(files[0].Name)))
		case j.Scope == leader.Scope:
			return program.Exit(program.Failed, fmt.Errorf("job %s has left no files", j.ID))
		}
		return c.print(ctx, j, files, "result.json", out)
	})
	return cmd
}

// fileOf returns a file of a job, or an error if it has none of that name.
func (c *connection) fileOf(j jobapi.Job, files []jobapi.Artifact, name string) (jobapi.Artifact, error) {
	if i := slices.IndexFunc(files, func(a jobapi.Artifact) bool { return a.Name == name }); i >= 0 {
		return files[i], nil
	}
	return jobapi.Artifact{}, program.Exit(program.Failed, fmt.Errorf("job %s has no %.128s; `batchfleet %sresult --list %s%s` shows what it has", j.ID, oneLine(name), c.group, j.ID, c.given()))
}

// print writes a file of a job to out, safe for a terminal if it is one.
func (c *connection) print(ctx context.Context, j jobapi.Job, files []jobapi.Artifact, name string, out io.Writer) error {
	file, err := c.fileOf(j, files, name)
	if err != nil {
		return err
	}
	safe := &safeWriter{to: out, raw: !isTerminal(out)}
	if !safe.raw && !isText(file) {
		return program.Exit(program.Usage, fmt.Errorf("%s is %s, which is not for a terminal: write it to a file, as with > %s, or give -o", name, oneLine(file.MediaType), name))
	}
	if err := c.Artifact(ctx, j.Scope, j.ID, name, safe); err != nil {
		return err
	}
	return safe.end()
}

// printText writes the text of a document, a form feed after each page as `batchfleet pdf`
// does, the summary of a calculation, or the one text file of another kind.
func (c *connection) printText(ctx context.Context, j jobapi.Job, files []jobapi.Artifact, out io.Writer) error {
	if j.Scope == "zpe" {
		return c.print(ctx, j, files, "summary.txt", out)
	}
	if _, err := c.fileOf(j, files, "pages.jsonl"); err != nil {
		name, err := c.onlyText(j, files)
		if err != nil {
			return err
		}
		return c.print(ctx, j, files, name, out)
	}
	pages := &pageWriter{to: out, raw: !isTerminal(out)}
	err := c.Artifact(ctx, j.Scope, j.ID, "pages.jsonl", pages)
	if err == nil && len(pages.rest) > 0 {
		err = fmt.Errorf("read pages.jsonl of job %s: its last line is not whole", j.ID)
	}
	return err
}

// logFile is where a kind keeps its whole log, if its keep_log says so.
const logFile = "log.txt"

// onlyText returns the one file of a job that is text, its log aside.
func (c *connection) onlyText(j jobapi.Job, files []jobapi.Artifact) (string, error) {
	var texts []string
	for _, a := range files {
		if strings.HasPrefix(a.MediaType, "text/") && a.Name != logFile {
			texts = append(texts, a.Name)
		}
	}
	if len(texts) == 1 {
		return texts[0], nil
	}
	what := "no text"
	if len(texts) > 1 {
		what = fmt.Sprintf("%d files of text", len(texts))
	}
	return "", program.Exit(program.Failed, fmt.Errorf("job %s has %s; `batchfleet %sresult --list %s%s` shows what it has, --artifact prints one", j.ID, what, c.group, j.ID, c.given()))
}

// isText reports whether a file is made of lines that people can read.
func isText(a jobapi.Artifact) bool {
	media, _, _ := strings.Cut(a.MediaType, ";")
	return strings.HasPrefix(media, "text/") || media == "application/json" || media == "application/x-ndjson" || media == "application/xml"
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
		if err := c.saveOne(ctx, j, a, path); err != nil {
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

func (c *connection) saveOne(ctx context.Context, j jobapi.Job, a jobapi.Artifact, path string) (err error) {
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
	sum := sha256.New()
	if err := errors.Join(c.Artifact(ctx, j.Scope, j.ID, a.Name, io.MultiWriter(f, sum)), f.Close()); err != nil {
		return err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); a.SHA256 != "" && got != a.SHA256 {
		return program.Exit(program.Failed, fmt.Errorf("%s of job %s has the SHA-256 %s, and not %.64s, which its job has recorded: it was changed since", a.Name, j.ID, got, oneLine(a.SHA256)))
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return program.Exit(program.Failed, fmt.Errorf("-o: %w", err))
	}
	return nil
}
