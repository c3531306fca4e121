package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// An avroNode is one type. Named types have one node, however many references they
// have, so the nodes may form cycles.
type avroNode struct {
	kind     string         // the Avro name: "record", "int", "union", …
	tag      string         // its name as a branch of a union in JSON: the full name, if it has one
	aliases  []string       // of a named type, as the definition has them
	fields   []avroField    // of a record
	index    map[string]int // position of each field, symbol or branch
	items    *avroNode      // of an array or map
	branches []*avroNode    // of a union
	size     int            // of a fixed
	// fallback says that an enum has a default, which readers take for symbols that
	// they do not know.
	fallback         bool
	precision, scale int // of a decimal
}

type avroField struct {
	name         string
	aliases      []string
	node         *avroNode
	defaultValue any
	hasDefault   bool
}

// parseAvro reads a definition.
func parseAvro(definition string) (*avroNode, error) {
	doc, err := readJSON(definition)
	if err != nil {
		return nil, err
	}
	p := avroParser{named: make(map[string]*avroNode)}
	root, err := p.parse(doc, "", 0)
	if err != nil {
		return nil, err
	}
	return root, checkDefaults(p.fields)
}

// readJSON reads one JSON value. Its numbers are of type [json.Number].
func readJSON(text string) (doc any, err error) {
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(&doc); err != nil {
		return nil, fmt.Errorf("not JSON: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("not one JSON value: there is more behind it")
	}
	return doc, nil
}

func compileAvro(definition string) (checker, error) {
	root, err := parseAvro(definition)
	if err != nil {
		return nil, err
	}
	return avroChecker{root}, nil
}

func compatibleAvro(a, b string) error {
	was, err := parseAvro(a)
	if err != nil {
		return err
	}
	is, err := parseAvro(b)
	if err != nil {
		return err
	}
	if err := canRead(is, was); err != nil {
		return fmt.Errorf("the new definition cannot read messages of the old one: %w", err)
	}
	if err := canRead(was, is); err != nil {
		return fmt.Errorf("the old definition cannot read messages of the new one: %w", err)
	}
	return nil
}
