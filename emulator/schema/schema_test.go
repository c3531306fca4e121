package schema

import (
	"strings"
	"testing"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
)

const (
	avroType  = pubsubpb.Schema_AVRO
	protoType = pubsubpb.Schema_PROTOCOL_BUFFER
	asJSON    = pubsubpb.Encoding_JSON
	asBinary  = pubsubpb.Encoding_BINARY
)

func mustCompile(tb testing.TB, kind pubsubpb.Schema_Type, definition string) *Schema {
	tb.Helper()
	s, err := Compile(kind, definition)
	if err != nil {
		tb.Fatalf("compile %s: %v", definition, err)
	}
	return s
}

// wantError fails unless err says want, or is nil when want is "".
func wantError(t *testing.T, err error, want string) {
	t.Helper()
	if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %q", err, want)
	}
}

func TestE01SchemaDefinitions(t *testing.T) {
	tests := []struct {
		name       string
		kind       pubsubpb.Schema_Type
		definition string
		want       string // in the error; "" when it is valid
	}{
		{"avro record", avroType, stateAvro, ""},
		{"avro primitive", avroType, `"string"`, ""},
		{"avro union at the top", avroType, `["null", "int"]`, ""},
		{"avro recursion", avroType, `{"type":"record","name":"L","fields":[{"name":"next","type":["null","L"]}]}`, ""},
		{"avro namespaces", avroType, namespaces, ""},
		{"avro defaults", avroType, `{"type":"record","name":"A","fields":[{"name":"b","type":{"type":"record","name":"B","fields":[{"name":"c","type":"int","default":1}]},"default":{}},{"name":"d","type":{"type":"map","values":"int"},"default":{"x":1}}]}`, ""},
		{"avro logical type", avroType, `{"type":"long","logicalType":"timestamp-millis"}`, ""},
		{"avro empty", avroType, ``, "JSON"},
		{"avro that is not JSON", avroType, `{"type":`, "not JSON"},
		{"avro with more behind it", avroType, `{"type":"int"} {}`, "more behind"},
		{"avro with an unknown type", avroType, `{"type":"record","name":"A","fields":[{"name":"a","type":"B"}]}`, "B"},
		{"avro without a name", avroType, `{"type":"record","fields":[]}`, "name"},
		{"avro with a type twice", avroType, `{"type":"record","name":"A","fields":[{"name":"a","type":{"type":"fixed","name":"F","size":1}},{"name":"b","type":{"type":"fixed","name":"F","size":2}}]}`, "F"},
		{"avro with a bad default", avroType, `{"type":"record","name":"A","fields":[{"name":"a","type":"int","default":"x"}]}`, "default"},
		{"avro with a bad large default", avroType, `{"type":"record","name":"A","fields":[{"name":"a","type":{"type":"array","items":"int"},"default":["x"]}]}`, "default"},
		{"avro union in a union", avroType, `["null",["int"]]`, "a union is a branch of a union"},
		{"avro type twice in a union", avroType, `["int",{"type":"int"}]`, "int is twice"},
		{"avro with a type used before it is defined", avroType, `{"type":"record","name":"A","fields":[{"name":"a","type":"F"},{"name":"b","type":{"type":"fixed","name":"F","size":1}}]}`, `unknown type "F"`},
		{"avro with an alias that is a field", avroType, `{"type":"record","name":"A","fields":[{"name":"a","type":"int"},{"name":"b","type":"int","aliases":["a"]}]}`, "two fields of the name or alias a"},
		{"avro with a type spread over its field", avroType, `{"type":"record","name":"A","fields":[{"name":"a","type":"array","items":"int","default":[1]}]}`, ""},
		{"avro with a default that lacks a field", avroType, `{"type":"record","name":"A","fields":[{"name":"b","type":{"type":"record","name":"B","fields":[{"name":"c","type":"int"}]},"default":{}}]}`, "field b: default: it lacks a field"},
		{"proto3", protoType, stateProto, ""},
		{"proto2", protoType, `syntax = "proto2"; message A { required int32 a = 1; optional group G = 2 { optional string s = 1; } extensions 100 to 200; }`, ""},
		{"proto without a syntax", protoType, `message A { optional int32 a = 1 [default = 3]; }`, ""},
		{"proto with options", protoType, `syntax = "proto3"; option java_package = "x"; message A { option deprecated = true; int32 a = 1 [json_name = "b", deprecated = true]; reserved 3 to max; }`, ""},
		{"proto recursion", protoType, `syntax = "proto3"; message A { A a = 1; map<string, A> m = 2; message B { A a = 1; } oneof x { B b = 3; string s = 4; } enum E { Z = 0; } repeated E e = 5; }`, ""},
		{"proto edition", protoType, `edition = "2023"; message A { int32 a = 1; }`, ""},
		{"proto with an enum at the top", protoType, `syntax = "proto3"; enum E { Z = 0; } message A { E e = 1; }`, ""},
		{"proto with brackets in comments and strings", protoType, "syntax = \"proto3\"; /* " + strings.Repeat("{", 99) + " */ // " + strings.Repeat("{", 99) + "\noption java_package = '\\'" + strings.Repeat("{", 99) + "'; message A {}", ""},
		{"proto with two messages", protoType, `syntax = "proto3"; message A {} message B {}`, "2 message types"},
		{"proto without a message", protoType, `syntax = "proto3";`, "0 message types"},
		{"proto empty", protoType, ``, "0 message types"},
		{"proto with an import", protoType, `syntax = "proto3"; import "google/protobuf/timestamp.proto"; message A { google.protobuf.Timestamp t = 1; }`, "imports are not supported"},
		{"proto with an import it does not use", protoType, `syntax = "proto3"; import "google/protobuf/any.proto"; message A {}`, "imports are not supported"},
		{"proto with an import of descriptors", protoType, `syntax = "proto3"; import "google/protobuf/descriptor.proto"; message A {}`, "imports are not supported"},
		{"proto with a well-known name", protoType, `syntax = "proto3"; package google.protobuf; message Timestamp { string x = 9; }`, "names in google.protobuf are taken"},
		{"proto with a well-known name inside", protoType, `syntax = "proto3"; package google; message protobuf { message Struct { int32 x = 9; } Struct s = 1; }`, "names in google.protobuf are taken"},
		{"proto that does not parse", protoType, `syntax = "proto3"; message A { int32 a }`, "schema.proto:1:"},
		{"proto with an unknown type", protoType, `syntax = "proto3"; message A { B b = 1; }`, "B"},
		{"proto with a number twice", protoType, `syntax = "proto3"; message A { int32 a = 1; int32 b = 1; }`, "1"},
		{"no type", pubsubpb.Schema_TYPE_UNSPECIFIED, stateAvro, "unknown schema type"},
		{"too large", avroType, strings.Repeat(" ", MaxDefinitionBytes) + `"int"`, "at most 300000"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Compile(tt.kind, tt.definition)
			wantError(t, err, tt.want)
		})
	}
}

// The schema of Google's documentation.
const (
	stateAvro  = `{"type":"record","name":"State","namespace":"utilities","doc":"A list of states.","fields":[{"name":"name","type":"string"},{"name":"post_abbr","type":"string"}]}`
	stateProto = `syntax = "proto3"; package utilities; message StateProto { string name = 1; string post_abbr = 2; }`
	namespaces = `{"type":"record","name":"A","namespace":"x.y","fields":[
		{"name":"e","type":{"type":"enum","name":"E","symbols":["P","Q"]}},
		{"name":"f","type":{"type":"fixed","name":"z.F","size":2}},
		{"name":"g","type":{"type":"record","name":"G","namespace":"z","fields":[{"name":"f","type":"F"},{"name":"e","type":"x.y.E"}]}},
		{"name":"u","type":["null","E","z.F","z.G",{"type":"array","items":"E"},{"type":"map","values":"z.F"}]}]}`
	everything = `{"type":"record","name":"R","fields":[
		{"name":"n","type":"null"},{"name":"b","type":"boolean"},{"name":"i","type":"int"},{"name":"l","type":"long"},
		{"name":"f","type":"float"},{"name":"d","type":"double"},{"name":"y","type":"bytes"},{"name":"s","type":"string"},
		{"name":"x","type":{"type":"fixed","name":"X","size":2}},{"name":"e","type":{"type":"enum","name":"E","symbols":["P","Q"]}},
		{"name":"a","type":{"type":"array","items":"int"}},{"name":"m","type":{"type":"map","values":"long"}},
		{"name":"u","type":["null","string","R"]}]}`
	everythingJSON = `{"n":null,"b":true,"i":-5,"l":9223372036854775807,"f":1.5,"d":-2e10,"y":"\u00ff\u0001","s":"é","x":"ab","e":"Q","a":[1,2],"m":{"k":1},"u":{"string":"x"}}`
)

func TestE01SchemaMessages(t *testing.T) {
	const proto2 = `syntax = "proto2"; message A { required int32 a = 1; optional A sub = 2; repeated sint64 many = 3; optional group G = 4 { optional string s = 1; } optional string s = 5; map<string, A> m = 6; repeated fixed32 f = 7; }`
	tests := []struct {
		name       string
		kind       pubsubpb.Schema_Type
		definition string
		encoding   pubsubpb.Encoding
		message    string
		want       string
	}{
		{"avro JSON", avroType, stateAvro, asJSON, `{"name":"Alaska","post_abbr":"AK"}`, ""},
		{"avro JSON in another order", avroType, stateAvro, asJSON, `{"post_abbr":"AK","name":"Alaska"}`, ""},
		{"avro JSON with a field missing", avroType, stateAvro, asJSON, `{"name":"Alaska"}`, "field post_abbr of utilities.State is missing"},
		{"avro JSON with a field too many", avroType, stateAvro, asJSON, `{"name":"Alaska","post_abbr":"AK","x":1}`, `"x" is not of type utilities.State: it has no such field`},
		{"avro JSON with a field twice", avroType, stateAvro, asJSON, `{"name":"Alaska","name":"AK"}`, "field name is there twice"},
		{"avro JSON of another type", avroType, stateAvro, asJSON, `{"name":1,"post_abbr":"AK"}`, "field name: 1 is not of type string"},
		{"avro JSON that is an array", avroType, stateAvro, asJSON, `[]`, "not of type utilities.State"},
		{"avro JSON with more behind it", avroType, stateAvro, asJSON, `{"name":"Alaska","post_abbr":"AK"}{}`, "more data"},
		{"avro JSON cut off", avroType, stateAvro, asJSON, `{"name":"Alaska","post_abbr":"AK"`, "ends too early"},
		{"avro JSON that is none", avroType, stateAvro, asJSON, `{"name":Alaska`, "not JSON"},
		{"avro JSON that is not UTF-8", avroType, stateAvro, asJSON, "{\"name\":\"\xff\",\"post_abbr\":\"\"}", "not UTF-8"},
		{"avro JSON empty", avroType, stateAvro, asJSON, ``, "ends too early"},
		{"avro JSON of every type", avroType, everything, asJSON, everythingJSON, ""},
		{"avro JSON with nested record in a union", avroType, everything, asJSON, strings.Replace(everythingJSON, `{"string":"x"}`, `{"R":`+everythingJSON+`}`, 1), ""},
		{"avro JSON with null in a union", avroType, everything, asJSON, strings.Replace(everythingJSON, `{"string":"x"}`, `null`, 1), ""},
		{"avro JSON with a bare value in a union", avroType, everything, asJSON, strings.Replace(everythingJSON, `{"string":"x"}`, `"x"`, 1), "want null or"},
		{"avro JSON with null named in a union", avroType, everything, asJSON, strings.Replace(everythingJSON, `{"string":"x"}`, `{"null":null}`, 1), "names no branch"},
		{"avro JSON with two branches in a union", avroType, everything, asJSON, strings.Replace(everythingJSON, `{"string":"x"}`, `{"string":"x","null":null}`, 1), "more than one branch"},
		{"avro JSON with an int too large", avroType, everything, asJSON, strings.Replace(everythingJSON, `-5`, `2147483648`, 1), "field i: 2147483648 is not of type int"},
		{"avro JSON with a fraction in an int", avroType, everything, asJSON, strings.Replace(everythingJSON, `-5`, `5.0`, 1), "field i"},
		{"avro JSON with a byte too large", avroType, everything, asJSON, strings.Replace(everythingJSON, `\u00ff`, `\u0100`, 1), "field y"},
		{"avro JSON with a fixed too short", avroType, everything, asJSON, strings.Replace(everythingJSON, `"ab"`, `"a"`, 1), "field x"},
		{"avro JSON with an unknown symbol", avroType, everything, asJSON, strings.Replace(everythingJSON, `"Q"`, `"Z"`, 1), "field e"},
		{"avro JSON with full names", avroType, namespaces, asJSON, `{"e":"P","f":"ab","g":{"f":"cd","e":"Q"},"u":{"z.G":{"f":"cd","e":"Q"}}}`, ""},
		{"avro JSON with a simple name for a full one", avroType, namespaces, asJSON, `{"e":"P","f":"ab","g":{"f":"cd","e":"Q"},"u":{"E":"P"}}`, "names no branch"},
		{"avro JSON with an array in a union", avroType, namespaces, asJSON, `{"e":"P","f":"ab","g":{"f":"cd","e":"Q"},"u":{"array":["P","Q"]}}`, ""},
		{"avro binary", avroType, stateAvro, asBinary, "\x0cAlaska\x04AK", ""},
		{"avro binary of every type", avroType, everything, asBinary, "\x01\x09\x02" + "\x00\x00\xc0\x3f" + "\x00\x00\x00\x00\x00\x00\x00\x00" + "\x02\xff" + "\x02a" + "ab" + "\x02" + "\x04\x02\x04\x00" + "\x01\x06\x02k\x02\x00" + "\x02\x02x", ""},
		{"avro binary cut off", avroType, stateAvro, asBinary, "\x0cAlaska\x04A", "ends too early"},
		{"avro binary with more behind it", avroType, stateAvro, asBinary, "\x0cAlaska\x04AKx", "more data behind the end: 1 bytes"},
		{"avro binary that is not UTF-8", avroType, stateAvro, asBinary, "\x02\xff\x00", "field name: a string is not UTF-8"},
		{"avro binary with a negative length", avroType, stateAvro, asBinary, "\x01", "negative length"},
		{"avro binary with too long a number", avroType, `"long"`, asBinary, strings.Repeat("\xff", 10) + "\x01", "longer than 64 bits"},
		{"avro binary with a number of 65 bits", avroType, `"long"`, asBinary, strings.Repeat("\xff", 9) + "\x02", "longer than 64 bits"},
		{"avro binary with the longest number", avroType, `"long"`, asBinary, strings.Repeat("\xff", 9) + "\x01", ""},
		{"avro binary with an int too large", avroType, `"int"`, asBinary, "\x80\x80\x80\x80\x10", "out of the range of an int"},
		{"avro binary with an unknown branch", avroType, `["null","int"]`, asBinary, "\x04", "no branch 2 of a union of 2"},
		{"avro binary with an unknown symbol", avroType, `{"type":"enum","name":"E","symbols":["A"]}`, asBinary, "\x02", "no symbol of an enum 1"},
		{"avro binary with a bad boolean", avroType, `"boolean"`, asBinary, "\x02", "not a boolean"},
		{"avro binary with an impossible block", avroType, `{"type":"array","items":"int"}`, asBinary, strings.Repeat("\xff", 9) + "\x01\x00", "impossible length"},
		{"proto JSON", protoType, stateProto, asJSON, `{"name":"Alaska","post_abbr":"AK"}`, ""},
		{"proto JSON in camel case", protoType, stateProto, asJSON, `{"name":"Alaska","postAbbr":"AK"}`, ""},
		{"proto JSON with nothing", protoType, stateProto, asJSON, `{}`, ""},
		{"proto JSON with a field too many", protoType, stateProto, asJSON, `{"nam":"Alaska"}`, `unknown field "nam"`},
		{"proto JSON of another type", protoType, stateProto, asJSON, `{"name":1}`, "name"},
		{"proto JSON that is none", protoType, stateProto, asJSON, `{"name"`, "unexpected EOF"},
		{"proto JSON with a required field", protoType, proto2, asJSON, `{"a":1,"G":{"s":"x"},"m":{"k":{"a":2}}}`, ""},
		{"proto JSON without a required field", protoType, proto2, asJSON, `{"s":"x"}`, "required"},
		{"proto binary", protoType, stateProto, asBinary, "\x0a\x06Alaska\x12\x02AK", ""},
		{"proto binary with an unknown field", protoType, stateProto, asBinary, "\x0a\x06Alaska\x50\x02", ""},
		{"proto binary with nothing", protoType, stateProto, asBinary, "", ""},
		{"proto binary cut off", protoType, stateProto, asBinary, "\x0a\x06Alask", "unexpected EOF"},
		{"proto binary that is none", protoType, stateProto, asBinary, "hello", "not a protocol buffer"},
		{"proto binary that is not UTF-8", protoType, stateProto, asBinary, "\x0a\x01\xff", "UTF-8"},
		{"proto2 binary that is not UTF-8", protoType, proto2, asBinary, "\x08\x01\x2a\x01\xff", ""},
		{"proto2 binary", protoType, proto2, asBinary, "\x08\x01\x12\x02\x08\x01\x1a\x02\x01\x02\x18\x05\x23\x0a\x01s\x24", ""},
		{"proto2 binary without a required field", protoType, proto2, asBinary, "\x18\x05", "required field"},
		{"proto2 binary with a required field below", protoType, proto2, asBinary, "\x08\x01\x12\x00", "required field"},
		{"proto2 binary with required fields in parts", protoType, `message A { optional B b = 1; message B { required int32 x = 1; required int32 y = 2; } }`, asBinary, "\x0a\x02\x08\x01\x0a\x02\x10\x01", ""},
		{"proto binary with a bad packed list", protoType, proto2, asBinary, "\x08\x01\x1a\x01\x80", "unexpected EOF"},
		{"proto binary with a group not closed", protoType, proto2, asBinary, "\x08\x01\x23\x0a\x01s", "unexpected EOF"},
		{"proto binary with a field number too large", protoType, stateProto, asBinary, "\xc5\xc4\xa6\xa8\x30000000", "field number"},
		{"no encoding", avroType, stateAvro, pubsubpb.Encoding_ENCODING_UNSPECIFIED, `{}`, "unknown encoding"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			wantError(t, mustCompile(t, tt.kind, tt.definition).Validate(tt.encoding, []byte(tt.message)), tt.want)
		})
	}
}

func TestE01SchemaRevisionsMustBeCompatible(t *testing.T) {
	record := func(fields string) string { return `{"type":"record","name":"A","fields":[` + fields + `]}` }
	message := func(fields string) string {
		return `syntax = "proto2"; message A { ` + fields + ` message B { optional int32 x = 1; } message C { required int32 x = 1; } enum E { Z = 0; } }`
	}
	tests := []struct {
		name    string
		kind    pubsubpb.Schema_Type
		was, is string
		want    string
	}{
		{"avro the same", avroType, stateAvro, stateAvro, ""},
		{"avro field with a default comes", avroType, record(``), record(`{"name":"a","type":"int","default":0}`), ""},
		{"avro field with a default goes", avroType, record(`{"name":"a","type":"int","default":0}`), record(``), ""},
		{"avro field with a large default comes", avroType, record(``), record(`{"name":"a","type":{"type":"array","items":"int"},"default":[1]}`), ""},
		{"avro field comes", avroType, record(``), record(`{"name":"a","type":"int"}`), "cannot read messages of the old one"},
		{"avro field goes", avroType, record(`{"name":"a","type":"int"}`), record(``), "cannot read messages of the new one"},
		{"avro field changes its type", avroType, record(`{"name":"a","type":"int"}`), record(`{"name":"a","type":"string"}`), "cannot read"},
		{"avro field grows", avroType, record(`{"name":"a","type":"int"}`), record(`{"name":"a","type":"long"}`), "cannot read messages of the new one"},
		{"avro record takes another name", avroType, record(``), `{"type":"record","name":"B","fields":[]}`, "B does not read A"},
		{"avro record takes another namespace", avroType, record(``), `{"type":"record","name":"x.A","fields":[]}`, ""},
		{"avro field takes another name, with an alias", avroType, record(`{"name":"a","type":"int"}`), record(`{"name":"b","type":"int","aliases":["a"]}`), "cannot read messages of the new one: field A.a: it is missing"},
		{"avro field stands for two", avroType, record(`{"name":"a","type":"int"},{"name":"b","type":"int"}`), record(`{"name":"a","type":"int","aliases":["b"]}`), "it stands for two fields: a and b"},
		{"avro fixed changes its size", avroType, `{"type":"fixed","name":"F","size":1}`, `{"type":"fixed","name":"F","size":2}`, "F does not read F"},
		{"avro enum gets a symbol", avroType, `{"type":"enum","name":"E","symbols":["P"]}`, `{"type":"enum","name":"E","symbols":["P","Q"]}`, "the new one: enum E lacks symbol Q"},
		{"avro enum with a default gets a symbol", avroType, `{"type":"enum","name":"E","symbols":["P"],"default":"P"}`, `{"type":"enum","name":"E","symbols":["P","Q"],"default":"P"}`, ""},
		{"avro union gets a branch", avroType, `["null","int"]`, `["null","int","string"]`, "no branch of its union reads string"},
		{"avro decimal changes its scale", avroType, `{"type":"bytes","logicalType":"decimal","precision":3}`, `{"type":"bytes","logicalType":"decimal","precision":3,"scale":1}`, "precision or scale"},
		{"proto the same", protoType, stateProto, stateProto, ""},
		{"proto optional field comes", protoType, message(``), message(`optional int32 a = 1;`), ""},
		{"proto optional field goes", protoType, message(`optional B b = 1;`), message(``), ""},
		{"proto3 field comes", protoType, stateProto, strings.Replace(stateProto, "}", "int32 n = 3; }", 1), ""},
		{"proto required field comes", protoType, message(``), message(`required int32 a = 1;`), "only optional fields"},
		{"proto required field goes", protoType, message(`required int32 a = 1;`), message(``), "removed from"},
		{"proto repeated field comes", protoType, message(``), message(`repeated int32 a = 1;`), "added to"},
		{"proto field changes its type", protoType, message(`optional int32 a = 1;`), message(`optional int64 a = 1;`), "cannot be changed"},
		{"proto field changes its name", protoType, message(`optional int32 a = 1;`), message(`optional int32 b = 1;`), "cannot be changed"},
		{"proto field moves into a oneof", protoType, message(`optional int32 a = 1;`), message(`oneof o { int32 a = 1; }`), "cannot be changed"},
		{"proto field changes its message", protoType, message(`optional B b = 1;`), message(`optional C b = 1;`), "cannot be changed"},
		{"proto field of a message below changes", protoType, message(`optional B b = 1;`), strings.Replace(message(`optional B b = 1;`), "int32 x", "int64 x", 1), "cannot be changed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			mustCompile(t, tt.kind, tt.was)
			mustCompile(t, tt.kind, tt.is)
			wantError(t, Compatible(tt.kind, tt.was, tt.is), tt.want)
		})
	}
}
