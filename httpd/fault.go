package httpd

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// maxClean bounds how much of a name is cleaned, of which clip shows the beginning.
const maxClean = 4 << 10

// fault says in our words, with the path, what the decoder refused. That the text
// ended is returned as it is. Of strings and numbers only the decoder knows what is
// wrong, and tells kinds of errors apart by their words alone.
func (s *scanner) fault(err error) error {
	e, ok := errors.AsType[*jsontext.SyntacticError](err)
	if !ok || errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	if errors.Is(err, jsontext.ErrDuplicateName) {
		return &BodyError{join(s.path(false), s.label(e.JSONPointer.LastToken())), "it is there twice"}
	}
	within, n := s.dec.StackIndex(s.dec.StackDepth())
	name := within == '{' && n%2 == 0
	pos := s.skip(int(s.dec.InputOffset()))
	if n > 0 { // something must be between what there was and the next
		due := "',' or '" + string(rune(within+2)) + "'"
		if within == '{' && !name {
			due = "':'"
		}
		if pos == len(s.data) || s.data[pos] != due[1] {
			return s.unexpected(s.path(false), pos, due)
		}
		pos = s.skip(pos + 1)
	}
	at, text := int(e.ByteOffset), e.Err.Error()
	switch {
	case name && (pos == len(s.data) || s.data[pos] != '"'):
		return s.unexpected(s.path(true), pos, "a field name in quotes")
	case strings.Contains(text, "escape") || strings.Contains(text, "surrogate"):
		return s.bad(s.path(true), at, `bad escape in a string; a surrogate \uD800 to \uDFFF must be one of a pair`)
	case strings.Contains(text, "control") && at < len(s.data):
		return s.bad(s.path(true), at, "control characters in a string must be escaped")
	case strings.Contains(text, "control"):
		return s.unexpected(s.path(true), at, "the end of a string")
	case strings.Contains(text, "digit"):
		return s.unexpected(s.path(true), at, "a digit")
	default:
		return s.unexpected(s.path(true), pos, "a value")
	}
}

func (s *scanner) unexpected(path string, pos int, want string) error {
	if pos == len(s.data) {
		return s.bad(path, pos, "it ends where "+want+" should be")
	}
	found, _ := utf8.DecodeRune(s.data[pos:])
	return s.bad(path, pos, fmt.Sprintf("found %q where %s should be", found, want))
}

// tooDeep is for when the decoder has read the bracket that is one too many.
func (s *scanner) tooDeep() error {
	path := s.outer(maxDepth)
	return s.bad(path, int(s.dec.InputOffset())-1, fmt.Sprintf("nested more than %d deep", maxDepth))
}

func (s *scanner) bad(path string, pos int, problem string) error {
	return &BodyError{path, fmt.Sprintf("not JSON at byte %d: %s", pos+1, problem)}
}

// skip returns where the white space ends that may be at pos.
func (s *scanner) skip(pos int) int {
	return len(s.data) - len(bytes.TrimLeft(s.data[pos:], " \t\r\n"))
}

// path names the array or object that the decoder is in; with next, what it reads
// there next, or the field of which it has the key.
func (s *scanner) path(next bool) string {
	depth := s.dec.StackDepth()
	path := s.outer(depth - 1)
	within, n := s.dec.StackIndex(depth)
	switch {
	case !next:
	case within == '[':
		path += "[" + strconv.FormatInt(n, 10) + "]"
	case within == '{' && n%2 == 1:
		path = join(path, s.label(s.dec.StackPointer().LastToken()))
	}
	return path
}

// outer names what the innermost of so many arrays and objects holds that is open.
func (s *scanner) outer(depth int) (path string) {
	i := 0
	for name := range s.dec.StackPointer().Tokens() {
		if i++; i > depth {
			break
		}
		if within, _ := s.dec.StackIndex(i); within == '[' {
			path += "[" + name + "]"
		} else {
			path = join(path, s.label(name))
		}
	}
	return path
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// label is a key as part of a path: it came from outside, so it may be long and
// hold anything.
func (s *scanner) label(key string) string {
	name := strings.ToValidUTF8(key[:min(len(key), maxClean)], "")
	if s.clean != nil {
		name = s.clean(name)
	}
	for _, c := range []byte(key) {
		if c <= ' ' || c == '.' || c == '[' || c == noField {
			return strconv.Quote(clip(name))
		}
	}
	if key == "" {
		return `""`
	}
	return clip(name)
}
