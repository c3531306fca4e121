package processor

import (
	"iter"

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
	return pdfOpened{Pages: b.doc.NumPages(), Info: describe(b.doc)}
}

func (b builtin) pages(first, last int) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for page, err := range b.doc.Pages(first, last) {
			rec := Record{
				Page: page.Number, Text: page.Text, Words: page.Words, Characters: page.Characters,
				Images: page.Images, HasText: page.HasText,
			}
			if err != nil {
				rec.Warning = clip(err.Error(), 300)
			}
			if !yield(rec, nil) {
				return
			}
		}
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
