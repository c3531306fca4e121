package processor

import (
	"bytes"
	"errors"
	"slices"
	"strings"

	"github.com/batchfleet/batchfleet/pdf"
)

// structureWarnings says what the built-in reader finds damaged of the document
// as a whole. Poppler rebuilds a cross-reference without a word.
func structureWarnings(path, password string) []string {
	doc, err := pdf.OpenFile(path, pdf.Options{Password: password})
	switch {
	case errors.Is(err, pdf.ErrDamaged):
		return []string{clip(err.Error(), maxFailure)}
	case err != nil: // it has passwords and limits of its own
		return nil
	}
	defer doc.Close()
	return doc.Warnings()
}

// damageReports are what poppler's programs say of damage: which page it touches,
// they do not say.
type damageReports struct {
	lines []string
	rest  []byte // the beginning of an unfinished line
}

// maxReport is how many bytes of a report are kept.
const maxReport = 200

// damageWords begin the lines with which poppler reports damage. Its warnings
// and what it misses on the machine say nothing of the document.
var damageWords = []string{"Syntax Error", "Internal Error"}

// add keeps the reports of damage in what a program writes to stderr, each once.
// Line by line, because any number of warnings may come before them.
func (d *damageReports) add(stderr []byte) {
	for part := range bytes.Lines(stderr) {
		d.rest = append(d.rest, part[:min(len(part), 2*maxReport-len(d.rest))]...)
		if part[len(part)-1] == '\n' {
			d.end()
		}
	}
}

// end ends a line, which may be empty.
func (d *damageReports) end() {
	line := clip(cleanMetadata(strings.ToValidUTF8(string(d.rest), "")), maxReport)
	d.rest = d.rest[:0]
	reports := slices.ContainsFunc(damageWords, func(word string) bool { return strings.HasPrefix(line, word) })
	if reports && len(d.lines) < maxDocumentWarnings && !slices.Contains(d.lines, line) {
		d.lines = append(d.lines, line)
	}
}
