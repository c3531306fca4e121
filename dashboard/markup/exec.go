package markup

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strconv"
)

// run fills one template.
type run struct {
	set   *Set
	out   *bytes.Buffer
	root  reflect.Value // what the template was given
	depth int
}

// maxDepth bounds templates that call themselves.
const maxDepth = 50

func (r *run) template(name string, data any) error {
	nodes, ok := r.set.templates[name]
	if !ok {
		return fmt.Errorf("there is no template %q", name)
	}
	if r.depth == maxDepth {
		return fmt.Errorf("template %q calls itself too often", name)
	}
	inner := &run{set: r.set, out: r.out, root: reflect.ValueOf(data), depth: r.depth + 1}
	return inner.all(nodes, inner.root)
}

func (r *run) all(nodes []node, dot reflect.Value) error {
	for _, n := range nodes {
		line, err := r.one(n, dot)
		if _, nested := errors.AsType[*lineError](err); err != nil && !nested {
			err = &lineError{line, err}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// lineError says in which line of its template an error is.
type lineError struct {
	line int
	err  error
}

func (e *lineError) Error() string { return fmt.Sprintf("line %d: %v", e.line, e.err) }
func (e *lineError) Unwrap() error { return e.err }

func (r *run) one(n node, dot reflect.Value) (line int, err error) {
	switch n := n.(type) {
	case *text:
		r.out.WriteString(n.text)
	case *value:
		return n.line, r.print(n, dot)
	case *branch:
		v, err := n.expr.eval(r, dot)
		if err != nil {
			return n.line, err
		}
		if !truth(v) {
			return n.line, r.all(n.orls, dot)
		}
		if n.with {
			dot = v
		}
		return n.line, r.all(n.then, dot)
	case *loop:
		return n.line, r.loop(n, dot)
	case *include:
		var data any
		if n.expr != nil {
			v, err := n.expr.eval(r, dot)
			if err != nil {
				return n.line, err
			}
			if v.IsValid() {
				data = v.Interface()
			}
		}
		return n.line, r.template(n.name, data)
	}
	return 0, nil
}

func (r *run) loop(n *loop, dot reflect.Value) error {
	v, err := n.expr.eval(r, dot)
	if err != nil {
		return err
	}
	v = indirect(v)
	if v.IsValid() && v.Kind() != reflect.Slice && v.Kind() != reflect.Array {
		return fmt.Errorf("range over a %s", v.Kind())
	}
	if !v.IsValid() || v.Len() == 0 {
		return r.all(n.orls, dot)
	}
	for i := range v.Len() {
		if err := r.all(n.body, v.Index(i)); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) print(n *value, dot reflect.Value) error {
	v, err := n.expr.eval(r, dot)
	if err != nil {
		return err
	}
	s, err := printed(v)
	if err != nil {
		return err
	}
	if r.set.Show != nil {
		s = r.set.Show(s)
	}
	r.out.WriteString(n.escape(s))
	return nil
}

// printed returns a value as text; nil is empty.
func printed(v reflect.Value) (string, error) {
	if v.IsValid() && v.CanInterface() {
		if s, ok := reflect.TypeAssert[fmt.Stringer](v); ok && (v.Kind() != reflect.Pointer || !v.IsNil()) {
			return s.String(), nil
		}
	}
	v = indirect(v)
	switch v.Kind() {
	case reflect.Invalid:
		return "", nil
	case reflect.String:
		return v.String(), nil
	case reflect.Bool:
		return strconv.FormatBool(v.Bool()), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return strconv.FormatInt(v.Int(), 10), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return strconv.FormatUint(v.Uint(), 10), nil
	case reflect.Float32, reflect.Float64:
		return strconv.FormatFloat(v.Float(), 'g', -1, 64), nil
	default:
		return "", fmt.Errorf("a %s cannot be printed", v.Type())
	}
}

// truth reports whether a value is not zero and, of a list or a map, not empty. A struct is true.
func truth(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Invalid:
		return false
	case reflect.Pointer, reflect.Interface:
		return !v.IsNil() && (v.Kind() == reflect.Pointer || truth(v.Elem()))
	case reflect.Slice, reflect.Map, reflect.Array:
		return v.Len() > 0
	case reflect.Struct:
		return true
	default:
		return !v.IsZero()
	}
}

// builtins are the functions that every set has.
var builtins = map[string]Func{
	"not": func(args ...any) (any, error) { return len(args) == 1 && !truth(reflect.ValueOf(args[0])), nil },
	"and": last, // stops at the first that is false
	"or":  last, // stops at the first that is true
	"eq": func(args ...any) (any, error) {
		if len(args) < 2 {
			return nil, errors.New("want two values")
		}
		first, err := printed(reflect.ValueOf(args[0]))
		for _, a := range args[1:] {
			other, err := printed(reflect.ValueOf(a))
			if err != nil || other == first {
				return true, err
			}
		}
		return false, err
	},
	"len": func(args ...any) (any, error) {
		if len(args) != 1 {
			return nil, errors.New("want one value")
		}
		v := indirect(reflect.ValueOf(args[0]))
		switch v.Kind() {
		case reflect.Invalid:
			return 0, nil
		case reflect.Slice, reflect.Map, reflect.Array, reflect.String:
			return v.Len(), nil
		default:
			return nil, fmt.Errorf("a %s has no length", v.Kind())
		}
	},
}

func last(args ...any) (any, error) {
	if len(args) == 0 {
		return nil, errors.New("want a value")
	}
	return args[len(args)-1], nil
}
