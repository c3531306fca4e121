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

// maxClean bounds how much of a name is cleaned; clip keeps only its beginning.
const maxClean = 4 << 10

// fault turns an error of the decoder into one with our words and the path. The end
// of the text is returned as it is. What is wrong with a string or a number can only
// be told from the text of the decoder's error.
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

// tooDeep is the error once the decoder has read one bracket too many.
func (s *scanner) tooDeep() error {
	path := s.outer(maxDepth)
	return s.bad(path, int(s.dec.InputOffset())-1, fmt.Sprintf("nested more than %d deep", maxDepth))
}

func (s *scanner) bad(path string, pos int, problem string) error {
	return &BodyError{path, fmt.Sprintf("not JSON at byte %d: %s", pos+1, problem)}
}

// skip returns the first position from pos on that is not white space.
func (s *scanner) skip(pos int) int {
	return len(s.data) - len(bytes.TrimLeft(s.data[pos:], " \t\r\n"))
}

// path returns the path of the array or object that the decoder is in. With next it
// is the path of the element to be read next, or of the field whose key was read.
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

// outer returns the path of the element being read, in the first depth open arrays
// and objects.
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

// label returns a key as part of a path. It is the caller's text, so it may be long
// and contain anything.
func (s *scanner) label(key string) string {
	name := strings.ToValidUTF8(key[:min(len(key), maxClean)], "")
	if s.clean != nil {
		name = s.clean(name)
	}
	if key == "" || strings.ContainsFunc(key, func(c rune) bool { return c <= ' ' || c == '.' || c == '[' || c == noField }) {
		return strconv.Quote(clip(name))
	}
	return clip(name)
}
