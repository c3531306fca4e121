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
		whole := part[len(part)-1] == '\n'
		if whole && len(d.rest) == 0 && !reportsDamage(part) {
			continue // at no cost: there may be millions
		}
		d.rest = append(d.rest, part[:min(len(part), 2*maxReport-len(d.rest))]...)
		if whole {
			d.end()
		}
	}
}

// end ends a line, which may be empty.
func (d *damageReports) end() {
	if reportsDamage(d.rest) && len(d.lines) < maxDocumentWarnings {
		line := clip(cleanMetadata(strings.ToValidUTF8(string(d.rest), "")), maxReport)
		if !slices.Contains(d.lines, line) {
			d.lines = append(d.lines, line)
		}
	}
	d.rest = d.rest[:0]
}

func reportsDamage(line []byte) bool {
	return slices.ContainsFunc(damageWords, func(word string) bool { return bytes.HasPrefix(line, []byte(word)) })
}
