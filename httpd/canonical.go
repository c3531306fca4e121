package httpd

import (
	"bytes"
	"slices"
	"strings"
)

// CanonicalJSON returns the one text for a JSON value: no space, keys sorted by
// their bytes, strings with only the escapes they need. Numbers stay as they
// are written, so 1e-17 and integers of any size survive, and 1.0 is not 1. Two
// texts that differ only in form have the same canonical text. The error is a
// [BodyError], or a [StatusError] of 413, for the same reasons as in [ReadJSON].
func CanonicalJSON(raw []byte) ([]byte, error) {
	var values counter
	if values.add(raw); values.n > maxValues {
		return nil, errValues
	}
	s := scanner{data: raw}
	if err := s.document(nil); err != nil {
		return nil, err
	}
	c := canonizer{scanner: scanner{data: raw}, out: make([]byte, 0, len(raw))}
	c.value()
	return c.out, nil
}

// canonizer writes a text that was checked already.
type canonizer struct {
	scanner
	out     []byte
	members []member // of all open objects
	scratch []byte
}

// member is a field of an object: its key and where out holds key and value.
type member struct {
	key        string
	start, end int
}

func (c *canonizer) value() {
	c.space()
	switch c.peek() {
	case '{':
		c.object()
	case '[':
		c.array()
	case '"':
		c.string()
	default: // a number or a word
		rest := c.data[c.pos:]
		n := bytes.IndexAny(rest, " \t\r\n,]}")
		if n < 0 {
			n = len(rest)
		}
		c.out = append(c.out, rest[:n]...)
		c.pos += n
	}
}

func (c *canonizer) object() {
	c.pos++
	first, start := len(c.members), len(c.out)
	for c.space(); c.peek() != '}'; c.space() {
		if c.peek() == ',' {
			c.pos++
			c.space()
		}
		at := len(c.out)
		key := string(c.string())
		c.space()
		c.pos++ // the colon
		c.out = append(c.out, ':')
		c.value()
		c.members = append(c.members, member{key, at, len(c.out)})
	}
	c.pos++
	fields := c.members[first:]
	slices.SortFunc(fields, func(a, b member) int { return strings.Compare(a.key, b.key) })
	// Inner objects are done with the scratch space when an outer one begins.
	c.scratch = append(c.scratch[:0], c.out[start:]...)
	c.out = append(c.out[:start], '{')
	for i, m := range fields {
		if i > 0 {
			c.out = append(c.out, ',')
		}
		c.out = append(c.out, c.scratch[m.start-start:m.end-start]...)
	}
	c.out = append(c.out, '}')
	c.members = c.members[:first]
}

func (c *canonizer) array() {
	c.pos++
	c.out = append(c.out, '[')
	for c.space(); c.peek() != ']'; c.space() {
		if c.peek() == ',' {
			c.pos++
			c.out = append(c.out, ',')
		}
		c.value()
	}
	c.pos++
	c.out = append(c.out, ']')
}

// string writes the next string and returns what it means.
func (c *canonizer) string() []byte {
	raw, escaped, _ := c.text()
	if !escaped {
		c.out = append(append(append(c.out, '"'), raw...), '"')
		return raw
	}
	plain := unquote(raw)
	c.out = append(c.out, '"')
	for _, b := range plain {
		switch at := strings.IndexByte("\b\f\n\r\t", b); {
		case at >= 0:
			c.out = append(c.out, '\\', "bfnrt"[at])
		case b < ' ':
			c.out = append(c.out, '\\', 'u', '0', '0', "0123456789abcdef"[b>>4], "0123456789abcdef"[b&15])
		case b == '"' || b == '\\':
			c.out = append(c.out, '\\', b)
		default:
			c.out = append(c.out, b)
		}
	}
	c.out = append(c.out, '"')
	return plain
}
