package processor

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/pdf"
)

// The parent writes a line, a pdfRequest, to the child's stdin. The child
// answers with lines on stdout, one pdfReply each: opened first, then a page at
// a time, perhaps after skipped ones, then done; or failed at any point. Then there
// may be another request.

type pdfRequest struct {
	Path     []byte    `json:"path"`               // bytes, which need not be UTF-8
	From     int       `json:"from"`               // first page wanted, from 1
	Last     int       `json:"last,omitempty"`     // last page wanted; 0 for all
	Workers  int       `json:"workers,omitempty"`  // pages read at the same time; 0 means 1
	Password string    `json:"password,omitempty"` // tried before the empty one
	Poppler  *Programs `json:"poppler,omitempty"`  // read with these; the built-in reader if nil
}

type pdfReply struct {
	Opened  *pdfOpened `json:"opened,omitempty"`
	Page    *Record    `json:"page,omitempty"`
	Skipped int        `json:"skipped,omitempty"` // a page before the first one wanted, read only for its damage
	Failed  string     `json:"failed,omitempty"`  // why the document cannot be read; the last line
	Done    bool       `json:"done,omitempty"`    // the last line
	Late    []string   `json:"late,omitempty"`    // with Done: warnings of the document that came up as it was read
}

type pdfOpened struct {
	Pages    int      `json:"pages"`
	Info     pdfInfo  `json:"info"`
	Warnings []string `json:"warnings,omitempty"` // of the document as a whole
}

// pdfInfo is the field document.info of the result of a PDF.
type pdfInfo struct {
	Version   string        `json:"version"`
	Encrypted bool          `json:"encrypted"`
	Title     string        `json:"title,omitempty"`
	Author    string        `json:"author,omitempty"`
	Subject   string        `json:"subject,omitempty"`
	Keywords  string        `json:"keywords,omitempty"`
	Creator   string        `json:"creator,omitempty"`
	Producer  string        `json:"producer,omitempty"`
	Created   time.Time     `json:"created,omitzero"`
	Modified  time.Time     `json:"modified,omitzero"`
	Outline   []outlineItem `json:"outline,omitempty"`
}

type outlineItem struct {
	Title string `json:"title"`
	Level int    `json:"level"`
	Page  int    `json:"page,omitempty"`
}

// maxPageText is how many bytes of a page's text are kept. The densest real
// pages have some 50 kB.
const maxPageText = 4 << 20

// maxMetadata is how many bytes of one metadata field or title are kept.
const maxMetadata = 4 << 10

// ServePDF is the child's side: it reads requests from in, one after the other,
// reads each document and writes the replies to out. It returns an error only
// when it cannot read a request or write a reply; what is wrong with a document is a
// reply. Documents share nothing: each has a reader of its own.
func ServePDF(in io.Reader, out io.Writer) error {
	requests := json.NewDecoder(in)
	w := bufio.NewWriterSize(out, 64<<10)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	for {
		var req pdfRequest
		if err := requests.Decode(&req); err == io.EOF {
			return nil
		} else if err != nil {
			return fmt.Errorf("read request: %w", err)
		}
		if err := readPDF(req, func(r pdfReply) error {
			if err := enc.Encode(r); err != nil {
				return err
			}
			return w.Flush() // the parent shows each page as it comes
		}); err != nil {
			return fmt.Errorf("write reply: %w", err)
		}
	}
}

// document is an open document, whichever reader has opened it.
type document interface {
	// opened returns the number of pages and the metadata.
	opened() pdfOpened
	// pages yields the pages from first to last in order, and may yield those
	// before, empty. A page that cannot be read comes with a warning; an error ends
	// the document.
	pages(first, last int) iter.Seq2[Record, error]
	// close frees the resources of the document.
	close()
	// warnings returns what is damaged of the document as a whole and was not in
	// opened. It is called when the pages have been read.
	warnings() []string
}

// readPDF passes the document to reply; its error is one of reply's.
func readPDF(req pdfRequest, reply func(pdfReply) error) error {
	doc, err := openDocument(req)
	if err != nil {
		return reply(pdfReply{Failed: openFailure(err, req.Password != "")})
	}
	defer doc.close()
	about := doc.opened()
	if err := reply(pdfReply{Opened: &about}); err != nil {
		return err
	}
	last := about.Pages
	if req.Last > 0 {
		last = min(last, req.Last)
	}
	for rec, err := range doc.pages(max(1, req.From), last) {
		if err != nil {
			return reply(pdfReply{Failed: err.Error()})
		}
		r := pdfReply{Page: &rec}
		if rec.Page < req.From {
			r = pdfReply{Skipped: rec.Page}
		}
		if err := reply(r); err != nil {
			return err
		}
	}
	return reply(pdfReply{Done: true, Late: doc.warnings()})
}

// openDocument opens the document with the password of the request, and
// without: a password that is not needed does no harm.
func openDocument(req pdfRequest) (document, error) {
	open := openBuiltin
	if req.Poppler != nil {
		open = openPoppler
	}
	doc, err := open(req)
	if errors.Is(err, pdf.ErrPassword) && req.Password != "" {
		req.Password = ""
		doc, err = open(req)
	}
	return doc, err
}

func openFailure(err error, passwordGiven bool) string {
	file := (*fs.PathError)(nil)
	switch {
	case errors.As(err, &file):
		return "cannot open the file: " + file.Err.Error()
	case errors.Is(err, pdf.ErrPassword) && !passwordGiven:
		return "document is encrypted and needs a password"
	case errors.Is(err, pdf.ErrPassword):
		return "document is encrypted and the password does not open it"
	case errors.Is(err, pdf.ErrNotPDF):
		return "input is not a PDF"
	default:
		return "document cannot be opened: " + jobs.Clip(err.Error(), 300, "")
	}
}
