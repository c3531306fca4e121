package processor

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
	"unicode/utf8"

	"github.com/batchfleet/batchfleet/pdf"
)

// The parent writes one line, a pdfRequest, to the child's stdin. The child
// answers with lines on stdout, one pdfReply each: opened first, then a page at
// a time, then done; or failed at any point.

type pdfRequest struct {
	Path     string `json:"path"`
	From     int    `json:"from"`      // first page wanted, from 1
	MaxPages int    `json:"max_pages"` // a document with more is not read; 0 for no limit
	Password string `json:"password,omitempty"`
}

type pdfReply struct {
	Opened *pdfOpened `json:"opened,omitempty"`
	Page   *Record    `json:"page,omitempty"`
	Failed string     `json:"failed,omitempty"` // why the document cannot be read; the last line
	Done   bool       `json:"done,omitempty"`   // the last line
}

type pdfOpened struct {
	Pages int     `json:"pages"`
	Info  pdfInfo `json:"info"`
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
	Created   *time.Time    `json:"created,omitempty"`
	Modified  *time.Time    `json:"modified,omitempty"`
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

// ServePDF is the child's side: it reads one request from in, reads the
// document and writes the replies to out. It returns an error only when it
// cannot talk to its parent; what is wrong with the document is a reply.
func ServePDF(in io.Reader, out io.Writer) error {
	var req pdfRequest
	if err := json.NewDecoder(in).Decode(&req); err != nil {
		return fmt.Errorf("read request: %w", err)
	}
	w := bufio.NewWriterSize(out, 64<<10)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	if err := readPDF(req, func(r pdfReply) error {
		if err := enc.Encode(r); err != nil {
			return err
		}
		return w.Flush() // the parent shows each page as it comes
	}); err != nil {
		return fmt.Errorf("write reply: %w", err)
	}
	return nil
}

// readPDF passes the document to reply; its error is one of reply's.
func readPDF(req pdfRequest, reply func(pdfReply) error) error {
	f, err := os.Open(req.Path)
	if err != nil {
		return reply(pdfReply{Failed: "cannot open the copy of the input"})
	}
	defer f.Close()
	stat, err := f.Stat()
	if err != nil {
		return reply(pdfReply{Failed: "cannot open the copy of the input"})
	}
	doc, err := pdf.Open(f, stat.Size(), pdf.Options{Password: req.Password})
	if err != nil {
		return reply(pdfReply{Failed: openFailure(err)})
	}
	if err := reply(pdfReply{Opened: &pdfOpened{Pages: doc.NumPages(), Info: describe(doc)}}); err != nil {
		return err
	}
	if req.MaxPages > 0 && doc.NumPages() > req.MaxPages {
		return nil // the parent has been told how many there are
	}
	for page, err := range doc.Pages(req.From) {
		rec := Record{
			Page: page.Number, Text: page.Text, Words: page.Words, Characters: page.Characters,
			Images: page.Images, HasText: page.HasText,
		}
		if err != nil {
			rec.Warning = fmt.Sprintf("page %d: %s", page.Number, clip(err.Error(), 300))
		}
		if len(rec.Text) > maxPageText {
			rec.Text = clip(rec.Text, maxPageText)
			rec.Warning = fmt.Sprintf("page %d: text cut after %d bytes", page.Number, maxPageText)
		}
		if err := reply(pdfReply{Page: &rec}); err != nil {
			return err
		}
	}
	return reply(pdfReply{Done: true})
}

func openFailure(err error) string {
	switch {
	case errors.Is(err, pdf.ErrPassword):
		return "document is encrypted and needs a password"
	case errors.Is(err, pdf.ErrNotPDF):
		return "input is not a PDF"
	default:
		return "document cannot be opened: " + clip(err.Error(), 300)
	}
}

func describe(doc *pdf.Document) pdfInfo {
	i := doc.Info()
	info := pdfInfo{
		Version: i.Version, Encrypted: i.Encrypted,
		Title: clip(i.Title, maxMetadata), Author: clip(i.Author, maxMetadata),
		Subject: clip(i.Subject, maxMetadata), Keywords: clip(i.Keywords, maxMetadata),
		Creator: clip(i.Creator, maxMetadata), Producer: clip(i.Producer, maxMetadata),
		Created: known(i.Created), Modified: known(i.Modified),
	}
	for _, item := range doc.Outline() {
		info.Outline = append(info.Outline, outlineItem{Title: clip(item.Title, 300), Level: item.Level, Page: item.Page})
	}
	return info
}

func known(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// clip shortens s to at most n bytes at a rune boundary.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
