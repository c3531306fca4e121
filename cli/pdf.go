package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"unicode"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/cli/settings"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/processor"
)

// PDFCommandEnv is what the command pdf needs.
type PDFCommandEnv struct {
	PDFEnv
	Password string `envconfig:"BATCHFLEET_PDF_PASSWORD"` // of documents that do not open without
}

const pdfHelp = `Print the text of PDF documents: page after page, each followed by a form feed.
FILE may be - for stdin.

With --json, one line for a document and then one for each of its pages:

  {"file":"a.pdf","engine":"builtin","pages":2,"info":{"version":"1.7","encrypted":false,"title":"…"}}
  {"page":1,"text":"…","words":412,"characters":2210,"images":0,"has_text":true}

A page of which something was repaired, is missing or was guessed has a
"warning". What goes wrong is said on stderr, with the file and the page; other
files are read all the same, and the exit code is 1. With --strict, or
PDF_ON_DAMAGE=fail, a damaged document is not read beyond the first warning.

Documents are read in a child process, which reads the next one too while all is
well, under the limits of MAX_INPUT_BYTES,
MAX_PAGES, PDF_MAX_MEMORY, PDF_TIMEOUT and PDF_PAGE_TIMEOUT. A password comes
from --password-file or BATCHFLEET_PDF_PASSWORD. The built-in engine passes it
on unseen; poppler's programs take it as an argument, which other users of the
machine can see while they run.`

func pdfCommand() *cobra.Command {
	var env PDFCommandEnv
	var r pdfReader
	var engine, passwordFile string
	var workers int
	var strict bool
	cmd := &cobra.Command{
		Use:   "pdf FILE…",
		Short: "Print the text of PDF documents",
		Long:  pdfHelp,
		Args: func(_ *cobra.Command, files []string) error {
			if len(files) == 0 {
				return errors.New("name at least one FILE, or - for stdin")
			}
			return nil
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return []string{"pdf", "PDF"}, cobra.ShellCompDirectiveFilterFileExt
		},
		RunE: func(cmd *cobra.Command, files []string) error {
			if err := settings.Read(&env); err != nil {
				return err
			}
			if engine != "" {
				env.Engine = engine
			}
			if !slices.Contains(engines, env.Engine) {
				return program.Exit(program.Usage, fmt.Errorf("--engine is %q: want builtin or poppler", engine))
			}
			if workers < 1 || workers > 256 {
				return program.Exit(program.Usage, fmt.Errorf("--workers is %d: must be from 1 to 256", workers))
			}
			if passwordFile != "" {
				password, err := readPassword(cmd.Context(), passwordFile)
				if err != nil {
					return program.Mistake(cmd.Context(), err)
				}
				env.Password = password
			}
			ctx := cmd.Context()
			programs, err := env.programs(ctx)
			if err != nil {
				return err
			}
			r.env, r.programs, r.child = &env.PDFEnv, programs, env.child()
			r.child.Password, r.child.Workers = env.Password, workers
			r.child.Children = new(processor.Children)
			defer r.child.Children.Close()
			if strict {
				r.child.Strict = "--strict"
			}
			return program.Coded(ctx, r.run(ctx, files, os.Stdout))
		},
	}
	cmd.Flags().BoolVar(&r.asJSON, "json", false, "print JSON, one object a line")
	cmd.Flags().BoolVar(&strict, "strict", false, "a damaged document fails at the first warning, as with PDF_ON_DAMAGE=fail")
	cmd.Flags().Var(&r.pages, "pages", "only these pages: 3, 3-7, 3-, -7 or 1,4-6")
	cmd.Flags().StringVar(&passwordFile, "password-file", "", "file whose first line is the password")
	cmd.Flags().StringVar(&engine, "engine", "", "builtin or poppler; PDF_ENGINE when empty")
	cmd.Flags().IntVar(&workers, "workers", runtime.NumCPU(), "pages read at the same time, by the built-in engine")
	for name, complete := range map[string]cobra.CompletionFunc{
		"engine":  cobra.FixedCompletions(engines, cobra.ShellCompDirectiveNoFileComp),
		"pages":   cobra.NoFileCompletions,
		"workers": cobra.NoFileCompletions,
	} {
		if err := cmd.RegisterFlagCompletionFunc(name, complete); err != nil {
			panic(err) // there is no such flag
		}
	}
	return cmd
}

// readPassword returns the first line of a file.
func readPassword(ctx context.Context, name string) (string, error) {
	f := program.Interruptible(ctx, func() (io.ReadCloser, error) { return os.Open(name) })
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 4<<10))
	if err != nil {
		return "", fmt.Errorf("read password from %s: %w", name, err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimSuffix(line, "\r"), nil
}

// pdfReader prints documents.
type pdfReader struct {
	env      *PDFEnv
	child    processor.PDF
	programs *processor.Programs // of poppler; nil for the built-in engine
	asJSON   bool
	pages    pageRanges
	printer  *printer
}

// errSaid marks a failure that stderr has explained already.
var errSaid = errors.New("a document could not be read in full")

// run prints the files to out. One that cannot be read does not stop the others.
func (r *pdfReader) run(ctx context.Context, files []string, out *os.File) error {
	// Without this a reader of stdout that goes away ends the process at once,
	// and what was kept of stdin stays on the disk.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	r.printer = newPrinter(out, r.asJSON)
	failed := false
	for _, name := range files {
		err := errors.Join(r.file(ctx, name), r.printer.flush())
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, syscall.EPIPE):
			return exitError(failed) // whoever reads has had enough, which is no failure
		case errors.Is(err, errPrint):
			return err
		case errors.Is(err, errSaid):
			failed = true
		case err != nil:
			complain(name, err.Error())
			failed = true
		}
	}
	return exitError(failed)
}

func exitError(failed bool) error {
	if failed {
		return program.Exit(program.Failed, nil) // why has been said
	}
	return nil
}

// complain says what is wrong with a file. Neither its name nor the document
// can take over the terminal.
func complain(name, what string) {
	fmt.Fprintf(os.Stderr, "batchfleet: %s: %s\n", oneLine(name), oneLine(what))
}

// file prints one document.
func (r *pdfReader) file(ctx context.Context, name string) error {
	path, remove, err := r.open(ctx, name)
	if err != nil {
		return err
	}
	defer remove()
	ranges := r.pages
	if len(ranges) == 0 {
		ranges = pageRanges{{first: 1}}
	}
	var warned error
	warn := func(warning string) error {
		if err := r.printer.flush(); err != nil {
			return err
		}
		complain(name, warning)
		warned = errSaid
		return nil
	}
	for i, pages := range ranges {
		child := r.child
		child.Last = pages.last
		engine := engineOf(child, r.programs)
		err := engine.Read(ctx, jobs.Job{}, path, pages.first, processor.Sink{
			Open: func(n int, about json.RawMessage) error {
				if i > 0 {
					return nil
				}
				if err := r.pages.within(n); err != nil {
					return err
				}
				return r.printer.document(name, engine.Name(), n, about)
			},
			Warn: func(warning string) error {
				if i > 0 {
					return nil // it has been said
				}
				return warn(warning)
			},
			Page: func(rec processor.Record) error {
				if rec.Warning != "" {
					if err := warn(rec.Warning); err != nil {
						return err
					}
				}
				return r.printer.page(rec)
			},
		})
		if err != nil {
			return err
		}
	}
	return warned
}

// open returns a path that the child can open for the file: its own, or that of
// a copy where it can be read only once.
func (r *pdfReader) open(ctx context.Context, name string) (path string, remove func(), err error) {
	in := func() (io.ReadCloser, error) { return os.Stdin, nil }
	if name != "-" {
		info, err := os.Stat(name)
		switch {
		case err != nil:
			return "", nil, program.WithoutPath(err)
		case info.IsDir():
			return "", nil, errors.New("is a directory")
		case info.Mode().IsRegular() && info.Size() > r.env.MaxInputBytes:
			return "", nil, fmt.Errorf("larger than %d bytes (MAX_INPUT_BYTES)", r.env.MaxInputBytes)
		}
		in = func() (io.ReadCloser, error) { return os.Open(name) }
		if info.Mode().IsRegular() {
			f, err := in() // says whether it may be read
			if err != nil {
				return "", nil, program.WithoutPath(err)
			}
			path, err := filepath.Abs(name)
			return path, func() {}, errors.Join(err, f.Close())
		}
	}
	src := program.Interruptible(ctx, in)
	defer src.Close()
	path, remove, err = processor.CopyInput(ctx, r.env.WorkDir, src, r.env.MaxInputBytes)
	if errors.Is(err, jobs.ErrUnavailable) {
		err = fmt.Errorf("keep a copy in WORK_DIR: %w", program.WithoutPath(err))
	}
	return path, remove, err
}

// printer writes documents to stdout.
type printer struct {
	w      *bufio.Writer
	json   *json.Encoder // nil for plain text
	screen bool          // stdout is a terminal
}

// errPrint marks an error of stdout.
var errPrint = errors.New("write to stdout")

func newPrinter(out *os.File, asJSON bool) *printer {
	p := &printer{w: bufio.NewWriterSize(out, 64<<10), screen: term.IsTerminal(int(out.Fd()))}
	if asJSON {
		p.json = json.NewEncoder(p.w)
		p.json.SetEscapeHTML(false)
	}
	return p
}

// documentLine is what --json prints of a document.
type documentLine struct {
	File   string          `json:"file"`
	Engine string          `json:"engine"`
	Pages  int             `json:"pages"`
	Info   json.RawMessage `json:"info"`
}

func (p *printer) document(name, engine string, pages int, about json.RawMessage) error {
	if p.json == nil {
		return nil
	}
	return printed(p.json.Encode(documentLine{name, engine, pages, about}))
}

// page writes a page; its text ends with a newline, unless there is none.
func (p *printer) page(rec processor.Record) error {
	if p.json != nil {
		return printed(p.json.Encode(rec))
	}
	text := rec.Text
	if p.screen {
		text = tame(text)
	}
	_, err := p.w.WriteString(text)
	if err == nil && text != "" && !strings.HasSuffix(text, "\n") {
		err = p.w.WriteByte('\n')
	}
	return printed(errors.Join(err, p.w.WriteByte('\f')))
}

func (p *printer) flush() error { return printed(p.w.Flush()) }

func printed(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", errPrint, err)
}

// tame removes from text what could take over a terminal.
func tame(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, text)
}
