package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
)

// An avroParser turns the JSON of a definition into nodes, as the specification of Avro
// 1.12 has it. A name must be defined before it is used.
type avroParser struct {
	named  map[string]*avroNode // by full name
	fields []*avroField         // of all records
	pairs  int                  // see maxBranchPairs
}

// parse makes the node of a type in a namespace, so many levels down.
func (p *avroParser) parse(v any, space string, depth int) (*avroNode, error) {
	if depth >= maxAvroDepth {
		return nil, fmt.Errorf("nests deeper than %d levels", maxAvroDepth)
	}
	switch v := v.(type) {
	case string:
		return p.find(v, space)
	case []any:
		return p.union(v, space, depth)
	case map[string]any:
		return p.object(v, space, depth)
	}
	return nil, errors.New("a type is missing, or neither a name, a list nor an object")
}

// find returns the type that a name refers to in a namespace.
func (p *avroParser) find(name, space string) (*avroNode, error) {
	if isPrimitive(name) {
		return &avroNode{kind: name, tag: name}, nil
	}
	if n := p.named[space+"."+name]; n != nil && !strings.Contains(name, ".") {
		return n, nil
	}
	if n := p.named[strings.TrimPrefix(name, ".")]; n != nil {
		return n, nil
	}
	return nil, fmt.Errorf("unknown type %q", name)
}

func isPrimitive(name string) bool {
	switch name {
	case "null", "boolean", "int", "long", "float", "double", "bytes", "string":
		return true
	}
	return false
}

// object makes the node of a type with attributes. Those it does not know are for others.
func (p *avroParser) object(o map[string]any, space string, depth int) (*avroNode, error) {
	kind, err := attribute[string](o, "type")
	if err != nil {
		return nil, err
	}
	n := &avroNode{kind: kind, tag: kind}
	switch kind {
	case "record", "error":
		n.kind = "record"
		err = p.record(n, o, space, depth)
	case "enum":
		err = p.enum(n, o, space)
	case "fixed":
		err = p.fixed(n, o, space)
	case "array":
		n.items, err = p.parse(o["items"], space, depth+1)
	case "map":
		n.items, err = p.parse(o["values"], space, depth+1)
	case "bytes":
		err = n.decimal(o)
	default:
		return p.find(kind, space)
	}
	return n, err
}

func (p *avroParser) union(list []any, space string, depth int) (*avroNode, error) {
	if p.pairs += len(list) * len(list); p.pairs > maxBranchPairs {
		return nil, fmt.Errorf("unions have too many branches: the squares of their numbers add up to more than %d", maxBranchPairs)
	}
	n := &avroNode{kind: "union", tag: "union", index: make(map[string]int, len(list))}
	for i, v := range list {
		branch, err := p.parse(v, space, depth+1)
		if err != nil {
			return nil, err
		}
		if branch.kind == "union" {
			return nil, errors.New("a union is a branch of a union")
		}
		if _, ok := n.index[branch.tag]; ok {
			return nil, fmt.Errorf("%s is twice in a union", branch.tag)
		}
		n.index[branch.tag] = i
		n.branches = append(n.branches, branch)
	}
	return n, nil
}

func (p *avroParser) record(n *avroNode, o map[string]any, space string, depth int) error {
	space, err := p.name(n, o, space)
	if err != nil {
		return err
	}
	list, err := attribute[[]any](o, "fields")
	if err != nil {
		return fmt.Errorf("record %s: %w", n.tag, err)
	}
	n.fields = make([]avroField, len(list))
	n.index = make(map[string]int, len(list))
	taken := make(map[string]bool, len(list)) // names and aliases
	for i, v := range list {
		attributes, ok := v.(map[string]any)
		if !ok {
			return fmt.Errorf("a field of %s is not an object", n.tag)
		}
		f := &n.fields[i]
		if err := p.field(f, attributes, space, depth+1); err != nil {
			return inField(f.name, err)
		}
		for _, name := range append([]string{f.name}, f.aliases...) {
			if taken[name] {
				return fmt.Errorf("record %s has two fields of the name or alias %s", n.tag, name)
			}
			taken[name] = true
		}
		n.index[f.name] = i
	}
	return nil
}

// spreadKey returns the attribute by which a type of a kind is seen to be spread over its
// field, or "".
func spreadKey(kind string) string {
	switch kind {
	case "record", "error":
		return "fields"
	case "enum":
		return "symbols"
	case "fixed":
		return "size"
	case "array":
		return "items"
	case "map":
		return "values"
	case "bytes":
		return "logicalType"
	}
	return ""
}

func (p *avroParser) field(f *avroField, o map[string]any, space string, depth int) (err error) {
	if f.name, err = attribute[string](o, "name"); err != nil {
		return err
	}
	if !isName(f.name) {
		return fmt.Errorf("%q is not a name", f.name)
	}
	if f.aliases, err = texts(o, "aliases"); err != nil {
		return err
	}
	if order, ok := o["order"]; ok && order != "ascending" && order != "descending" && order != "ignore" {
		return errors.New(`"order" is not ascending, descending or ignore`)
	}
	t := o["type"]
	if kind, ok := t.(string); ok && o[spreadKey(kind)] != nil {
		attributes := maps.Clone(o)
		delete(attributes, "aliases") // which are the field's
		delete(attributes, "default")
		t = attributes
	}
	if f.node, err = p.parse(t, space, depth); err != nil {
		return err
	}
	f.defaultValue, f.hasDefault = o["default"]
	if n := f.node; len(n.branches) > 1 && n.branches[0].kind == "null" {
		f.hasDefault = true // null, if there is no other
	}
	p.fields = append(p.fields, f)
	return nil
}

func (p *avroParser) enum(n *avroNode, o map[string]any, space string) error {
	if _, err := p.name(n, o, space); err != nil {
		return err
	}
	if _, ok := o["symbols"]; !ok {
		return errors.New("an enum has no symbols")
	}
	symbols, err := texts(o, "symbols")
	if err != nil {
		return err
	}
	n.index = make(map[string]int, len(symbols))
	for i, symbol := range symbols {
		if _, ok := n.index[symbol]; ok || !isName(symbol) {
			return fmt.Errorf("symbol %q of enum %s is there twice, or is not a name", symbol, n.tag)
		}
		n.index[symbol] = i
	}
	var v any
	if v, n.fallback = o["default"]; n.fallback && !isScalar(n, v) {
		return fmt.Errorf("the default of enum %s is not one of its symbols", n.tag)
	}
	return nil
}

func (p *avroParser) fixed(n *avroNode, o map[string]any, space string) error {
	if _, err := p.name(n, o, space); err != nil {
		return err
	}
	var err error
	if n.size, err = whole(o, "size"); err != nil {
		return fmt.Errorf("fixed %s: %w", n.tag, err)
	}
	return n.decimal(o)
}

// maxPrecision is far more than the digits that anyone computes with.
const maxPrecision = 1 << 16

// decimal reads the attributes of decimals, the one logical type that readers compare.
func (n *avroNode) decimal(o map[string]any) (err error) {
	if o["logicalType"] != "decimal" {
		return nil
	}
	if n.precision, err = whole(o, "precision"); err != nil {
		return fmt.Errorf("decimal: %w", err)
	}
	if _, ok := o["scale"]; ok {
		if n.scale, err = whole(o, "scale"); err != nil {
			return fmt.Errorf("decimal: %w", err)
		}
	}
	digits := maxPrecision // that fit: of 8 bits, one is the sign, and a bit has 0.301 digits
	if n.kind == "fixed" && n.size < maxPrecision {
		digits = max(0, 8*n.size-1) * 30103 / 100_000
	}
	if n.precision < 1 || n.precision > digits || n.scale > n.precision {
		return fmt.Errorf("decimal of precision %d and scale %d: the limit is a precision of %d, and a scale of the precision",
			n.precision, n.scale, digits)
	}
	return nil
}

// attribute returns an attribute of an object, which must be there.
func attribute[T any](o map[string]any, key string) (v T, err error) {
	v, ok := o[key].(T)
	if !ok {
		err = fmt.Errorf("the attribute %q is missing, or of another type", key)
	}
	return v, err
}

// texts returns an attribute that is a list of strings, or nothing if it is not there.
func texts(o map[string]any, key string) ([]string, error) {
	if _, ok := o[key]; !ok {
		return nil, nil
	}
	list, err := attribute[[]any](o, key)
	if err != nil {
		return nil, err
	}
	out := make([]string, len(list))
	for i, v := range list {
		s, ok := v.(string)
		if !ok {
			return nil, fmt.Errorf("%q is not a list of strings", key)
		}
		out[i] = s
	}
	return out, nil
}

// whole returns an attribute that is a whole number, not negative, also in quotes.
func whole(o map[string]any, key string) (int, error) {
	text, ok := o[key].(string)
	if number, is := o[key].(json.Number); is {
		text, ok = string(number), true
	}
	n, err := strconv.Atoi(text)
	if !ok || err != nil || n < 0 {
		return 0, fmt.Errorf("the attribute %q is missing, or not a whole number", key)
	}
	return n, nil
}
