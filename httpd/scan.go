package httpd

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	// maxDepth bounds how deep arrays and objects nest.
	maxDepth = 64
	// fewKeys is up to where comparing keys one by one beats a map.
	fewKeys = 16
	// maxClean bounds how much of a name is cleaned, of which clip shows the beginning.
	maxClean = 4 << 10
	// noField stands in a key for every byte of one that must match no field;
	// the tags of encoding/json cannot contain it.
	noField = 0x7f
)

// scanner checks a JSON text against RFC 8259, our own limits and a shape. It
// recurses no deeper than maxDepth.
type scanner struct {
	data          []byte
	pos           int
	ignoreUnknown bool
	clean         func(string) string // may be nil
	keys          [][]byte            // of all open objects, the innermost last
	unknown       [][]byte            // keys that were ignored, as parts of data
}

// document checks that data is one value and nothing else.
func (s *scanner) document(sh *shape) error {
	if !utf8.Valid(s.data) {
		return &BodyError{Problem: "it is not UTF-8"}
	}
	if err := s.element(sh, 1); err != nil {
		return err
	}
	if s.space(); s.pos < len(s.data) {
		return s.bad("there is more after the JSON value")
	}
	return nil
}

// blank makes the ignored keys match nothing: encoding/json would take SUMMARY
// for summary. It waits for the end because keys are compared until then.
func (s *scanner) blank() {
	for _, key := range s.unknown {
		for i := range key {
			key[i] = noField
		}
	}
}

// element checks a value that is not a field of a struct and so cannot be left
// out: encoding/json would make a null an object without its required fields.
func (s *scanner) element(sh *shape, depth int) *BodyError {
	if s.space(); sh != nil && sh.fields != nil && s.peek() == 'n' {
		return &BodyError{Problem: "want an object, got null"}
	}
	return s.value(sh, depth)
}

// value checks the next value. Its errors are concrete, to be given their path
// on the way out.
func (s *scanner) value(sh *shape, depth int) *BodyError {
	s.space()
	switch c := s.peek(); {
	case (c == '{' || c == '[') && depth > maxDepth:
		return s.bad(fmt.Sprintf("nested more than %d deep", maxDepth))
	case c == '{':
		return s.object(sh, depth)
	case c == '[':
		return s.array(sh, depth)
	case c == '"':
		_, _, err := s.text()
		return err
	case c == '-' || isDigit(c):
		from := s.pos
		err := s.number()
		if sh != nil && sh.whole {
			trimZeros(s.data[from:s.pos])
		}
		return err
	case c == 't':
		return s.literal("true")
	case c == 'f':
		return s.literal("false")
	case c == 'n':
		return s.literal("null")
	default:
		return s.unexpected("a value")
	}
}

func (s *scanner) object(sh *shape, depth int) *BodyError {
	s.pos++
	var (
		first = len(s.keys)
		index map[string]bool // of this object's keys once they are many
		has   uint64          // the required fields that are there
	)
	defer func() { s.keys = s.keys[:first] }()
	for s.space(); s.peek() != '}'; s.space() {
		if len(s.keys) > first {
			if s.peek() != ',' {
				return s.unexpected("',' or '}'")
			}
			s.pos++
			s.space()
		}
		if s.peek() != '"' {
			return s.unexpected("a field name in quotes")
		}
		raw, escaped, err := s.text()
		if err != nil {
			return err
		}
		key := raw
		if escaped {
			key = unquote(raw)
		}
		if index == nil && len(s.keys)-first >= fewKeys {
			index = make(map[string]bool, 4*fewKeys)
			for _, k := range s.keys[first:] {
				index[string(k)] = true
			}
		}
		if index[string(key)] || index == nil && among(s.keys[first:], key) {
			return &BodyError{s.label(key), "it is there twice"}
		}
		s.keys = append(s.keys, key)
		if index != nil {
			index[string(key)] = true
		}
		f, err := s.field(sh, raw, key)
		if err != nil {
			return err
		}
		if s.space(); s.peek() != ':' {
			return s.unexpected("':'")
		}
		s.pos++
		s.space()
		if f.bit >= 0 && s.peek() != 'n' { // null is as good as missing
			has |= 1 << f.bit
		}
		check := s.value
		if sh != nil && sh.fields == nil {
			check = s.element
		}
		if err := check(f.shape, depth+1); err != nil {
			return err.in(s.label(key))
		}
	}
	s.pos++
	if sh != nil {
		for i, name := range sh.required {
			if has&(1<<i) == 0 {
				return &BodyError{name, missing}
			}
		}
	}
	return nil
}

// field returns what is known of the field key, whose text in data is raw.
func (s *scanner) field(sh *shape, raw, key []byte) (field, *BodyError) {
	if sh == nil {
		return field{bit: -1}, nil
	}
	if sh.fields == nil {
		return field{shape: sh.elem, bit: -1}, nil
	}
	if f, ok := sh.fields[string(key)]; ok {
		return f, nil
	}
	if s.ignoreUnknown {
		s.unknown = append(s.unknown, raw)
		return field{bit: -1}, nil
	}
	if name, ok := sh.like(string(key)); ok {
		return field{}, &BodyError{s.label(key), "unknown; names are case-sensitive: " + name}
	}
	return field{}, &BodyError{s.label(key), "unknown"}
}

func (s *scanner) array(sh *shape, depth int) *BodyError {
	s.pos++
	var elem *shape
	if sh != nil {
		elem = sh.elem
	}
	n := 0
	for s.space(); s.peek() != ']'; s.space() {
		if n > 0 {
			if s.peek() != ',' {
				return s.unexpected("',' or ']'")
			}
			s.pos++
		}
		if err := s.element(elem, depth+1); err != nil {
			return err.in("[" + strconv.Itoa(n) + "]")
		}
		n++
	}
	s.pos++
	return nil
}

// trimZeros makes 60.0 a whole number for encoding/json too, as it is one for JSON
// Schema: what comes after 60 becomes white space.
func trimZeros(number []byte) {
	whole, rest, ok := bytes.Cut(number, []byte("."))
	if ok && len(bytes.Trim(rest, "0")) == 0 {
		copy(number[len(whole):], bytes.Repeat([]byte(" "), len(number)-len(whole)))
	}
}

func (s *scanner) number() *BodyError {
	if s.peek() == '-' {
		s.pos++
	}
	switch {
	case s.peek() == '0':
		s.pos++
	case !s.digits():
		return s.unexpected("a digit")
	}
	if s.peek() == '.' {
		s.pos++
		if !s.digits() {
			return s.unexpected("a digit")
		}
	}
	if s.peek()|0x20 == 'e' {
		s.pos++
		if c := s.peek(); c == '+' || c == '-' {
			s.pos++
		}
		if !s.digits() {
			return s.unexpected("a digit")
		}
	}
	return nil
}

// digits skips digits and reports whether there were any.
func (s *scanner) digits() bool {
	start := s.pos
	for isDigit(s.peek()) {
		s.pos++
	}
	return s.pos > start
}

func (s *scanner) literal(word string) *BodyError {
	if !bytes.HasPrefix(s.data[s.pos:], []byte(word)) {
		return s.unexpected("a value")
	}
	s.pos += len(word)
	return nil
}

func (s *scanner) space() {
	for s.pos < len(s.data) {
		switch s.data[s.pos] {
		case ' ', '\t', '\r', '\n':
			s.pos++
		default:
			return
		}
	}
}

// peek returns the next byte, and 0, which is nowhere legal, at the end.
func (s *scanner) peek() byte {
	if s.pos < len(s.data) {
		return s.data[s.pos]
	}
	return 0
}

func (s *scanner) unexpected(want string) *BodyError {
	if s.pos >= len(s.data) {
		return s.bad("it ends where " + want + " should be")
	}
	r, _ := utf8.DecodeRune(s.data[s.pos:])
	return s.bad(fmt.Sprintf("found %q where %s should be", r, want))
}

func (s *scanner) bad(problem string) *BodyError {
	return &BodyError{Problem: fmt.Sprintf("not JSON at byte %d: %s", s.pos+1, problem)}
}

// in returns e as an error of what is inside the field or element name.
func (e *BodyError) in(name string) *BodyError {
	if e.Field != "" && e.Field[0] != '[' {
		name += "."
	}
	e.Field = name + e.Field
	return e
}

// label is a key as part of a path: it came from outside, so it may be long and
// hold anything.
func (s *scanner) label(key []byte) string {
	name := strings.ToValidUTF8(string(key[:min(len(key), maxClean)]), "")
	if s.clean != nil {
		name = s.clean(name)
	}
	for _, c := range key {
		if c <= ' ' || c == '.' || c == '[' || c == noField {
			return strconv.Quote(clip(name))
		}
	}
	if len(key) == 0 {
		return `""`
	}
	return clip(name)
}

func among(keys [][]byte, key []byte) bool {
	for _, k := range keys {
		if bytes.Equal(k, key) {
			return true
		}
	}
	return false
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
