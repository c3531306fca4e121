package markup

import (
	"fmt"
	"strings"
)

// parser reads the text of one file.
type parser struct {
	set  *Set
	rest string
	line int
}

// add parses a file and adds its templates.
func (s *Set) add(name, source string) error {
	p := &parser{set: s, rest: source, line: 1}
	nodes, end, err := p.list(true)
	if err == nil && end != "" {
		err = fmt.Errorf("{{%s}} without a beginning", end)
	}
	if err != nil {
		return fmt.Errorf("line %d: %w", p.line, err)
	}
	return s.define(name, nodes)
}

func (s *Set) define(name string, nodes []node) error {
	if _, ok := s.templates[name]; ok {
		return fmt.Errorf("template %q is defined twice", name)
	}
	s.templates[name] = nodes
	return nil
}

// next returns the text up to the next action, and that action. ok is false at the end of the file.
func (p *parser) next() (before, action string, ok bool, err error) {
	before, after, found := strings.Cut(p.rest, "{{")
	p.line += strings.Count(before, "\n")
	if !found {
		p.rest = ""
		return before, "", false, nil
	}
	if strings.HasPrefix(after, "- ") {
		before, after = strings.TrimRight(before, " \t\n"), after[1:]
	}
	action, p.rest, found = strings.Cut(after, "}}")
	if !found {
		return before, "", false, fmt.Errorf("{{ without }}")
	}
	p.line += strings.Count(action, "\n")
	if strings.HasSuffix(action, " -") {
		action = action[:len(action)-1]
		trimmed := strings.TrimLeft(p.rest, " \t\n")
		p.line += strings.Count(p.rest[:len(p.rest)-len(trimmed)], "\n")
		p.rest = trimmed
	}
	return before, strings.TrimSpace(action), true, nil
}

// list reads nodes up to the action that ends them: end, else or else if, which it returns; empty at the end of the file.
func (p *parser) list(top bool) (nodes []node, end string, err error) {
	for {
		before, action, ok, err := p.next()
		if before != "" {
			nodes = append(nodes, &text{before})
		}
		if err != nil || !ok {
			return nodes, "", err
		}
		word, args, _ := strings.Cut(action, " ")
		switch word {
		case "end", "else":
			return nodes, action, nil
		case "define":
			if !top {
				return nil, "", fmt.Errorf("{{define}} within another action")
			}
			err = p.define(args)
		default:
			var n node
			if n, err = p.action(word, args, action); err == nil && n != nil {
				nodes = append(nodes, n)
			}
		}
		if err != nil {
			return nil, "", err
		}
	}
}

func (p *parser) define(args string) error {
	name, err := oneName(args)
	if err != nil {
		return err
	}
	nodes, end, err := p.list(false)
	if err == nil && end != "end" {
		err = fmt.Errorf("define %q ends with %q, want {{end}}", name, end)
	}
	if err != nil {
		return err
	}
	return p.set.define(name, nodes)
}

// action reads what is between two braces, and all up to its end.
func (p *parser) action(word, args, action string) (node, error) {
	line := p.line
	if strings.HasPrefix(action, "/*") {
		if !strings.HasSuffix(action, "*/") {
			return nil, fmt.Errorf("a comment that does not end")
		}
		return nil, nil //nolint:nilnil // a comment is no node
	}
	switch word {
	case "if", "with":
		return p.branch(word == "with", args, line)
	case "range":
		e, err := p.expr(args)
		if err != nil {
			return nil, err
		}
		l := &loop{line: line, expr: e}
		l.body, l.orls, err = p.bodies(word, line)
		return l, err
	case "template":
		name, rest, _ := strings.Cut(args, " ")
		name, err := oneName(name)
		if err != nil || strings.TrimSpace(rest) == "" {
			return &include{line: line, name: name}, err
		}
		e, err := p.expr(rest)
		return &include{line, name, e}, err
	}
	e, err := p.expr(action)
	return &value{line: line, expr: e}, err
}

func (p *parser) branch(with bool, args string, line int) (node, error) {
	e, err := p.expr(args)
	if err != nil {
		return nil, err
	}
	b := &branch{line: line, with: with, expr: e}
	b.then, b.orls, err = p.bodies("if", line)
	return b, err
}

// bodies reads both bodies of an action. {{else if X}} is an {{else}} with an {{if X}} in it.
func (p *parser) bodies(word string, line int) (first, other []node, err error) {
	first, end, err := p.list(false)
	if err != nil {
		return nil, nil, err
	}
	if args, ok := strings.CutPrefix(end, "else if "); ok {
		inner, err := p.branch(false, args, p.line)
		return first, []node{inner}, err
	}
	if end == "else" {
		if other, end, err = p.list(false); err != nil {
			return nil, nil, err
		}
	}
	if end != "end" {
		return nil, nil, fmt.Errorf("{{%s}} of line %d has no {{end}}", word, line)
	}
	return first, other, nil
}

func oneName(quoted string) (string, error) {
	name, ok := strings.CutPrefix(strings.TrimSpace(quoted), `"`)
	name, closed := strings.CutSuffix(name, `"`)
	if !ok || !closed || name == "" {
		return "", fmt.Errorf("want the quoted name of a template, not %.40q", quoted)
	}
	return name, nil
}
