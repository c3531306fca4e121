package markup

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// expr is what yields a value.
type expr interface {
	eval(r *run, dot reflect.Value) (reflect.Value, error)
}

type (
	constant struct{ v reflect.Value }
	fields   struct {
		root  bool // begins with $
		names []string
	}
	call struct {
		name string
		f    Func
		args []expr
	}
)

func (c constant) eval(*run, reflect.Value) (reflect.Value, error) { return c.v, nil }

func (f fields) eval(r *run, dot reflect.Value) (v reflect.Value, err error) {
	if v = dot; f.root {
		v = r.root
	}
	for _, name := range f.names {
		if v, err = field(v, name); err != nil {
			return v, err
		}
	}
	return v, nil
}

// field returns a field of a struct or the value of a key. A nil pointer has none, and a key that is not there has the zero value.
func field(v reflect.Value, name string) (reflect.Value, error) {
	v = indirect(v)
	switch v.Kind() {
	case reflect.Struct:
		f, ok := v.Type().FieldByName(name)
		if ok && f.IsExported() {
			found, err := v.FieldByIndexErr(f.Index)
			return found, err
		}
		return v, fmt.Errorf("%s has no field %s", v.Type(), name)
	case reflect.Map:
		found := v.MapIndex(reflect.ValueOf(name))
		if !found.IsValid() {
			found = reflect.Zero(v.Type().Elem())
		}
		return found, nil
	case reflect.Invalid:
		return v, fmt.Errorf("field %s of nil", name)
	default:
		return v, fmt.Errorf("field %s of a %s", name, v.Kind())
	}
}

// indirect returns what a value points to or holds; the zero Value for nil.
func indirect(v reflect.Value) reflect.Value {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	return v
}

func (c call) eval(r *run, dot reflect.Value) (reflect.Value, error) {
	args := make([]any, len(c.args))
	for i, a := range c.args {
		v, err := a.eval(r, dot)
		if err != nil {
			return v, err
		}
		if v.IsValid() {
			args[i] = v.Interface()
		}
		if c.name == "and" && !truth(v) || c.name == "or" && truth(v) {
			return v, nil
		}
	}
	result, err := c.f(args...)
	if err != nil {
		err = fmt.Errorf("%s: %w", c.name, err)
	}
	return reflect.ValueOf(result), err
}

// expr reads an expression: a function with its arguments, or one operand.
func (p *parser) expr(s string) (expr, error) {
	tokens, err := tokens(s)
	if err != nil {
		return nil, err
	}
	e, rest, err := p.call(tokens)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%q is too much in {{%s}}", rest[0], s)
	}
	return e, err
}

func (p *parser) call(tokens []string) (e expr, rest []string, err error) {
	if len(tokens) == 0 {
		return nil, nil, fmt.Errorf("a value is missing")
	}
	f, ok := p.set.funcs[tokens[0]]
	if !ok {
		return p.operand(tokens)
	}
	c := call{name: tokens[0], f: f}
	for rest = tokens[1:]; len(rest) > 0 && rest[0] != ")"; c.args = append(c.args, e) {
		if e, rest, err = p.operand(rest); err != nil {
			return nil, nil, err
		}
	}
	return c, rest, nil
}

func (p *parser) operand(tokens []string) (e expr, rest []string, err error) {
	t, rest := tokens[0], tokens[1:]
	switch {
	case t == "(":
		if e, rest, err = p.call(rest); err == nil && (len(rest) == 0 || rest[0] != ")") {
			err = fmt.Errorf("( without )")
		}
		if err != nil {
			return nil, nil, err
		}
		return e, rest[1:], nil
	case t == "." || t == "$":
		return fields{root: t == "$"}, rest, nil
	case strings.HasPrefix(t, ".") || strings.HasPrefix(t, "$."):
		names := strings.Split(strings.TrimPrefix(t, "$")[1:], ".")
		if slices.Contains(names, "") {
			return nil, nil, fmt.Errorf("%q is no field", t)
		}
		return fields{t[0] == '$', names}, rest, nil
	case t[0] == '"':
		s, err := strconv.Unquote(t)
		return constant{reflect.ValueOf(s)}, rest, err
	case t == "true" || t == "false":
		return constant{reflect.ValueOf(t == "true")}, rest, nil
	}
	if n, err := strconv.Atoi(t); err == nil {
		return constant{reflect.ValueOf(n)}, rest, nil
	}
	return nil, nil, fmt.Errorf("%.40q is no value and no function", t)
}

// tokens splits an expression into words, quoted strings and parentheses.
func tokens(s string) (all []string, err error) {
	for {
		s = strings.TrimLeft(s, " \t\n")
		if s == "" {
			return all, nil
		}
		n := 1
		switch s[0] {
		case '(', ')':
		case '"':
			quoted, err := strconv.QuotedPrefix(s)
			if err != nil {
				return nil, fmt.Errorf("a string that does not end: %.40s", s)
			}
			n = len(quoted)
		default:
			if n = strings.IndexAny(s, " \t\n()\""); n < 0 {
				n = len(s)
			}
		}
		all, s = append(all, s[:n]), s[n:]
	}
}
