package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
)

// checkDefaults checks the defaults of all fields.
func checkDefaults(fields []*avroField) error {
	c := defaultChecker{known: make(map[*avroField]error)}
	for _, f := range fields {
		if !f.hasDefault {
			continue
		}
		if err := c.field(f); err != nil {
			return inField(f.name, fmt.Errorf("default: %w", err))
		}
	}
	return nil
}

// A defaultChecker checks each default once, and remembers what it has found. Its errors
// do not grow with the depth of a default.
type defaultChecker struct {
	known map[*avroField]error
	tries int // see maxDefaults
}

// field checks the default of a field. A default that leaves out fields of a record has
// their defaults in it.
func (c *defaultChecker) field(f *avroField) error {
	err, ok := c.known[f]
	if !ok {
		c.known[f] = errDefaultInside // until it is known
		err = c.value(f.defaultValue, f.node)
		c.known[f] = err
	}
	return err
}

var (
	errDefaultInside = errors.New("it holds itself")
	errDefaults      = fmt.Errorf("defaults have more than %d values, each counted as often as there are branches to try", maxDefaults)
)

// A misfit is a value in a default that is not of its type. Many are made and few are read.
type misfit struct {
	got  any
	want *avroNode
}

func (m *misfit) Error() string {
	switch m.got.(type) {
	case map[string]any:
		return "an object is not of type " + m.want.tag
	case []any:
		return "a list is not of type " + m.want.tag
	}
	return errType(m.want.tag, m.got).Error()
}

// value checks that v is a value of type n, as defaults have them: a union's is that of any
// branch, without its name.
func (c *defaultChecker) value(v any, n *avroNode) error {
	if c.tries++; c.tries > maxDefaults {
		return errDefaults
	}
	members, isObject := v.(map[string]any)
	list, isList := v.([]any)
	switch {
	case n.kind == "union":
		for _, branch := range n.branches {
			if c.value(v, branch) == nil {
				return nil
			}
		}
		if c.tries > maxDefaults {
			return errDefaults
		}
		return &misfit{v, n}
	case n.kind == "record" && isObject:
		return c.record(members, n)
	case n.kind == "map" && isObject:
		for _, item := range members {
			if err := c.value(item, n.items); err != nil {
				return err
			}
		}
	case n.kind == "array" && isList:
		for _, item := range list {
			if err := c.value(item, n.items); err != nil {
				return err
			}
		}
	case !isScalar(n, v) && !isLooseNumber(n.kind, v):
		return &misfit{v, n}
	}
	return nil
}

func (c *defaultChecker) record(members map[string]any, n *avroNode) error {
	for i := range n.fields {
		f := &n.fields[i]
		var err error
		if item, ok := members[f.name]; ok {
			err = c.value(item, f.node)
		} else if err = errDefaultLacks; f.hasDefault {
			err = c.field(f)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

var errDefaultLacks = errors.New("it lacks a field that has no default")

// isLooseNumber passes what is not quite a number of a type, but has been written as a
// default for long: 1.0 for an int, "1" for a double.
func isLooseNumber(kind string, v any) bool {
	switch v := v.(type) {
	case json.Number:
		limit := 0.0 // what is below it fits
		switch kind {
		case "int":
			limit = 1 << 31
		case "long":
			limit = 1 << 63
		}
		f, err := strconv.ParseFloat(string(v), 64)
		return err == nil && f == math.Trunc(f) && -limit <= f && f < limit
	case string:
		return (kind == "float" || kind == "double") && isNumber(kind, v)
	}
	return false
}
