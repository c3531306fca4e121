// Package markup fills templates of HTML with values, and escapes each value by its place.
//
// The syntax is a part of that of html/template: {{.Field.Of.It}}, {{$}} for what the template was
// given, {{function arg}}, {{if}}, {{else if}}, {{else}}, {{range}}, {{with}}, {{end}}, {{define}}, {{template "name" .}},
// {{/* comment */}}, {{- and -}}. Values are reached by fields of structs and keys of maps, never by methods: a program that
// calls methods by their names cannot leave out those that it does not use, and grows by 12 MB.
//
// A value may stand in text, in a quoted attribute, and in a title or textarea. In an attribute that is a URL it
// cannot become another scheme than http and https. Everywhere else, as in a script, a style, an attribute without
// quotes or one that runs code, [Parse] refuses it.
package markup

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
)

// Func is a function that templates may call. A result is escaped like any other value.
type Func func(args ...any) (any, error)

// Set is a set of templates, which call each other by name. It may be used concurrently.
type Set struct {
	// Show, when set, is given each value as text before it is escaped, and returns what is shown of it.
	Show func(string) string

	templates map[string][]node
	funcs     map[string]Func
}

// Parse reads all templates of a directory of files: each file is one under its name, and so is each {{define}} in it.
func Parse(files fs.FS, pattern string, funcs map[string]Func) (*Set, error) {
	s := &Set{templates: map[string][]node{}, funcs: maps.Clone(builtins)}
	maps.Copy(s.funcs, funcs)
	names, err := fs.Glob(files, pattern)
	if err != nil {
		return nil, fmt.Errorf("parse templates: %w", err)
	}
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, fmt.Errorf("parse templates: %w", err)
		}
		if err := s.add(path.Base(name), string(text)); err != nil {
			return nil, fmt.Errorf("parse template %s: %w", path.Base(name), err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.templates)) {
		if err := s.escape(name); err != nil {
			return nil, fmt.Errorf("parse template %s: %w", name, err)
		}
	}
	return s, nil
}

// Execute writes the template of that name, filled from data. When it fails, out has a part of it.
func (s *Set) Execute(out *bytes.Buffer, name string, data any) error {
	if err := (&run{set: s, out: out}).template(name, data); err != nil {
		return fmt.Errorf("fill template %s: %w", name, err)
	}
	return nil
}

// node is a part of a template.
type node any

type (
	text  struct{ text string }
	value struct {
		line   int
		expr   expr
		escape func(string) string // by its place
	}
	branch struct { // if or with
		line       int
		with       bool // dot becomes the value
		expr       expr
		then, orls []node
	}
	loop struct {
		line       int
		expr       expr
		body, orls []node
	}
	include struct {
		line int
		name string
		expr expr // nil for none
	}
)
