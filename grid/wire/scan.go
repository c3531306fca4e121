package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// scanner reads some members of a payload, and skips the others without a copy, however long they are.
//
// Like encoding/json it finds members without regard to case, treats null as a missing member, and ignores unknown members. Unlike encoding/json it
// refuses a member that is there twice, and text that is not UTF-8: peers disagree about their meaning.
type scanner struct {
	dec   jsontext.Decoder
	in    bytes.Buffer
	spare []byte // for strings with escapes
	size  int    // of the last string, with its quotes
}

var scanners = sync.Pool{New: func() any { return new(scanner) }}

// scan reads a payload, which is one object.
func scan(payload []byte, fields []string, member func(s *scanner, field int) error) error {
	s := scanners.Get().(*scanner)
	defer func() {
		s.in = bytes.Buffer{} // the payload is the caller's
		s.dec.Reset(&s.in)
		scanners.Put(s)
	}()
	s.in = *bytes.NewBuffer(payload)
	s.dec.Reset(&s.in)
	if s.dec.PeekKind() != '{' {
		return errors.New("the payload is no JSON object")
	}
	if err := s.object("the payload", fields, func(field int) error { return member(s, field) }); err != nil {
		return err
	}
	if _, err := s.dec.ReadToken(); !errors.Is(err, io.EOF) {
		return errors.New("the payload has more after its JSON object")
	}
	return nil
}

// object reads an object, or null. It calls member before the value of each field, which member must read.
func (s *scanner) object(what string, fields []string, member func(field int) error) error {
	if open, err := s.open('{', what); !open {
		return err
	}
	var seen uint64
	for s.dec.PeekKind() != '}' {
		name, err := s.text(what)
		if err != nil {
			return err
		}
		field := fieldOf(name, fields)
		if field < 0 {
			if err := s.dec.SkipValue(); err != nil {
				return badJSON(err)
			}
			continue
		}
		if seen&(1<<field) != 0 {
			return fmt.Errorf("member %s is there twice", fields[field])
		}
		seen |= 1 << field
		if err := member(field); err != nil {
			return err
		}
	}
	return s.close()
}

// each reads an array, or null. It calls element before each element, which element must read.
func (s *scanner) each(what string, element func() error) error {
	if open, err := s.open('[', what); !open {
		return err
	}
	for s.dec.PeekKind() != ']' {
		if err := element(); err != nil {
			return err
		}
	}
	return s.close()
}

// open reads the beginning of an object or an array. It reports false without an error for null.
func (s *scanner) open(kind jsontext.Kind, what string) (bool, error) {
	token, err := s.dec.ReadToken()
	switch {
	case err != nil:
		return false, badJSON(err)
	case token.Kind() == 'n':
		return false, nil
	case token.Kind() != kind:
		return false, fmt.Errorf("%s: want %c and not %s", what, kind, token.Kind())
	}
	return true, nil
}

func (s *scanner) close() error {
	_, err := s.dec.ReadToken()
	return badJSON(err)
}

// text reads a string, or null as an empty one. It is valid until the next call.
func (s *scanner) text(what string) ([]byte, error) {
	raw, err := s.dec.ReadValue()
	s.size = len(raw)
	switch {
	case err != nil:
		return nil, badJSON(err)
	case raw.Kind() == 'n':
		return nil, nil
	case raw.Kind() != '"':
		return nil, errKind(what, "a string", raw)
	case bytes.IndexByte(raw, '\\') < 0:
		return raw[1 : len(raw)-1], nil
	}
	s.spare, err = jsontext.AppendUnquote(s.spare[:0], raw)
	return s.spare, badJSON(err)
}

// skipText checks and skips a string, or null.
func (s *scanner) skipText(what string) error {
	raw, err := s.dec.ReadValue()
	if err != nil {
		return badJSON(err)
	}
	if kind := raw.Kind(); kind != '"' && kind != 'n' {
		return errKind(what, "a string", raw)
	}
	return nil
}

// textInto reads a string into to; null leaves it unchanged.
func (s *scanner) textInto(what string, to *string) error {
	if s.null() {
		return nil
	}
	text, err := s.text(what)
	*to = string(text)
	return err
}

// guidInto reads a GUID into to; null leaves it unchanged.
func (s *scanner) guidInto(what string, to *GUID) error {
	if s.null() {
		return nil
	}
	text, err := s.text(what)
	if err != nil {
		return err
	}
	if err := to.UnmarshalText(text); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// number reads a whole number, or null as 0.
func (s *scanner) number(what string) (int64, error) {
	raw, err := s.dec.ReadValue()
	if err != nil {
		return 0, badJSON(err)
	}
	if raw.Kind() == 'n' {
		return 0, nil
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil {
		return 0, errKind(what, "a whole number", raw)
	}
	return n, nil
}

// base64 reads base64 text and returns how many bytes it decodes to. It reports false for null.
func (s *scanner) base64(what string) (size int, given bool, err error) {
	if s.null() {
		return 0, false, nil
	}
	text, err := s.text(what)
	if err != nil {
		return 0, false, err
	}
	size, ok := base64Size(text)
	if !ok {
		return 0, false, fmt.Errorf("%s is no base64", what)
	}
	if cap(s.spare) > step {
		s.spare = nil
	}
	return size, true, nil
}

// null reads null if that is next, and reports whether it was.
func (s *scanner) null() bool {
	if s.dec.PeekKind() != 'n' {
		return false
	}
	_, err := s.dec.ReadToken()
	return err == nil
}

// fieldOf returns the index of the field with a name, or -1.
func fieldOf(name []byte, fields []string) int {
	for i, field := range fields {
		if string(name) == field {
			return i
		}
	}
	for i, field := range fields {
		if strings.EqualFold(string(name), field) {
			return i
		}
	}
	return -1
}

func errKind(what, want string, got jsontext.Value) error {
	return fmt.Errorf("%s: want %s and not %.40s", what, want, got)
}

func badJSON(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("the payload is no JSON: %w", err)
}
