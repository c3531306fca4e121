// Package filter parses the filter language of Pub/Sub subscriptions and matches
// messages by their attributes:
//
//	attributes:name                       the attribute exists
//	attributes.name = "value"             it exists and has this value
//	attributes.name != "value"            it does not exist, or has another value
//	hasPrefix(attributes.name, "prefix")  it exists and begins like this
//	NOT a, -a, a AND b, a OR b, (a)
//
// AND and OR bind equally, so one expression must not hold both without
// parentheses. Operators are upper case. A key that holds anything but ASCII
// letters, digits, - and _ is quoted: attributes."iana.org/language".
//
// The package imports only the standard library.
package filter

import "strings"

// maxBytes is how long a filter may be, as in Google's service.
const maxBytes = 256

// maxDepth is how deep parentheses may nest; Google does not document its limit.
const maxDepth = 32

// A Filter is a parsed filter. It never changes, and its methods may be called
// concurrently. The zero value, which is that of the empty string, matches everything.
type Filter struct {
	root *node
}

// An op is the operator of a node.
type op uint8

const (
	opHas op = iota + 1
	opEqual
	opNotEqual
	opPrefix
	opNot
	opAnd
	opOr
)

// A node is one condition: on an attribute, or on other conditions.
type node struct {
	op         op
	key, value string  // of a condition on an attribute
	children   []*node // one for opNot, two or more for opAnd and opOr
}

// Match reports whether a message with these attributes passes. It allocates
// nothing.
func (f Filter) Match(attributes map[string]string) bool {
	return f.root == nil || f.root.match(attributes)
}

func (n *node) match(attributes map[string]string) bool {
	switch n.op {
	case opNot:
		return !n.children[0].match(attributes)
	case opAnd:
		for _, child := range n.children {
			if !child.match(attributes) {
				return false
			}
		}
		return true
	case opOr:
		for _, child := range n.children {
			if child.match(attributes) {
				return true
			}
		}
		return false
	default:
		return n.matchAttribute(attributes)
	}
}

func (n *node) matchAttribute(attributes map[string]string) bool {
	value, ok := attributes[n.key]
	switch n.op {
	case opHas:
		return ok
	case opEqual:
		return ok && value == n.value
	case opNotEqual:
		return !ok || value != n.value
	default: // opPrefix
		return ok && strings.HasPrefix(value, n.value)
	}
}

// isWord reports whether c may stand in a key without quotes.
func isWord(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_'
}

func isControl(r rune) bool { return r < 0x20 || r == 0x7f }
