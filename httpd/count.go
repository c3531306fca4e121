package httpd

import (
	"fmt"
	"io"
	"net/http"
)

// maxValues bounds the keys and values of one document, empty and nested ones
// included. A byte of JSON can be half a value, and each costs about a hundred
// times that once it is in memory.
const maxValues = 100_000

// errValues is the error for a document that has more.
var errValues = closing(http.StatusRequestEntityTooLarge, fmt.Errorf("body with more than %d keys and values", maxValues))

// counter counts the keys and values of a JSON text that comes in pieces. It keeps
// nothing of the text, so it can run before the text is decoded. What it counts in a
// text that is not JSON has no meaning.
type counter struct {
	n       int
	quoted  bool // inside a string
	escaped bool // behind a backslash there
	word    bool // inside a number, true, false or null
}

func (c *counter) add(text []byte) {
	for _, b := range text {
		if c.quoted {
			c.quoted = c.escaped || b != '"'
			c.escaped = !c.escaped && b == '\\'
			continue
		}
		switch b {
		case '"':
			c.n++
			c.quoted, c.word = true, false
		case '{', '[':
			c.n++
			c.word = false
		case '}', ']', ',', ':', ' ', '\t', '\r', '\n':
			c.word = false
		default:
			if !c.word {
				c.n++
			}
			c.word = true
		}
	}
}

// countedReader reads from r and fails once there are more than maxValues.
type countedReader struct {
	r io.Reader
	counter
}

func (c *countedReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if c.add(p[:n]); c.n > maxValues {
		return n, errValues
	}
	return n, err
}
