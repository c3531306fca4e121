package schema

import (
	"fmt"
	"strings"

	"github.com/twmb/avro"
)

// An avroNode is one type, as checking needs it. Named types have one node, however
// many references they have, so the nodes may form cycles.
type avroNode struct {
	kind     string // the Avro name: "record", "int", "union", …
	tag      string // its name as a branch of a union in JSON
	fields   []avroField
	index    map[string]int // position of each field, symbol or branch
	items    *avroNode      // of an array or map
	branches []*avroNode
	size     int
}

type avroField struct {
	name string
	node *avroNode
	// defaultValue is the default, if it is an object or an array.
	defaultValue any
	hasDefault   bool
}

// parseAvro returns the library's schema and the nodes of it.
func parseAvro(definition string) (*avro.Schema, *avroNode, error) {
	// First without objects and arrays as defaults: the library would expand them,
	// and a few lines of nested defaults can expand to more than memory holds.
	aside, err := setDefaultsAside(definition)
	if err != nil {
		return nil, nil, err
	}
	shape, err := avro.Parse(aside)
	if err != nil {
		return nil, nil, err
	}
	b := avroBuilder{named: make(map[string]*avroNode)}
	root, err := b.build(shape.Root(), "")
	if err != nil {
		return nil, nil, err
	}
	if err := b.checkDefaults(); err != nil {
		return nil, nil, err
	}
	full, err := avro.Parse(definition)
	return full, root, err
}

func compileAvro(definition string) (checker, error) {
	_, root, err := parseAvro(definition)
	if err != nil {
		return nil, err
	}
	return avroChecker{root}, nil
}

func compatibleAvro(a, b string) error {
	was, _, err := parseAvro(a)
	if err != nil {
		return err
	}
	is, _, err := parseAvro(b)
	if err != nil {
		return err
	}
	if err := avro.CheckCompatibility(was, is); err != nil {
		return fmt.Errorf("the new definition cannot read messages of the old one: %w", err)
	}
	if err := avro.CheckCompatibility(is, was); err != nil {
		return fmt.Errorf("the old definition cannot read messages of the new one: %w", err)
	}
	return nil
}

// An avroBuilder turns the library's tree into nodes.
type avroBuilder struct {
	named map[string]*avroNode // by full name
	pairs int                  // see maxBranchPairs
}

// build makes the node of a type in a namespace.
func (b *avroBuilder) build(s *avro.SchemaNode, space string) (*avroNode, error) {
	n := &avroNode{kind: s.Type, tag: s.Type}
	var err error
	switch s.Type {
	case "null", "boolean", "int", "long", "float", "double", "bytes", "string":
	case "record", "error":
		n.kind = "record"
		err = b.buildRecord(n, s)
	case "enum":
		b.name(n, s)
		n.index = make(map[string]int, len(s.Symbols))
		for i, symbol := range s.Symbols {
			n.index[symbol] = i
		}
	case "fixed":
		b.name(n, s)
		n.size = s.Size
	case "array":
		n.items, err = b.build(s.Items, space)
	case "map":
		n.items, err = b.build(s.Values, space)
	case "union":
		err = b.buildUnion(n, s, space)
	default:
		return b.find(s.Type, space)
	}
	return n, err
}

// find returns the type that a name refers to in a namespace.
func (b *avroBuilder) find(name, space string) (*avroNode, error) {
	if n := b.named[space+"."+name]; n != nil && space != "" && !strings.Contains(name, ".") {
		return n, nil
	}
	if n := b.named[name]; n != nil {
		return n, nil
	}
	return nil, fmt.Errorf("unknown type %q", name)
}

// name registers n before its parts are built: they may refer to it. It returns
// their namespace.
func (b *avroBuilder) name(n *avroNode, s *avro.SchemaNode) (space string) {
	n.tag = s.Name
	if s.Namespace != "" && !strings.Contains(s.Name, ".") {
		n.tag = s.Namespace + "." + s.Name
	}
	b.named[n.tag] = n
	return n.tag[:max(0, strings.LastIndexByte(n.tag, '.'))]
}

func (b *avroBuilder) buildRecord(n *avroNode, s *avro.SchemaNode) error {
	space := b.name(n, s)
	n.fields = make([]avroField, len(s.Fields))
	n.index = make(map[string]int, len(s.Fields))
	for i := range s.Fields {
		f := &s.Fields[i]
		node, err := b.build(&f.Type, space)
		if err != nil {
			return err
		}
		value, ok := f.Props[asideKey]
		if !ok { // a type spread over its field takes the field's attributes
			value, ok = f.Type.Props[asideKey]
		}
		n.fields[i] = avroField{name: f.Name, node: node, defaultValue: value, hasDefault: ok}
		n.index[f.Name] = i
	}
	return nil
}

func (b *avroBuilder) buildUnion(n *avroNode, s *avro.SchemaNode, space string) error {
	if b.pairs += len(s.Branches) * len(s.Branches); b.pairs > maxBranchPairs {
		return fmt.Errorf("unions have too many branches: the squares of their numbers add up to more than %d", maxBranchPairs)
	}
	n.branches = make([]*avroNode, len(s.Branches))
	n.index = make(map[string]int, len(s.Branches))
	for i := range s.Branches {
		branch, err := b.build(&s.Branches[i], space)
		if err != nil {
			return err
		}
		n.branches[i] = branch
		n.index[branch.tag] = i
	}
	return nil
}
