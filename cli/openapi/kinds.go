package openapi

import (
	"encoding/json"
	"fmt"

	"github.com/batchfleet/batchfleet/kinds"
)

// Of returns the description for a server that knows these kinds, which may be nil: what the parameters of a job may be is
// part of it, as the schema Params_KIND, and of a submission.
func Of(set *kinds.Set) ([]byte, error) {
	if set == nil || len(set.Kinds) == 0 {
		return JSON, nil
	}
	var doc, components, schemas, submission map[string]json.RawMessage
	var rules []any
	read := func(text []byte, into any) error { return json.Unmarshal(text, into) }
	if err := read(JSON, &doc); err != nil {
		return nil, err
	}
	if err := read(doc["components"], &components); err != nil {
		return nil, err
	}
	if err := read(components["schemas"], &schemas); err != nil {
		return nil, err
	}
	if err := read(schemas["Submission"], &submission); err != nil {
		return nil, err
	}
	for _, k := range set.Kinds {
		name := "Params_" + string(k.Name)
		schemas[name] = k.Schema()
		params := map[string]any{"anyOf": []any{map[string]any{"$ref": "#/components/schemas/" + name}, map[string]any{"type": "null"}}}
		rules = append(rules, map[string]any{
			"if":   map[string]any{"properties": map[string]any{"kind": map[string]any{"const": k.Name}}},
			"then": map[string]any{"properties": map[string]any{"params": params}},
		})
	}
	var err error
	write := func(into map[string]json.RawMessage, name string, value any) {
		if err == nil {
			into[name], err = json.Marshal(value)
		}
	}
	write(submission, "allOf", rules)
	write(schemas, "Submission", submission)
	write(components, "schemas", schemas)
	write(doc, "components", components)
	if err != nil {
		return nil, fmt.Errorf("describe the kinds: %w", err)
	}
	return json.Marshal(doc)
}
