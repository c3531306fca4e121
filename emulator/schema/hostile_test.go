package schema

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/batchfleet/batchfleet/internal/testrun"
)

// repeat joins f(0) to f(n-1).
func repeat(n int, separator string, f func(i int) string) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = f(i)
	}
	return strings.Join(parts, separator)
}

// nested returns records, each with two fields of the one before.
func nested(levels int, attributes string) string {
	def := `{"type":"record","name":"R0","fields":[{"name":"a","type":"null"` + strings.ReplaceAll(attributes, "{}", "null") + `}]}`
	for i := 1; i <= levels; i++ {
		def = fmt.Sprintf(`{"type":"record","name":"R%d","fields":[{"name":"a","type":%s%s},{"name":"b","type":"R%d"%s}]}`, i, def, attributes, i-1, attributes)
	}
	return def
}

// spread is nested with the inner types written into their fields.
func spread(levels int) string {
	def := `"fields":[{"name":"x","type":"int","default":0}]`
	for i := 1; i <= levels; i++ {
		def = fmt.Sprintf(`"fields":[{"name":"R%d","type":"record",%s,"default":{}},{"name":"b","type":"R%d","default":{}}]`, i-1, def, i-1)
	}
	return `{"type":"record","name":"Top",` + def + `}`
}

// allocated returns how many bytes f allocates in all.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// maxCost is what one call may allocate in all, most of it garbage at
// once, for a definition of 300 kB or a message of 2 MB.
const maxCost = 256 << 20

func TestE01SchemaHostileDefinitionsAreBounded(t *testing.T) {
	testrun.Once(t, "it runs in one goroutine")
	tests := []struct {
		name       string
		kind       pubsubpb.Schema_Type
		definition string
		want       string
	}{
		{"avro arrays nested deep", avroType, strings.Repeat(`{"type":"array","items":`, 10_000) + `"int"` + strings.Repeat("}", 10_000), "nests deeper"},
		{"avro arrays nested", avroType, strings.Repeat(`{"type":"array","items":`, 900) + `"int"` + strings.Repeat("}", 900), ""},
		{"avro brackets", avroType, strings.Repeat(`[`, 299_000), "exceeded max depth"},
		{"avro huge enum", avroType, `{"type":"enum","name":"E","symbols":[` + repeat(33_000, ",", func(i int) string { return fmt.Sprintf(`"a%d"`, i) }) + `]}`, ""},
		{"avro many fields", avroType, `{"type":"record","name":"R","fields":[` + repeat(8000, ",", func(i int) string { return fmt.Sprintf(`{"name":"a%d","type":"R"}`, i) }) + `]}`, ""},
		{"avro huge union", avroType, `[` + repeat(5000, ",", func(i int) string { return fmt.Sprintf(`{"type":"fixed","name":"a%d","size":1}`, i) }) + `]`, "too many branches"},
		{"avro defaults that double", avroType, nested(40, `,"default":{}`), ""},
		{"avro defaults that double in spread types", avroType, spread(40), ""},
		{"avro defaults that double in arrays", avroType, `{"type":"record","name":"R","fields":[{"name":"a","type":{"type":"array","items":` + nested(40, `,"default":{}`) + `},"default":[{},{}]}]}`, ""},
		{"avro defaults that double, given twice", avroType, nested(40, `,"default":{},"default":null`), "null is not of type R0"},
		{"avro default that holds itself", avroType, `{"type":"record","name":"R","fields":[{"name":"a","type":"R","default":{}}]}`, "holds itself"},
		{"avro default nested deep", avroType, `{"type":"record","name":"R","fields":[{"name":"a","type":["null","R"]},{"name":"b","type":"R","default":` + strings.Repeat(`{"a":`, 9900) + "1" + strings.Repeat("}", 9900) + `}]}`, "an object is not of type union"},
		{"avro default of many values", avroType, `{"type":"record","name":"R","fields":[{"name":"a","type":{"type":"array","items":["null","int"]},"default":[1` + strings.Repeat(",1", 145_000) + `]}]}`, ""},
		{"avro default with many branches to try", avroType, `{"type":"record","name":"A","fields":[{"name":"a","type":["A",{"type":"record","name":"B","fields":[{"name":"a","type":["A","B"]}]}]},{"name":"b","type":"A","default":` + strings.Repeat(`{"a":`, 40) + "1" + strings.Repeat("}", 40) + `}]}`, "more than 1000000 values"},
		{"avro records that double", avroType, nested(60, ``), ""},
		{"avro huge fixed", avroType, `{"type":"fixed","name":"F","size":9223372036854775807}`, ""},
		{"avro huge number", avroType, `{"type":"record","name":"E","fields":[{"name":"a","type":"double","default":1e` + strings.Repeat("9", 100_000) + `}]}`, "default"},
		{"avro huge decimal", avroType, `{"type":"bytes","logicalType":"decimal","precision":1000000000,"scale":999999999}`, "limit"},
		{"proto messages nested deep", protoType, strings.Repeat("message A{", 25_000) + strings.Repeat("}", 25_000), "nest deeper than 32"},
		{"proto option values nested deep", protoType, "message A { option (x) = " + strings.Repeat("{a:", 20_000), "nest deeper than 32"},
		{"proto lists nested deep", protoType, "message A { option (x) = " + strings.Repeat("[", 90_000), "nest deeper than 32"},
		{"proto strings hide nothing", protoType, "message A { option x = \"\n" + strings.Repeat("{", 90_000), "nest deeper than 32"},
		{"proto huge enum", protoType, `syntax = "proto3"; message A { enum E { ` + repeat(19_000, "", func(i int) string { return fmt.Sprintf("A%d=%d;", i, i) }) + ` } }`, ""},
		{"proto many fields", protoType, `syntax = "proto3"; message A { ` + repeat(18_000, "", func(i int) string { return fmt.Sprintf("A a%d=%d;", i, i+20_000) }) + ` }`, ""},
		{"proto many messages", protoType, `syntax = "proto3"; message A { ` + repeat(18_000, "", func(i int) string { return fmt.Sprintf("message A%d{}", i) }) + ` }`, ""},
		{"proto many ranges", protoType, `syntax = "proto3"; message A { reserved ` + repeat(20_000, ",", func(i int) string { return fmt.Sprint(i*2 + 1) }) + `; }`, ""},
		{"proto long names", protoType, `syntax = "proto3"; message A { ` + strings.Repeat("message "+strings.Repeat("N", 9000)+"{", 30) + strings.Repeat("}", 30) + ` }`, ""},
		{"proto long names of many fields", protoType, `syntax = "proto3"; ` + strings.Repeat("message "+strings.Repeat("N", 5000)+"{", 30) + repeat(7000, "", func(i int) string { return fmt.Sprintf("int32 a%d=%d;", i, i+1) }) + strings.Repeat("}", 30), "the full names"},
		{"proto many fields with options", protoType, `message A { ` + repeat(6900, "", func(i int) string { return fmt.Sprintf("optional A a%d=%d[deprecated=true];", i, i+20_000) }) + ` }`, ""},
		{"proto many fields far from their type", protoType, `syntax = "proto3"; message A { ` + strings.Repeat("message B { ", 29) + repeat(18_000, "", func(i int) string { return fmt.Sprintf("A a%d=%d;", i, i+20_000) }) + strings.Repeat("}", 30), ""},
		{"proto many defaults of a huge enum", protoType, `message A { enum E { ` + repeat(12_000, "", func(i int) string { return fmt.Sprintf("A%d=%d;", i, i) }) + ` } ` + repeat(3500, "", func(i int) string { return fmt.Sprintf("optional E a%d=%d[default=A11999];", i, i+20_000) }) + ` }`, ""},
		{"proto many declared extensions", protoType, `message A { ` + repeat(2300, "", func(i int) string {
			return fmt.Sprintf("extensions %d[declaration={number:%d full_name:\".x%d\" type:\"A\"}];", i+1, i+1, i)
		}) + ` } extend A { ` + repeat(2300, "", func(i int) string { return fmt.Sprintf("optional int32 x%d=%d;", i, i+1) }) + ` }`, "needs a type"},
		{"proto many extensions and ranges", protoType, `message A { extensions ` + repeat(20_000, ",", func(i int) string { return fmt.Sprint(i + 20_000) }) + `; } extend A { ` + repeat(6000, "", func(i int) string { return fmt.Sprintf("optional int32 x%d=%d;", i, i+20_000) }) + ` }`, ""},
		{"proto many values in an option", protoType, `message A { extensions 1 [declaration = { full_name: "x" ` + strings.Repeat("full_name:''", 24_000) + ` }]; }`, "set already"},
		{"proto long path", protoType, `syntax = "proto3"; message A { a` + strings.Repeat(".a", 140_000) + ` b = 1; }`, "unknown type"},
		{"proto long signs", protoType, `syntax = "proto2"; message A { optional int32 a = 1 [default = ` + strings.Repeat("-", 250_000) + `1]; }`, "syntax error"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if len(tt.definition) > MaxDefinitionBytes {
				t.Fatalf("the definition has %d bytes", len(tt.definition))
			}
			var err error
			cost := allocated(func() { _, err = Compile(tt.kind, tt.definition) })
			wantError(t, err, tt.want)
			if cost > maxCost {
				t.Errorf("allocated %d MB", cost>>20)
			}
			t.Logf("allocated %d MB", cost>>20)
		})
	}
}

func TestE01SchemaHostileMessagesAreBounded(t *testing.T) {
	testrun.Once(t, "it runs in one goroutine")
	const mega = 2_000_000 // bytes
	tests := []struct {
		name       string
		kind       pubsubpb.Schema_Type
		definition string
		encoding   pubsubpb.Encoding
		message    []byte
		want       string
	}{
		{"avro array of more nulls than there are bytes", avroType, `{"type":"array","items":"null"}`, asBinary, []byte("\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00"), "too many values for so few bytes"},
		{"avro array of empty records", avroType, `{"type":"array","items":{"type":"record","name":"R","fields":[]}}`, asBinary, []byte("\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00"), "too many values for so few bytes"},
		{"avro array of arrays of nulls", avroType, `{"type":"array","items":{"type":"array","items":"null"}}`, asBinary, bytes.Repeat([]byte("\x02\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"), 10), "too many values for so few bytes"},
		{"avro array of more bytes than there are", avroType, `{"type":"array","items":"int"}`, asBinary, []byte("\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00"), "ends too early"},
		{"avro bytes longer than there are", avroType, `"bytes"`, asBinary, []byte("\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00"), "ends too early"},
		{"avro huge fixed", avroType, `{"type":"fixed","name":"F","size":9223372036854775807}`, asBinary, []byte("x"), "ends too early"},
		{"avro records that double", avroType, nested(60, ``), asBinary, nil, "too many values for so few bytes"},
		{"avro record that holds itself", avroType, `{"type":"record","name":"R","fields":[{"name":"a","type":"R"}]}`, asBinary, nil, "nests deeper than 100"},
		{"avro list nested deep", avroType, `{"type":"record","name":"R","fields":[{"name":"a","type":["null","R"]}]}`, asBinary, bytes.Repeat([]byte("\x02"), mega), "nests deeper than 100"},
		{"avro list in JSON nested deep", avroType, `{"type":"record","name":"R","fields":[{"name":"a","type":["null","R"]}]}`, asJSON, bytes.Repeat([]byte(`{"a":{"R":`), mega/10), "nests deeper than 100"},
		{"avro long array", avroType, `{"type":"array","items":"int"}`, asBinary, append(protowire.AppendVarint(nil, 2*mega), make([]byte, mega+1)...), ""},
		{"avro long array in JSON", avroType, `{"type":"array","items":"int"}`, asJSON, []byte("[" + strings.Repeat("1,", mega/2) + "1]"), ""},
		{"avro JSON with a long number", avroType, `"double"`, asJSON, []byte("1e" + strings.Repeat("9", mega)), "not of type double"},
		{"avro list nested deep with a long name", avroType, `{"type":"record","name":"R","fields":[{"name":"` + strings.Repeat("a", 250_000) + `","type":["null","R"]}]}`, asBinary, bytes.Repeat([]byte("\x02"), mega), "nests deeper than 100"},
		{"proto many empty messages", protoType, `syntax = "proto3"; message A { repeated A a = 1; }`, asBinary, bytes.Repeat([]byte("\x0a\x00"), mega/2), ""},
		{"proto many empty messages and a required field", protoType, `message A { repeated A a = 1; required int32 b = 2; }`, asBinary, bytes.Repeat([]byte("\x0a\x00"), mega/2), "at most 100000"},
		{"proto long packed list and a required field", protoType, `message A { repeated int32 a = 1; required int32 b = 2; }`, asBinary, append(protowire.AppendVarint([]byte{0x0a}, mega), make([]byte, mega)...), "at most 100000 and 1000000"},
		{"proto many empty messages in JSON", protoType, `syntax = "proto3"; message A { repeated A a = 1; }`, asJSON, []byte(`{"a":[{}` + strings.Repeat(",{}", mega/3) + `]}`), "at most 100000"},
		{"proto long list in JSON", protoType, `syntax = "proto3"; message A { repeated int32 a = 1; }`, asJSON, []byte(`{"a":[1` + strings.Repeat(",1", 900_000) + `]}`), ""},
		{"proto many lists in JSON", protoType, `syntax = "proto3"; message A { repeated int32 a = 1; }`, asJSON, []byte(`{"a":` + strings.Repeat("[", mega)), "at most 100000 and 1000000"},
		{"proto message nested deep", protoType, `message A { optional group G = 1 { optional A a = 1; } }`, asBinary, bytes.Repeat([]byte("\x0b"), mega), "not a protocol buffer"},
		{"proto unknown groups nested deep", protoType, `message A { }`, asBinary, bytes.Repeat([]byte("\x0b"), mega), "not a protocol buffer"},
		{"proto groups nested", protoType, `message A { optional group G = 1 { optional group G = 1 { optional A a = 1; } } repeated group H = 2 { optional A a = 1; } }`, asBinary, bytes.Repeat([]byte("\x13\x14"), mega/2), ""},
		{"proto JSON nested deep", protoType, `syntax = "proto3"; message A { A a = 1; }`, asJSON, []byte(strings.Repeat(`{"a":`, 1000) + "{}" + strings.Repeat("}", 1000)), "recursion depth"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := mustCompile(t, tt.kind, tt.definition)
			var err error
			cost := allocated(func() { err = s.Validate(tt.encoding, tt.message) })
			wantError(t, err, tt.want)
			if cost > maxCost {
				t.Errorf("allocated %d MB", cost>>20)
			}
			t.Logf("allocated %d MB", cost>>20)
		})
	}
}

// Two unions of different records: a naive comparison tries every pair of
// branches, and the pairs of their fields.
func TestE01SchemaHostileRevisionsAreBounded(t *testing.T) {
	union := func(name string) string {
		return `[` + repeat(1900, ",", func(i int) string {
			return fmt.Sprintf(`{"type":"record","name":"%s%d","fields":[{"name":"a%d","type":"int"}]}`, name, i, i)
		}) + `]`
	}
	a, b := union("A"), union("B")
	mustCompile(t, avroType, a)
	var err error
	cost := allocated(func() { err = Compatible(avroType, a, b) })
	wantError(t, err, "cannot read")
	if cost > maxCost {
		t.Errorf("allocated %d MB", cost>>20)
	}
	t.Logf("allocated %d MB", cost>>20)

	a, b = nested(60, ""), strings.ReplaceAll(nested(60, ""), `"null"`, `"int"`)
	cost = allocated(func() { err = Compatible(avroType, a, b) })
	wantError(t, err, "cannot read")
	if cost > maxCost {
		t.Errorf("allocated %d MB", cost>>20)
	}
}

func TestE01SchemaPanicOfALibraryIsAnError(t *testing.T) {
	s := &Schema{panicking{}}
	if err := s.Validate(pubsubpb.Encoding_JSON, nil); err == nil || !strings.Contains(err.Error(), "a bug") {
		t.Errorf("a panic became %v", err)
	}
}

// panicking is a checker with a bug.
type panicking struct{}

func (panicking) checkJSON([]byte) error   { panic("a bug") }
func (panicking) checkBinary([]byte) error { panic("a bug") }
