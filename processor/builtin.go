package processor

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/batchfleet/batchfleet/jobs"
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
	return pdfOpened{Pages: b.doc.NumPages(), Info: documentInfo(b.doc), Warnings: b.doc.Warnings()}
}

func (b builtin) warnings() []string { return nil } // opened has returned all of them

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

// pageWarning describes in a line what is wrong with a page. An error that is among
// the warnings, too, is not repeated.
func pageWarning(page pdf.Page, err error) string {
	var parts []string
	failed := ""
	if err != nil {
		failed = jobs.Clip(err.Error(), 300, "")
		parts = append(parts, failed)
	} else if len(page.Warnings) > 0 {
		parts = append(parts, fmt.Sprintf("page %d", page.Number))
	}
	rest := slices.DeleteFunc(slices.Clone(page.Warnings), func(w string) bool { return strings.Contains(failed, w) })
	if len(rest) > 0 {
		parts = append(parts, strings.Join(rest, "; "))
	}
	return jobs.Clip(strings.Join(parts, ": "), maxFailure, "")
}

func documentInfo(doc *pdf.Document) pdfInfo {
	i := doc.Info()
	info := pdfInfo{
		Version: i.Version, Encrypted: i.Encrypted,
		Title: jobs.Clip(i.Title, maxMetadata, ""), Author: jobs.Clip(i.Author, maxMetadata, ""),
		Subject: jobs.Clip(i.Subject, maxMetadata, ""), Keywords: jobs.Clip(i.Keywords, maxMetadata, ""),
		Creator: jobs.Clip(i.Creator, maxMetadata, ""), Producer: jobs.Clip(i.Producer, maxMetadata, ""),
		Created: i.Created, Modified: i.Modified,
	}
	for _, item := range doc.Outline() {
		info.Outline = append(info.Outline, outlineItem{Title: jobs.Clip(item.Title, 300, ""), Level: item.Level, Page: item.Page})
	}
	return info
}
