// Package pdf reads the text of PDF documents, page by page: their words, the
// number of images, the metadata and the outline. It renders nothing.
//
// [OpenFile] and [Open] find the pages; [Document.Page] and [Document.Pages]
// read them one at a time. A document keeps references to its pages, not pages,
// about 20 bytes each, so that one of a hundred thousand takes no more memory
// than its file and a few caches. Every piece of work has a limit, see
// [Options]: a hostile file costs bounded time and memory, and damaged files
// are read as far as they make sense.
//
// Text comes in the order in which the page draws it, words a blank apart,
// lines a line feed. Pages that are scans have no text, unless it was added
// after scanning.
//
// The parts are packages of their own: cos for the objects of the file, filter
// for the encodings of streams, font for what codes mean, content for what a
// page shows. They know nothing of the rest of this program.
package pdf

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/batchfleet/batchfleet/pdf/content"
	"github.com/batchfleet/batchfleet/pdf/cos"
)

// The errors a caller tells apart.
var (
	// ErrNotPDF says that the file is empty or not a PDF at all.
	ErrNotPDF = errors.New("not a PDF file")
	// ErrPassword says that the file is encrypted and the password given does
	// not open it.
	ErrPassword = cos.ErrPassword
	// ErrDamaged says that the file is a PDF in which no pages can be found.
	ErrDamaged = errors.New("no pages can be found")
	// ErrLimit says that the document or the page exceeds one of the limits of
	// [Options].
	ErrLimit = content.ErrLimit
)

// Options are the password and the limits of [Open]. A limit of 0 means its
// default.
type Options struct {
	Password       string // of the user or of the owner; empty opens most encrypted files
	MaxPages       int    // of the document; 1 000 000
	MaxStreamBytes int    // decoded, of one stream; 128 MiB
	MaxPageBytes   int    // decoded and parsed for one page, and work that is like it; 128 MiB
	MaxOperators   int    // of one page, forms included; 10 000 000
	MaxTextBytes   int    // of one page; 16 MiB
	// Workers is how many pages [Document.Pages] reads at the same time; 1.
	// Each takes some memory for caches of its own.
	Workers int
}

func (o Options) withDefaults() Options {
	set := func(v *int, missing int) {
		if *v <= 0 {
			*v = missing
		}
	}
	set(&o.MaxPages, 1_000_000)
	set(&o.MaxStreamBytes, 128<<20)
	set(&o.MaxPageBytes, 128<<20)
	set(&o.MaxOperators, 10_000_000)
	set(&o.MaxTextBytes, 16<<20)
	set(&o.Workers, 1)
	return o
}

// Document is an open PDF. It is safe for concurrent use, but for
// [Document.Close].
type Document struct {
	opts Options
	tree pageTree

	source *cos.File // what readers clone; nothing is read from it
	unmap  func() error

	mu       sync.Mutex
	idle     []*reader
	warnings []string
}

// reader is what reading takes: it serves one goroutine at a time.
type reader struct {
	*Document
	file    *cos.File
	content *content.Reader
}

// reader returns an idle reader, or a new one; it goes back with [reader.done].
func (d *Document) reader() *reader {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := len(d.idle); n > 0 {
		r := d.idle[n-1]
		d.idle = d.idle[:n-1]
		return r
	}
	return newReader(d, d.source.Clone())
}

func newReader(d *Document, f *cos.File) *reader {
	limits := content.Limits{Operators: d.opts.MaxOperators, Text: d.opts.MaxTextBytes}
	return &reader{Document: d, file: f, content: content.NewReader(f, limits)}
}

func (r *reader) done() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.idle = append(r.idle, r)
}

// Open reads the size bytes of r into memory and finds the document's pages. r
// is not used after Open returns. A document without pages is no error. The
// errors are [ErrNotPDF], [ErrPassword], [ErrDamaged] and [ErrLimit], wrapped,
// and those of r.
func Open(r io.ReaderAt, size int64, opts Options) (*Document, error) {
	if size <= 0 {
		return nil, errEmpty
	}
	data := make([]byte, size)
	if n, err := r.ReadAt(data, 0); n < len(data) {
		return nil, fmt.Errorf("read document: %w", err)
	}
	return newDocument(data, opts)
}

var errEmpty = fmt.Errorf("open document: empty file: %w", ErrNotPDF)

func newDocument(data []byte, opts Options) (opened *Document, err error) {
	defer recovered("open document", &err)
	d := &Document{opts: opts.withDefaults()}
	file, err := cos.Open(data, cos.Options{Password: opts.Password, MaxStream: d.opts.MaxStreamBytes})
	switch {
	case errors.Is(err, cos.ErrNoObjects) && !cos.HasHeader(data):
		return nil, fmt.Errorf("open document: %w", ErrNotPDF)
	case errors.Is(err, ErrPassword):
		return nil, fmt.Errorf("open document: %w", err)
	case err != nil:
		return nil, fmt.Errorf("open document: %w: %w", ErrDamaged, err)
	}
	first := newReader(d, file)
	if err := first.findPages(); err != nil {
		return nil, fmt.Errorf("open document: %w", err)
	}
	d.warnings = file.TakeNotes()
	d.source = file.Clone()
	first.done()
	return d, nil
}

// recovered turns a panic into an error. A reader of files from anywhere must
// not take its process with it, whatever it has overlooked.
func recovered(what string, err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%s: panic: %v", what, p)
	}
}

const maxWarnings = 8 // of the document

// Warnings tells what of the document as a whole was repaired, is missing or
// was guessed, for people: at most eight short texts. Those of the metadata and
// of the outline are among them once [Document.Info] and [Document.Outline] have
// read them. Those of a page are in [Page].
func (d *Document) Warnings() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.warnings)
}

// addWarnings adds what r has noted to the warnings of the document.
func (r *reader) addWarnings() {
	notes := r.file.TakeNotes()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, text := range notes {
		if len(r.warnings) < maxWarnings && !slices.Contains(r.warnings, text) {
			r.warnings = append(r.warnings, text)
		}
	}
}

// NumPages returns the number of pages.
func (d *Document) NumPages() int { return len(d.tree.pages) }
