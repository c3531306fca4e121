package httpd

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

const (
	// maxDepth bounds how deep arrays and objects nest.
	maxDepth = 64
	// noField stands in a key for every byte of one that must match no field;
	// the tags of encoding/json cannot contain it.
	noField = 0x7f
)

// scanner checks a JSON text against our own limits and a shape. The decoder checks
// RFC 8259 and refuses duplicate keys. The scanner recurses no deeper than maxDepth.
type scanner struct {
	data          []byte
	dec           *jsontext.Decoder // of data
	ignoreUnknown bool
	clean         func(string) string // may be nil
	unknown       [][]byte            // keys that were ignored, as parts of data
}

// document checks that data is one value and nothing else.
func (s *scanner) document(sh *shape) error {
	if !utf8.Valid(s.data) {
		return &BodyError{Problem: "it is not UTF-8"}
	}
	s.dec = jsontext.NewDecoder(bytes.NewBuffer(s.data))
	err := s.value(sh, false)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		// With an invalid byte at the end the decoder reports what should be there.
		s.dec = jsontext.NewDecoder(io.MultiReader(bytes.NewReader(s.data), strings.NewReader("\x00")))
		err = s.value(sh, false)
	}
	if err != nil {
		return err
	}
	if end := s.skip(int(s.dec.InputOffset())); end < len(s.data) {
		return s.bad("", end, "there is more after the JSON value")
	}
	return nil
}

// blank makes the ignored keys match nothing: encoding/json would take SUMMARY
// for summary. It is called last because the decoder compares keys until the end.
func (s *scanner) blank() {
	for _, key := range s.unknown {
		for i := range key {
			key[i] = noField
		}
	}
}

// value checks the next value. One that is not a field of a struct cannot be left
// out: encoding/json would make a null an object without its required fields.
func (s *scanner) value(sh *shape, optional bool) error {
	if sh == nil {
		return s.anything()
	}
	switch kind := s.dec.PeekKind(); {
	case kind == '{' || kind == '[':
		return s.inside(sh, kind)
	case kind == 'n' && sh.fields != nil && !optional:
		return &BodyError{s.path(true), "want an object, got null"}
	default:
		number, err := s.next()
		if err == nil && kind == '0' && sh.whole {
			trimZeros(number)
		}
		return err
	}
}

// anything checks only the form of a value.
func (s *scanner) anything() error {
	for outside := s.dec.StackDepth(); ; {
		if _, err := s.dec.ReadToken(); err != nil {
			return s.fault(err)
		}
		depth := s.dec.StackDepth()
		if depth > maxDepth {
			return s.tooDeep()
		}
		if depth == outside {
			return nil
		}
	}
}

// inside checks an object or an array.
func (s *scanner) inside(sh *shape, kind jsontext.Kind) error {
	if _, err := s.dec.ReadToken(); err != nil {
		return s.fault(err)
	}
	if s.dec.StackDepth() > maxDepth {
		return s.tooDeep()
	}
	end := kind + 2 // in ASCII, of both
	var has uint64  // the required fields that are there
	for s.dec.PeekKind() != end {
		f := field{sh.elem, -1}
		if kind == '{' {
			var err error
			if f, err = s.field(sh); err != nil {
				return err
			}
			if f.bit >= 0 && s.dec.PeekKind() != 'n' { // null counts as missing
				has |= 1 << f.bit
			}
		}
		if err := s.value(f.shape, kind == '{' && sh.fields != nil); err != nil {
			return err
		}
	}
	if kind == '{' {
		for i, name := range sh.required {
			if has&(1<<i) == 0 {
				return &BodyError{join(s.path(false), name), missing}
			}
		}
	}
	_, err := s.dec.ReadToken()
	return err
}

// next reads a text that is no object and no array, and returns its part of data.
func (s *scanner) next() ([]byte, error) {
	text, err := s.dec.ReadValue()
	if err != nil {
		return nil, s.fault(err)
	}
	end := int(s.dec.InputOffset())
	return s.data[end-len(text) : end], nil
}

// field reads a key and returns what is known of it.
func (s *scanner) field(sh *shape) (field, error) {
	if s.dec.PeekKind() != '"' {
		_, err := s.dec.ReadToken() // refuses it before it reads what is inside of it
		return field{}, s.fault(err)
	}
	raw, err := s.next()
	if err != nil {
		return field{}, err
	}
	key := raw[1 : len(raw)-1]
	if bytes.IndexByte(key, '\\') >= 0 {
		if key, err = jsontext.AppendUnquote(nil, raw); err != nil {
			return field{}, err
		}
	}
	if sh.fields == nil {
		return field{sh.elem, -1}, nil
	}
	if f, ok := sh.fields[string(key)]; ok {
		return f, nil
	}
	if s.ignoreUnknown {
		s.unknown = append(s.unknown, raw[1:len(raw)-1])
		return field{bit: -1}, nil
	}
	if name, ok := sh.like(string(key)); ok {
		return field{}, &BodyError{s.path(true), "unknown; names are case-sensitive: " + name}
	}
	return field{}, &BodyError{s.path(true), "unknown; " + sh.names()}
}

// trimZeros makes 60.0 a whole number for encoding/json, as it is in JSON Schema, by
// turning what follows 60 into white space.
func trimZeros(number []byte) {
	whole, rest, ok := bytes.Cut(number, []byte("."))
	if ok && len(bytes.Trim(rest, "0")) == 0 {
		copy(number[len(whole):], bytes.Repeat([]byte(" "), len(number)-len(whole)))
	}
}
