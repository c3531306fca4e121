package filter

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Parse reads a filter. The error names the byte, counted from 0, at which
// parsing stopped, what is there and what was expected.
func Parse(s string) (Filter, error) {
	if len(s) > maxBytes {
		return Filter{}, fmt.Errorf("parse filter: %d bytes, at most %d", len(s), maxBytes)
	}
	return parse(s)
}

// parse is Parse without a limit on the length.
func parse(s string) (Filter, error) {
	if s == "" {
		return Filter{}, nil
	}
	p := parser{s: s}
	root, err := p.expression("the end")
	if err == nil && p.at < len(s) {
		err = p.want("AND, OR or the end")
	}
	if err != nil {
		return Filter{}, fmt.Errorf("parse filter: %w", err)
	}
	return Filter{root}, nil
}

// A parser reads by recursive descent. at is the next byte, which is never white
// space between its methods.
type parser struct {
	s     string
	at    int
	depth int
}

// expression reads conditions joined by one kind of operator. end is what may
// follow them.
func (p *parser) expression(end string) (*node, error) {
	p.skipSpace()
	first, err := p.operand()
	if err != nil {
		return nil, err
	}
	var joined *node
	for {
		start := p.at
		var o op
		switch {
		case p.takeWord("AND"):
			o = opAnd
		case p.takeWord("OR"):
			o = opOr
		case joined != nil:
			return joined, nil
		default:
			return first, nil
		}
		if joined == nil {
			joined = &node{op: o, children: []*node{first}}
		} else if joined.op != o {
			p.at = start
			return nil, p.want("parentheses around what AND or OR joins, or " + end)
		}
		next, err := p.operand()
		if err != nil {
			return nil, err
		}
		joined.children = append(joined.children, next)
	}
}

// operand reads a condition that may be negated, once.
func (p *parser) operand() (*node, error) {
	if !p.takeWord("NOT") && !p.take("-") {
		return p.condition("NOT, -, ")
	}
	child, err := p.condition("")
	if err != nil {
		return nil, err
	}
	return &node{op: opNot, children: []*node{child}}, nil
}

// condition reads what can be negated. also is what else the caller accepts, for
// the error.
func (p *parser) condition(also string) (*node, error) {
	switch {
	case p.take("("):
		if p.depth++; p.depth > maxDepth {
			return nil, fmt.Errorf("byte %d: parentheses nest deeper than %d", p.at, maxDepth)
		}
		n, err := p.expression("a closing parenthesis")
		if err != nil {
			return nil, err
		}
		p.depth--
		return n, p.expect(")", "AND, OR or a closing parenthesis")
	case p.takeWord("attributes"):
		return p.attribute()
	case p.takeWord("hasPrefix"):
		return p.prefix()
	default:
		return nil, p.want(also + "an opening parenthesis, attributes or hasPrefix")
	}
}

// attribute reads what follows "attributes".
func (p *parser) attribute() (*node, error) {
	n := &node{}
	var err error
	if p.take(":") {
		n.op = opHas
		n.key, err = p.key()
		return n, err
	}
	if err := p.expect(".", "a colon or a dot"); err != nil {
		return nil, err
	}
	if n.key, err = p.key(); err != nil {
		return nil, err
	}
	switch {
	case p.take("="):
		n.op = opEqual
	case p.take("!="):
		n.op = opNotEqual
	default:
		return nil, p.want("= or !=")
	}
	n.value, err = p.text("a value in double quotes")
	return n, err
}

// prefix reads what follows "hasPrefix".
func (p *parser) prefix() (*node, error) {
	if err := p.expect("(", "an opening parenthesis"); err != nil {
		return nil, err
	}
	if !p.takeWord("attributes") {
		return nil, p.want("attributes")
	}
	if err := p.expect(".", "a dot"); err != nil {
		return nil, err
	}
	n := &node{op: opPrefix}
	var err error
	if n.key, err = p.key(); err != nil {
		return nil, err
	}
	if err := p.expect(",", "a comma"); err != nil {
		return nil, err
	}
	if n.value, err = p.text("a prefix in double quotes"); err != nil {
		return nil, err
	}
	return n, p.expect(")", "a closing parenthesis")
}

// key reads the name of an attribute, quoted or not.
func (p *parser) key() (string, error) {
	word := p.word()
	if word == "" {
		return p.text("an attribute's name, in double quotes if it holds more than letters, digits, - and _")
	}
	p.at += len(word)
	p.skipSpace()
	return word, nil
}

// take reads an operator if it comes next.
func (p *parser) take(operator string) bool {
	if !strings.HasPrefix(p.s[p.at:], operator) {
		return false
	}
	p.at += len(operator)
	p.skipSpace()
	return true
}

// takeWord reads a word if it comes next and ends there.
func (p *parser) takeWord(word string) bool { return p.word() == word && p.take(word) }

func (p *parser) expect(operator, want string) error {
	if !p.take(operator) {
		return p.want(want)
	}
	return nil
}

// word returns the letters, digits, - and _ that come next.
func (p *parser) word() string {
	end := p.at
	for end < len(p.s) && isWord(p.s[end]) {
		end++
	}
	return p.s[p.at:end]
}

func (p *parser) skipSpace() {
	for p.at < len(p.s) && strings.IndexByte(" \t\r\n", p.s[p.at]) >= 0 {
		p.at++
	}
}

// want returns the error for something else than what at the next byte.
func (p *parser) want(what string) error {
	got := "the end"
	if p.at < len(p.s) {
		word := p.word()
		if word == "" {
			_, size := utf8.DecodeRuneInString(p.s[p.at:])
			word = p.s[p.at : p.at+size]
		}
		got = fmt.Sprintf("%q", word)
	}
	return fmt.Errorf("byte %d: got %s, want %s", p.at, got, what)
}
