package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// asideKey is the attribute that holds a default while the library must not see
// it. It is not a valid name, so no Avro attribute has it.
const asideKey = "default set aside"

// setDefaultsAside renames the defaults of fields that are objects or arrays.
func setDefaultsAside(definition string) (string, error) {
	dec := json.NewDecoder(strings.NewReader(definition))
	dec.UseNumber()
	var doc any
	if err := dec.Decode(&doc); err != nil {
		return "", fmt.Errorf("not JSON: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return "", errors.New("not one JSON value: there is more behind it")
	}
	setAside(doc)
	b, err := json.Marshal(doc)
	return string(b), err
}

func setAside(v any) {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			setAside(item)
		}
	case map[string]any:
		switch v["default"].(type) {
		case []any, map[string]any:
			v[asideKey] = v["default"]
			delete(v, "default")
		}
		for key, item := range v {
			if key != asideKey {
				setAside(item)
			}
		}
	}
}

// checkDefaults refuses defaults that expand to too many values: a record's default
// may leave out fields that have defaults themselves, which doubles the number at
// each level.
func (b *avroBuilder) checkDefaults() error {
	c := make(defaultCounter)
	total := 0
	for _, n := range b.named {
		for i := range n.fields {
			total += c.field(&n.fields[i])
			if total > maxDefaults {
				return fmt.Errorf("the defaults of fields expand to more than %d values", maxDefaults)
			}
		}
	}
	return nil
}

// A defaultCounter counts the values of defaults, and keeps how many each field has.
// A default that contains itself counts as too many.
type defaultCounter map[*avroField]int

// field returns how many values the field's default expands to.
func (c defaultCounter) field(f *avroField) int {
	if !f.hasDefault {
		return 1
	}
	if n, ok := c[f]; ok {
		return n
	}
	c[f] = maxDefaults + 1 // until it is known: a default that contains itself
	c[f] = c.value(f.defaultValue, f.node)
	return c[f]
}

// value returns how many values v of type n expands to, at most one over the limit.
func (c defaultCounter) value(v any, n *avroNode) int {
	total := 1
	add := func(k int) bool {
		total += k
		return total <= maxDefaults
	}
	switch n.kind {
	case "union": // the library may try them all
		for _, branch := range n.branches {
			if !add(c.value(v, branch)) {
				break
			}
		}
	case "record":
		given, ok := v.(map[string]any)
		if !ok {
			break // not a default of this type: nothing is filled in
		}
		for i := range n.fields {
			f := &n.fields[i]
			var k int
			if item, ok := given[f.name]; ok {
				k = c.value(item, f.node)
			} else {
				k = c.field(f)
			}
			if !add(k) {
				break
			}
		}
	case "array", "map":
		each(v, func(item any) bool { return add(c.value(item, n.items)) })
	}
	return min(total, maxDefaults+1)
}

// each calls f with the items of an array or object until it returns false.
func each(v any, f func(any) bool) {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			if !f(item) {
				return
			}
		}
	case map[string]any:
		for _, item := range v {
			if !f(item) {
				return
			}
		}
	}
}
