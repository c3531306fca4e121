package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// checkJSON checks a message in Avro's JSON encoding, as strictly as Avro's own
// reader: a value of a union that is not null names its branch, every field of
// a record is there, defaults or not, and no other; the order is free.
func (c avroChecker) checkJSON(data []byte) error {
	if !utf8.Valid(data) {
		return errors.New("not JSON: not UTF-8")
	}
	r := avroJSON{json.NewDecoder(bytes.NewReader(data))}
	r.dec.UseNumber()
	if err := r.value(c.root, 0); err != nil {
		return err
	}
	if _, err := r.dec.Token(); !errors.Is(err, io.EOF) {
		return errTrailing
	}
	return nil
}

// An avroJSON reads a message token by token.
type avroJSON struct{ dec *json.Decoder }

func (r avroJSON) token() (json.Token, error) {
	t, err := r.dec.Token()
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, errShort
	}
	if err != nil {
		return nil, fmt.Errorf("not JSON: %w", err)
	}
	return t, nil
}

func (r avroJSON) value(n *avroNode, depth int) error {
	if depth > maxDepth {
		return errTooDeep
	}
	t, err := r.token()
	if err != nil {
		return err
	}
	switch n.kind {
	case "union":
		return r.union(n, t, depth)
	case "record":
		return r.record(n, t, depth)
	case "map":
		if t != json.Delim('{') {
			return errType("map", t)
		}
		return r.members(func(string) error { return r.value(n.items, depth+1) })
	case "array":
		return r.array(n, t, depth)
	default:
		if !isScalar(n, t) {
			return errType(n.tag, t)
		}
		return nil
	}
}

func errType(want string, got json.Token) error {
	s := fmt.Sprint(got)
	if text, ok := got.(string); ok {
		s = strconv.Quote(text)
	}
	if got == nil {
		s = "null"
	}
	return fmt.Errorf("%s is not of type %s", shorten(s, 80), want)
}

// isScalar reports whether a token is a value of a type that is one token.
func isScalar(n *avroNode, t json.Token) bool {
	switch v := t.(type) {
	case nil:
		return n.kind == "null"
	case bool:
		return n.kind == "boolean"
	case json.Number:
		return isNumber(n.kind, string(v))
	case string:
		switch n.kind {
		case "string":
			return true
		case "enum":
			_, ok := n.index[v]
			return ok
		case "bytes", "fixed":
			// Each byte is written as the character of its number.
			return !strings.ContainsFunc(v, func(r rune) bool { return r > 0xff }) &&
				(n.kind == "bytes" || utf8.RuneCountInString(v) == n.size)
		case "float", "double": // which JSON has no numbers for
			return v == "NaN" || v == "Infinity" || v == "-Infinity"
		}
	}
	return false
}

func isNumber(kind, s string) bool {
	var err error
	switch kind {
	case "int":
		_, err = strconv.ParseInt(s, 10, 32)
	case "long":
		_, err = strconv.ParseInt(s, 10, 64)
	case "float", "double":
		_, err = strconv.ParseFloat(s, 64)
	default:
		return false
	}
	return err == nil
}

func (r avroJSON) union(n *avroNode, t json.Token, depth int) error {
	if t == nil {
		if _, ok := n.index["null"]; !ok {
			return errType("union without null", t)
		}
		return nil
	}
	if t != json.Delim('{') {
		return errType(`union: want null or {"type": value}`, t)
	}
	tag, err := r.token()
	if err != nil {
		return err
	}
	name, _ := tag.(string)
	i, ok := n.index[name]
	if !ok || name == "null" {
		return errType("union: it names no branch", tag)
	}
	if err := r.value(n.branches[i], depth+1); err != nil {
		return err
	}
	end, err := r.token()
	if err == nil && end != json.Delim('}') {
		err = errType("union: it names more than one branch", end)
	}
	return err
}

func (r avroJSON) record(n *avroNode, t json.Token, depth int) error {
	if t != json.Delim('{') {
		return errType(n.tag, t)
	}
	missing := len(n.fields)
	seen := make([]bool, len(n.fields))
	err := r.members(func(name string) error {
		i, ok := n.index[name]
		if !ok {
			return errType(n.tag+": it has no such field", name)
		}
		if seen[i] {
			return fmt.Errorf("field %s is there twice", n.fields[i].name)
		}
		seen[i] = true
		missing--
		if err := r.value(n.fields[i].node, depth+1); err != nil {
			return inField(name, err)
		}
		return nil
	})
	if err == nil && missing > 0 {
		for i, ok := range seen {
			if !ok {
				return fmt.Errorf("field %s of %s is missing", n.fields[i].name, n.tag)
			}
		}
	}
	return err
}

// members reads an object behind its brace. There the decoder returns no token but
// names, which are strings.
func (r avroJSON) members(f func(name string) error) error {
	for r.dec.More() {
		key, err := r.token()
		if err != nil {
			return err
		}
		if err := f(key.(string)); err != nil {
			return err
		}
	}
	_, err := r.token()
	return err
}

func (r avroJSON) array(n *avroNode, t json.Token, depth int) error {
	if t != json.Delim('[') {
		return errType("array", t)
	}
	for r.dec.More() {
		if err := r.value(n.items, depth+1); err != nil {
			return err
		}
	}
	_, err := r.token()
	return err
}
