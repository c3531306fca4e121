package processor

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/pdf"
)

// maxInfo is how many bytes pdfinfo may write. Metadata can be long.
const maxInfo = 16 << 20

// info runs pdfinfo on the document.
func (p poppler) info() (pdfOpened, error) {
	var output []byte
	var damage damageLog
	err := runProgram(p.programs.Info, p.args([]string{"-enc", "UTF-8", "-isodates"}), maxInfo, &damage, func(r io.Reader) (err error) {
		output, err = io.ReadAll(r)
		return err
	})
	ended := (*programError)(nil)
	switch {
	case err == nil:
		*p.damage = damage
		return parseInfo(output)
	case !errors.As(err, &ended):
		return pdfOpened{}, err
	case ended.reports("Incorrect password"):
		return pdfOpened{}, fmt.Errorf("%w: %w", pdf.ErrPassword, err)
	case ended.reports("Invalid page count 0") && ended.reports("the last page (0)"):
		// This is how it reports a document that declares no pages.
		return pdfOpened{Info: pdfInfo{Version: p.header}}, nil
	case ended.reports("Document stream is empty"), ended.reports("May not be a PDF file"):
		return pdfOpened{}, fmt.Errorf("%w: %w", pdf.ErrNotPDF, err)
	default:
		return pdfOpened{}, err
	}
}

// infoFields are the names that pdfinfo gives to the metadata. What follows them
// comes from the file itself.
var infoFields = map[string]func(*pdfInfo) *string{
	"Title":    func(i *pdfInfo) *string { return &i.Title },
	"Author":   func(i *pdfInfo) *string { return &i.Author },
	"Subject":  func(i *pdfInfo) *string { return &i.Subject },
	"Keywords": func(i *pdfInfo) *string { return &i.Keywords },
	"Creator":  func(i *pdfInfo) *string { return &i.Creator },
	"Producer": func(i *pdfInfo) *string { return &i.Producer },
}

// parseInfo reads the output of pdfinfo, one "Name: value" a line. A value may
// have line breaks of its own and look like a field, so a later line wins: what
// poppler has counted comes after the metadata.
func parseInfo(output []byte) (about pdfOpened, err error) {
	about.Pages = -1
	var field *string
	for line := range bytes.Lines(output) {
		text := strings.TrimRight(strings.ToValidUTF8(string(line), ""), "\r\n")
		name, value, _ := strings.Cut(text, ":")
		value = strings.TrimSpace(value)
		of := infoFields[name]
		switch {
		case of != nil:
			field = of(&about.Info)
			*field = value
			continue
		case name == "CreationDate":
			about.Info.Created, field = parseISO(value), nil
		case name == "ModDate":
			about.Info.Modified, field = parseISO(value), nil
		case name == "Custom Metadata", name == "Tagged": // the first of poppler's own
			field = nil
		case name == "Pages":
			about.Pages, err = strconv.Atoi(value)
		case name == "Encrypted":
			about.Info.Encrypted = strings.HasPrefix(value, "yes")
		case name == "PDF version":
			about.Info.Version = value
		}
		if field != nil && len(*field) < maxMetadata {
			*field += " " + text // another line of its value
		}
	}
	for _, of := range infoFields {
		field := of(&about.Info)
		*field = cleanMetadata(*field)
	}
	if err != nil || about.Pages < 0 {
		return pdfOpened{}, errors.New("pdfinfo does not say how many pages there are")
	}
	return about, nil
}

// cleanMetadata removes control characters, as the built-in reader does.
func cleanMetadata(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '\t' || r == '\v' || r == '\f':
			return ' '
		case r < ' ' || r >= 0x7f && r < 0xa0:
			return -1
		}
		return r
	}, s)
	return jobs.Clip(strings.TrimSpace(s), maxMetadata, "")
}

// parseISO reads a date as pdfinfo writes it, 2015-03-04T12:00:00+01:30, with
// the minutes of the zone left out if there are none. It repeats a damaged date as
// the file has it; then the date is unknown.
func parseISO(s string) time.Time {
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05Z07"} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC()
		}
	}
	return time.Time{}
}
