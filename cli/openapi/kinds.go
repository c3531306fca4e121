package openapi

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"github.com/batchfleet/batchfleet/kinds"
)

// packedKinds is what a server with kinds describes beside JSON: kinds.yaml as JSON, compressed.
//
//go:embed kinds.json.gz
var packedKinds []byte

// object is a JSON object.
type object = map[string]any

// Of returns the description for a server that knows these kinds, which may be nil. With kinds it has the routes of
// /calc/{kind}/, too, and what the parameters of a job may be, as the schema Params_KIND: a part of each kind's submission.
func Of(set *kinds.Set) ([]byte, error) {
	if set == nil || len(set.Kinds) == 0 {
		return JSON(), nil
	}
	doc, err := read(JSON())
	if err != nil {
		return nil, fmt.Errorf("describe the kinds: %w", err)
	}
	more, err := read(unpacked(packedKinds))
	if err != nil {
		return nil, fmt.Errorf("describe the kinds: %w", err)
	}
	copyRoutes(doc["paths"].(object))
	lay(doc, more)
	components, paths := doc["components"].(object), doc["paths"].(object)
	schemas := components["schemas"].(object)
	var names, rules []any
	submit := paths[ofKinds+"jobs"].(object)
	for _, k := range set.Kinds {
		name := string(k.Name)
		schemas["Params_"+name] = k.Schema()
		params := object{"anyOf": []any{object{"$ref": "#/components/schemas/Params_" + name}, object{"type": "null"}}}
		names = append(names, name)
		rules = append(rules, object{
			"if":   object{"properties": object{"kind": object{"const": name}}},
			"then": object{"properties": object{"params": params}},
		})
		paths["/calc/"+name+"/jobs"] = submitOf(submit, name, params)
	}
	delete(paths, ofKinds+"jobs") // each kind has its own
	components["parameters"].(object)["Kind"] = object{
		"name": "kind", "in": "path", "required": true, "description": "Others are 404.", "schema": object{"type": "string", "enum": names},
	}
	schemas["Submission"].(object)["allOf"] = rules
	gateway := schemas["GatewaySubmission"].(object)
	gateway["allOf"] = rules
	gateway["properties"].(object)["kind"].(object)["enum"] = names
	return json.Marshal(doc)
}

func read(text []byte) (doc object, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber() // they stay as they are written
	err = d.Decode(&doc)
	return doc, err
}

const (
	ofZPE   = "/calc/zpe/"
	ofKinds = "/calc/{kind}/"
)

// copyRoutes describes for all kinds the routes that zpe has, and for the gateway's jobs the route by which a fleet gets
// jobs.
func copyRoutes(paths object) {
	copies := object{"/api/v1/gateway/jobs": renamed(paths["/api/v1/fleet/jobs"].(object), "OfGateway")}
	for path, item := range paths {
		rest, ok := strings.CutPrefix(path, ofZPE)
		if !ok || rest == "jobs/{id}/files" {
			continue
		}
		made := renamed(item.(object), "OfKind")
		parameters, _ := made["parameters"].([]any)
		made["parameters"] = append([]any{object{"$ref": "#/components/parameters/Kind"}}, parameters...)
		for method, op := range made {
			if method == "parameters" {
				continue
			}
			responses := op.(object)["responses"].(object)
			if responses["404"] == nil {
				responses["404"] = object{"$ref": "#/components/responses/NoKind"}
			}
		}
		copies[ofKinds+rest] = made
	}
	maps.Copy(paths, copies)
}

// renamed returns a copy of a path, with operations of other names.
func renamed(item object, suffix string) object {
	made := clone(item).(object)
	for method, op := range made {
		if op, ok := op.(object); ok && method != "parameters" {
			op["operationId"] = op["operationId"].(string) + suffix
		}
	}
	return made
}

// submitOf describes how a job of one kind is submitted.
func submitOf(item object, kind string, params object) object {
	made := clone(item).(object)
	delete(made, "parameters") // {kind} alone
	post := made["post"].(object)
	post["operationId"] = "submitJobOfKind_" + kind
	post["summary"] = "Submits a job of kind " + kind + "."
	post["requestBody"] = object{"required": true, "content": object{"application/json": object{"schema": object{
		"type": "object", "additionalProperties": false,
		"properties": object{
			"params": params,
			"input":  object{"type": []any{"string", "null"}, "description": "The name that an upload was answered with."},
			"inputs": object{
				"type": []any{"array", "null"}, "description": "The same where there are several; then input is absent.", "maxItems": 1000,
				"items": object{"type": "string"},
			},
		},
	}}}}
	return made
}

// lay lays one object over another, key by key.
func lay(over, with object) {
	for key, value := range with {
		below, isObject := over[key].(object)
		above, ok := value.(object)
		if isObject && ok {
			lay(below, above)
			continue
		}
		over[key] = value
	}
}

// clone returns a copy that shares nothing.
func clone(value any) any {
	switch value := value.(type) {
	case object:
		made := object{}
		for key, v := range value {
			made[key] = clone(v)
		}
		return made
	case []any:
		made := make([]any, len(value))
		for i, v := range value {
			made[i] = clone(v)
		}
		return made
	}
	return value
}
