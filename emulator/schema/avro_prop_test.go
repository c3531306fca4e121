package schema

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/avro"
	"pgregory.net/rapid"
)

// avroGen draws definitions from few names, so that they meet.
type avroGen struct {
	*rapid.T
	depth int
}

func (g avroGen) pick(from ...any) any { return rapid.SampledFrom(from).Draw(g.T, "pick") }

func (g avroGen) name() string { return g.pick("A", "B", "x.A", "x.B", "y.C").(string) }

func (g avroGen) chance() bool { return rapid.IntRange(0, 3).Draw(g.T, "chance") == 0 }

// schema draws a type. Some are wrong: a name is there twice or not at all.
func (g avroGen) schema() any {
	leaf := g.pick("null", "boolean", "int", "long", "float", "double", "bytes", "string", "int", "string", g.name())
	if g.depth == 0 {
		return leaf
	}
	g.depth--
	switch g.pick("leaf", "record", "record", "enum", "fixed", "array", "map", "union", "object", "decimal") {
	case "record":
		return g.named("record", map[string]any{"fields": g.list(func(i int) any { return g.field(i) })})
	case "enum":
		o := map[string]any{"symbols": []any{"P", "Q", g.pick("R", "S")}}
		if g.chance() {
			o["default"] = g.pick("P", "R", "S")
		}
		return g.named("enum", o)
	case "fixed":
		return g.named("fixed", map[string]any{"size": g.pick(1, 2)})
	case "array":
		return map[string]any{"type": "array", "items": g.schema()}
	case "map":
		return map[string]any{"type": "map", "values": g.schema()}
	case "union":
		return g.list(func(int) any { return g.schema() })
	case "object":
		return map[string]any{"type": leaf}
	case "decimal":
		o := map[string]any{"type": "bytes", "logicalType": "decimal", "precision": g.pick(1, 2, 0)}
		if g.chance() {
			o["scale"] = g.pick(0, 1, 3)
		}
		return o
	}
	return leaf
}

func (g avroGen) list(f func(i int) any) []any {
	out := []any{}
	for i := range rapid.IntRange(0, 3).Draw(g.T, "length") {
		out = append(out, f(i))
	}
	return out
}

func (g avroGen) named(kind string, o map[string]any) map[string]any {
	o["type"], o["name"] = kind, g.name()
	if g.chance() {
		o["namespace"] = g.pick("", "x", "y")
	}
	if g.chance() {
		o["aliases"] = []any{g.name()}
	}
	return o
}

func (g avroGen) field(i int) any {
	o := map[string]any{"name": string("abc"[i]), "type": g.schema()}
	if g.chance() {
		o["aliases"] = []any{g.pick("a", "c", "d")}
	}
	if g.chance() {
		o["default"] = g.pick(nil, true, 1, 1.5, "P", "", map[string]any{}, map[string]any{"a": 1}, []any{}, []any{"P", 2})
	}
	return o
}

// changed returns a copy of a part of a definition, with a few changes.
func (g avroGen) changed(v any) any {
	switch v := v.(type) {
	case string:
		if isPrimitive(v) && g.chance() {
			return g.pick("int", "long", "double", "bytes", "string")
		}
	case []any:
		out := []any{}
		for _, item := range v {
			if rapid.IntRange(0, 9).Draw(g.T, "keep") > 0 {
				out = append(out, g.changed(item))
			}
		}
		return out
	case map[string]any:
		out := make(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if out[key] = v[key]; key != "name" && key != "default" && key != "symbols" {
				out[key] = g.changed(v[key])
			}
		}
		if out["type"] != "enum" && g.chance() {
			out["default"] = nil
		}
		return out
	}
	return v
}

func marshal(tb rapid.TB, v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		tb.Fatal(err)
	}
	return string(b)
}

// What is accepted, and what can be read with what, is what another implementation says.
func TestE01SchemaAvroAgreesWithAnotherImplementation(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		g := avroGen{rt, 4}
		doc := g.schema()
		a, b := marshal(rt, doc), marshal(rt, g.changed(doc))
		if agreed(rt, a) && agreed(rt, b) {
			was, is := avro.MustParse(a), avro.MustParse(b)
			want := avro.CheckCompatibility(was, is) == nil && avro.CheckCompatibility(is, was) == nil
			if err := Compatible(avroType, a, b); (err == nil) != want {
				rt.Errorf("%s and %s: %v, the other says %v", a, b, err, want)
			}
		}
	})
}

// agreed reports whether both accept a definition, and fails when one of them does and the
// other does not.
func agreed(tb rapid.TB, definition string) bool {
	_, err := Compile(avroType, definition)
	_, other := avro.Parse(definition)
	switch {
	case err == nil && other == nil:
		return true
	case err != nil && other != nil:
	case err != nil && strings.Contains(err.Error(), "unknown type"):
		// The other one takes names that are defined further down.
	case other != nil && (strings.Contains(other.Error(), "for other types") || strings.Contains(other.Error(), "can have a name")):
		// It refuses attributes of other types, which the specification leaves to everyone.
	case other != nil && strings.Contains(other.Error(), "json"):
		// It reads JSON more strictly.
	default:
		tb.Errorf("%s: %v, the other says %v", definition, err, other)
	}
	return false
}
