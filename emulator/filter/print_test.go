package filter

import (
	"strconv"
	"strings"
)

// String returns the filter in a normal form: with NOT for -, no needless
// parentheses, and quotes and escapes only where they are needed. It is equivalent
// to what was parsed, but may be longer than the limit of a filter.
func (f Filter) String() string {
	if f.root == nil {
		return ""
	}
	var b strings.Builder
	f.root.print(&b)
	return b.String()
}

func (n *node) print(b *strings.Builder) {
	switch n.op {
	case opHas:
		b.WriteString("attributes:" + quoteKey(n.key))
	case opEqual:
		b.WriteString("attributes." + quoteKey(n.key) + " = " + quote(n.value))
	case opNotEqual:
		b.WriteString("attributes." + quoteKey(n.key) + " != " + quote(n.value))
	case opPrefix:
		b.WriteString("hasPrefix(attributes." + quoteKey(n.key) + ", " + quote(n.value) + ")")
	case opNot:
		b.WriteString("NOT ")
		n.children[0].printOperand(b)
	case opAnd, opOr:
		for i, child := range n.children {
			if i > 0 {
				b.WriteString(map[op]string{opAnd: " AND ", opOr: " OR "}[n.op])
			}
			if child.op == opNot {
				child.print(b)
			} else {
				child.printOperand(b)
			}
		}
	}
}

// printOperand prints n with the parentheses it needs below an operator.
func (n *node) printOperand(b *strings.Builder) {
	if len(n.children) == 0 {
		n.print(b)
		return
	}
	b.WriteByte('(')
	n.print(b)
	b.WriteByte(')')
}

func quoteKey(key string) string {
	if key == "" || strings.ContainsFunc(key, func(r rune) bool { return r >= 0x80 || !isWord(byte(r)) }) {
		return quote(key)
	}
	return key
}

func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case isControl(r):
			b.WriteString(`\x` + strconv.FormatInt(0x100+int64(r), 16)[1:])
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
