package processor

import (
	"bytes"
	"errors"
	"slices"
	"strings"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/pdf"
)

// structureWarnings returns what the built-in reader finds damaged of the document
// as a whole. Poppler rebuilds a cross-reference silently.
func structureWarnings(path, password string) []string {
	doc, err := pdf.OpenFile(path, pdf.Options{Password: password})
	switch {
	case errors.Is(err, pdf.ErrDamaged):
		return []string{jobs.Clip(err.Error(), maxFailure, "")}
	case err != nil: // it has passwords and limits of its own
		return nil
	}
	defer doc.Close()
	return doc.Warnings()
}

// damageLog collects the damage that poppler's programs report on stderr. They do
// not report on which page it is.
type damageLog struct {
	lines []string
	rest  []byte // the beginning of an unfinished line
}

// maxDamageLine is how many bytes of a line are kept.
const maxDamageLine = 200

// damagePrefixes begin the lines with which poppler reports damage. Its warnings,
// and what it misses on the machine, do not concern the document.
var damagePrefixes = []string{"Syntax Error", "Internal Error"}

// add keeps the reports of damage in what a program writes to stderr, each once.
// Line by line, because any number of warnings may come before them.
func (d *damageLog) add(stderr []byte) {
	for part := range bytes.Lines(stderr) {
		whole := part[len(part)-1] == '\n'
		if whole && len(d.rest) == 0 && !reportsDamage(part) {
			continue // without copying: there may be millions
		}
		d.rest = append(d.rest, part[:min(len(part), 2*maxDamageLine-len(d.rest))]...)
		if whole {
			d.endLine()
		}
	}
}

// endLine keeps the line in rest if it reports damage. It may be empty.
func (d *damageLog) endLine() {
	if reportsDamage(d.rest) && len(d.lines) < maxDocumentWarnings {
		line := jobs.Clip(cleanMetadata(strings.ToValidUTF8(string(d.rest), "")), maxDamageLine, "")
		if !slices.Contains(d.lines, line) {
			d.lines = append(d.lines, line)
		}
	}
	d.rest = d.rest[:0]
}

func reportsDamage(line []byte) bool {
	return slices.ContainsFunc(damagePrefixes, func(prefix string) bool { return bytes.HasPrefix(line, []byte(prefix)) })
}
