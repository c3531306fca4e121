package processor

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/batchfleet/batchfleet/pdf"
)

// builtin is a document open in the built-in reader.
type builtin struct{ doc *pdf.Document }

func openBuiltin(req pdfRequest) (document, error) {
	doc, err := pdf.OpenFile(string(req.Path), pdf.Options{Password: req.Password, Workers: req.Workers, MaxTextBytes: maxPageText})
	if err != nil {
		return nil, err
	}
	return builtin{doc}, nil
}

func (b builtin) opened() pdfOpened {
	return pdfOpened{Pages: b.doc.NumPages(), Info: describe(b.doc), Warnings: b.doc.Warnings()}
}

func (b builtin) warnings() []string { return nil } // opened has said all of them

func (b builtin) pages(first, last int) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for page, err := range b.doc.Pages(first, last) {
			rec := Record{
				Page: page.Number, Text: page.Text, Words: page.Words, Characters: page.Characters,
				Images: page.Images, HasText: page.HasText,
			}
			rec.Warning, rec.Failed = pageWarning(page, err), err != nil
			if !yield(rec, nil) {
				return
			}
		}
	}
}

func (b builtin) close() { _ = b.doc.Close() } // it was only read

// pageWarning says in a line what is wrong with a page. Some errors are warnings,
// too, which is said once.
func pageWarning(page pdf.Page, err error) string {
	var said []string
	failed := ""
	if err != nil {
		failed = clip(err.Error(), 300)
		said = append(said, failed)
	} else if len(page.Warnings) > 0 {
		said = append(said, fmt.Sprintf("page %d", page.Number))
	}
	rest := slices.DeleteFunc(slices.Clone(page.Warnings), func(w string) bool { return strings.Contains(failed, w) })
	if len(rest) > 0 {
		said = append(said, strings.Join(rest, "; "))
	}
	return clip(strings.Join(said, ": "), maxFailure)
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
