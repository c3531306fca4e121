package protofile

import (
	"strings"

	"google.golang.org/protobuf/types/descriptorpb"
)

// what is what a name stands for.
type what uint8

const (
	aPackage what = iota
	aMessage
	anEnum
	anEnumValue
	aField
	anExtension
	aService
	other // a oneof or method
)

// A scope is something with a name, and what is declared in it.
type scope struct {
	name     string
	what     what
	isMap    bool   // an entry of a map, which has no name in the language
	parent   *scope // nil for what has no name
	children map[string]*scope
	message  *descriptorpb.DescriptorProto     // of a message
	enum     *descriptorpb.EnumDescriptorProto // of an enum
	depth    int                               // how many messages nest here
	length   int                               // bytes of the full name, without the package
	full     *string                           // the full name, with a dot before it, once it has been asked for
	numbers  map[int32]string                  // which field of a message, or extension of it, has a number
}

// declare adds a name to a scope.
func (p *parser) declare(in *scope, name token, w what) *scope {
	s := &scope{name: name.text, what: w, parent: in, length: in.length + 1 + len(name.text)}
	if p.names += s.length; p.names > maxNames {
		fail(name.pos, "the full names of all that is declared have more than %d bytes", maxNames)
	}
	if in.children[name.text] != nil {
		suffix := ""
		if w == anEnumValue || in.children[name.text].what == anEnumValue {
			suffix = "; the values of an enum have their names in the scope that the enum is in"
		}
		fail(name.pos, "%s is declared already%s", name.text, suffix)
	}
	if in.children == nil {
		in.children = make(map[string]*scope)
	}
	in.children[name.text] = s
	return s
}

// setPackage puts a file into its package.
func (s *scope) setPackage(path []string) {
	in := &scope{}
	for i, name := range path {
		next := &scope{}
		if i == len(path)-1 {
			next = s
		}
		next.name, next.parent = name, in
		in.children = map[string]*scope{name: next}
		in = next
	}
}

// fullName returns the full name with a dot before it.
func (s *scope) fullName() *string {
	if s.full == nil {
		full := ""
		if s.parent != nil {
			full = *s.parent.fullName() + "." + s.name
		}
		s.full = &full
	}
	return s.full
}

// isType reports whether s may be the type of a field.
func (s *scope) isType() bool { return s.what == aMessage || s.what == anEnum }

// find returns what a path stands for, relative to s. It is known to be there if s has
// the first name of the path, and that is something names can be in.
func (s *scope) find(path []string) (found *scope, known bool) {
	found = s.children[path[0]]
	if found == nil || len(path) == 1 {
		return found, found != nil
	}
	switch found.what {
	case aPackage, aMessage, anEnum, aService:
	default:
		return nil, false
	}
	for _, name := range path[1:] {
		if found = found.children[name]; found == nil {
			return nil, true
		}
	}
	return found, true
}

// resolve returns what a name stands for in s. It fails if there is no such name. If onlyTypes,
// a name without dots does not find a field in the way of a type further out.
func (s *scope) resolve(name token, onlyTypes bool) *scope {
	path := strings.Split(name.text, ".")
	if path[0] == "" {
		for s.parent != nil {
			s = s.parent
		}
		path, onlyTypes = path[1:], false
	}
	var guess *scope
	for ; s != nil; s = s.parent {
		found, known := s.find(path)
		if !known {
			continue
		}
		if found == nil || !onlyTypes || found.isType() || len(path) > 1 {
			guess = found
			break
		}
		if guess == nil {
			guess = found
		}
		if s.what == aPackage {
			break // the file is one scope, all packages that it is in included
		}
	}
	if guess == nil || guess.what == aPackage {
		fail(name.pos, "unknown type %s", name.text)
	}
	return guess
}

// resolveMessage returns the message that a name stands for.
func (s *scope) resolveMessage(name token) *scope {
	found := s.resolve(name, false)
	if found.what != aMessage {
		fail(name.pos, "%s is no message", name.text)
	}
	return found
}
