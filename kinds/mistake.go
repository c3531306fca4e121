package kinds

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/batchfleet/batchfleet/jobs"
)

// A Mistake is something that is wrong in a kinds file.
type Mistake struct {
	File         string
	Line, Column int    // from 1; a column is a character, a tab is one
	Key          string // what is wrong, such as thumbnail.retries; empty if the file is no TOML
	Text         string // for people, with the key
}

// String returns the mistake as compilers write theirs: FILE:LINE:COLUMN: and the text.
func (m Mistake) String() string {
	return fmt.Sprintf("%s:%d:%d: %s", m.File, m.Line, m.Column, m.Text)
}

// maxMistakes bounds how many mistakes are kept of one file.
const maxMistakes = 1000

// FileError holds all that is wrong with a kinds file, in the order of the file.
type FileError struct {
	Mistakes []Mistake // the first 1000
	More     int       // how many there are beside them
}

// Error returns the mistakes, one a line.
func (e *FileError) Error() string {
	lines := make([]string, len(e.Mistakes), len(e.Mistakes)+1)
	for i, m := range e.Mistakes {
		lines[i] = m.String()
	}
	if e.More > 0 {
		lines = append(lines, fmt.Sprintf("and %d mistakes more", e.More))
	}
	return strings.Join(lines, "\n")
}

// source is the text of a kinds file and what is wrong with it.
type source struct {
	file  string
	data  []byte
	lines []int // where lines begin; nil until a place is asked for

	found []found
	more  int
}

type found struct {
	at  int // offset in bytes
	key string
	say string
}

// wrong notes a mistake at an offset of the file. The text begins with the key.
func (s *source) wrong(at int, key, format string, args ...any) {
	if len(s.found) == maxMistakes {
		s.more++
		return
	}
	s.found = append(s.found, found{at, key, key + " " + jobs.VisibleLine(fmt.Sprintf(format, args...))})
}

// err returns what was found wrong, nil for nothing.
func (s *source) err() error {
	if len(s.found) == 0 {
		return nil
	}
	slices.SortStableFunc(s.found, func(a, b found) int { return cmp.Compare(a.at, b.at) })
	e := &FileError{More: s.more}
	line, column, counted := 0, 0, 0 // of the mistake before: its line may be as long as the file
	for _, f := range s.found {
		at := min(f.at, len(s.data))
		if now := s.line(at); now != line {
			line, column, counted = now, 1, s.lines[now-1]
		}
		column += utf8.RuneCount(s.data[counted:at])
		counted = at
		e.Mistakes = append(e.Mistakes, Mistake{File: s.file, Line: line, Column: column, Key: f.key, Text: f.say})
	}
	return e
}

// line returns the number of the line with an offset.
func (s *source) line(at int) int {
	if s.lines == nil {
		s.lines = []int{0}
		for i, c := range s.data {
			if c == '\n' {
				s.lines = append(s.lines, i+1)
			}
		}
	}
	return sort.SearchInts(s.lines, at+1)
}
