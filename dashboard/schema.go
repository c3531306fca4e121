package dashboard

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// param is a parameter of a kind, as a field of a form.
type param struct {
	Name        string
	Type        string // string, integer, number, boolean or json
	Description string
	Options     []option // of an enum and a boolean
	Value       string   // as it was typed, or the default
	Required    bool
	Min, Max    string
	Step        string
	MaxLength   int
	Pattern     string
	Wrong       string // what the server has said about the value
}

type option struct {
	Value string
	Here  bool
}

// schema is what a form needs of a JSON Schema of an object.
type schema struct {
	Properties ordered  `json:"properties"`
	Required   []string `json:"required"`
}

// ordered are the members of an object, in their order.
type ordered []member

type member struct {
	name  string
	value json.RawMessage
}

// UnmarshalJSON implements [json.Unmarshaler].
func (o *ordered) UnmarshalJSON(text []byte) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return fmt.Errorf("properties are no object: %w", err)
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return err
		}
		m := member{name: fmt.Sprint(name)}
		if err := dec.Decode(&m.value); err != nil {
			return err
		}
		*o = append(*o, m)
	}
	return nil
}

// maxParams is how many parameters a form has; a kind with more is filled in as JSON.
const maxParams = 200

// paramsOf returns the fields for a JSON Schema. ok is false if it does not say which parameters there are: then they are
// typed as JSON.
func paramsOf(text json.RawMessage) (fields []param, ok bool) {
	var s schema
	if len(text) == 0 || json.Unmarshal(text, &s) != nil || s.Properties == nil || len(s.Properties) > maxParams {
		return nil, false
	}
	for _, m := range s.Properties {
		fields = append(fields, fieldOf(m, slices.Contains(s.Required, m.name)))
	}
	return fields, true
}

func fieldOf(m member, required bool) param {
	var p struct {
		Type        any               `json:"type"`
		Description string            `json:"description"`
		Enum        []json.RawMessage `json:"enum"`
		Default     json.RawMessage   `json:"default"`
		Minimum     *json.Number      `json:"minimum"`
		Maximum     *json.Number      `json:"maximum"`
		MaxLength   int               `json:"maxLength"`
		Pattern     string            `json:"pattern"`
	}
	f := param{Name: m.name, Type: "json", Required: required}
	if json.Unmarshal(m.value, &p) != nil {
		return f
	}
	f.Description, f.Value, f.MaxLength, f.Pattern = p.Description, plain(p.Default), max(0, p.MaxLength), p.Pattern
	if kind, ok := p.Type.(string); ok && slices.Contains([]string{"string", "integer", "number", "boolean"}, kind) {
		f.Type = kind
	}
	f.Min, f.Max = bound(p.Minimum), bound(p.Maximum)
	switch f.Type {
	case "integer":
		f.Step = "1"
	case "number":
		f.Step = "any"
	case "boolean":
		p.Enum = []json.RawMessage{json.RawMessage("true"), json.RawMessage("false")}
	case "json":
		f.Value = pick(len(p.Default) > 0, string(p.Default), "")
	}
	if len(p.Enum) > 0 {
		f.Options = append(f.Options, option{})
		for _, v := range p.Enum {
			f.Options = append(f.Options, option{Value: plain(v)})
		}
		f.choose()
	}
	return f
}

// choose marks the option that has the value.
func (p *param) choose() {
	for i := range p.Options {
		p.Options[i].Here = p.Options[i].Value == p.Value
	}
}

// bound is a limit of a number that a person may want to know: not the one of all integers.
func bound(n *json.Number) string {
	if n == nil {
		return ""
	}
	f, err := n.Float64()
	if err != nil || f >= 1<<53-1 || f <= -(1<<53-1) {
		return ""
	}
	return n.String()
}

// plain is a JSON value as it is typed: a string without its quotes.
func plain(v json.RawMessage) string {
	var s string
	if json.Unmarshal(v, &s) == nil {
		return s
	}
	return string(v)
}

// value returns what was typed as JSON, nothing if nothing was.
func (p *param) value() (v json.RawMessage, wrong string) {
	if p.Value == "" && (p.Type != "string" || !p.Required || len(p.Options) > 0) {
		return nil, ""
	}
	text := []byte(p.Value)
	switch p.Type {
	case "string":
		text, _ = json.Marshal(p.Value)
		return text, ""
	case "integer":
		if _, err := strconv.ParseInt(strings.TrimSpace(p.Value), 10, 64); err != nil {
			return nil, "want an integer"
		}
	case "number":
		if _, err := strconv.ParseFloat(strings.TrimSpace(p.Value), 64); err != nil {
			return nil, "want a number"
		}
	}
	if !json.Valid(text) {
		return nil, pick(p.Type == "json", "want JSON", "want a "+p.Type)
	}
	return bytes.TrimSpace(text), ""
}
