package schema

import (
	"strings"
	"testing"
	"unicode/utf8"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/twmb/avro"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/dynamicpb"
)

func FuzzCompile(f *testing.F) {
	f.Add(true, stateAvro)
	f.Add(true, namespaces)
	f.Add(true, everything)
	f.Add(true, nested(3, `,"default":{}`))
	f.Add(true, spread(3))
	f.Add(true, `{"type":"record","name":"R","fields":[{"name":"a","type":"bytes","logicalType":"decimal","precision":3,"order":"ignore","aliases":["b"],"doc":"x"},{"name":"x","type":"enum","symbols":["A"],"default":"A"}]}`)
	f.Add(true, `{"type":"record","name":"R","fields":[{"name":"a","type":["null","R",{"type":"array","items":"R"}],"default":{"a":null}},{"name":"d","type":"double","default":"1"},{"name":"i","type":"int","default":1e1},{"name":"y","type":"bytes","default":"\u00ff"}]}`)
	f.Add(true, `{"type":"fixed","name":"x.F","namespace":"y","size":"3","logicalType":"decimal","precision":3}`)
	f.Add(false, stateProto)
	f.Add(false, `syntax = "proto2"; message A { required A a = 1; map<string, A> m = 2; optional group G = 3 { } extensions 100 to max; oneof o { bytes b = 4; } }`)
	f.Add(false, `edition = "2023"; message A { option (x).y = { a: [1, {b: 2}] }; enum E { Z = 0 [deprecated = true]; } reserved "x", "y"; }`)
	f.Fuzz(func(t *testing.T, isAvro bool, definition string) {
		kind := protoType
		if isAvro {
			kind = avroType
			agreed(t, definition)
		}
		s, err := Compile(kind, definition)
		if err != nil {
			if !utf8.ValidString(err.Error()) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %q", err)
			}
			return
		}
		if err := Compatible(kind, definition, definition); err != nil {
			t.Errorf("%q is not compatible with itself: %v", definition, err)
		}
		for _, message := range []string{"", "{}", "\x00", `{"a":{"a":null}}`, "null"} {
			_ = s.Validate(asJSON, []byte(message))
			_ = s.Validate(asBinary, []byte(message))
		}
	})
}

// FuzzValidate holds what is accepted against what the libraries make of it.
func FuzzValidate(f *testing.F) {
	avros := []string{
		stateAvro, everything, namespaces, nested(3, ""),
		`{"type":"record","name":"R","fields":[{"name":"a","type":["null","R",{"type":"array","items":"R"}]}]}`,
	}
	protos := []string{
		stateProto,
		`syntax = "proto2"; message A { required int32 a = 1; optional A sub = 2; repeated sint64 many = 3; optional group G = 4 { optional string s = 1; } optional string s = 5; map<string, A> m = 6; repeated fixed32 f = 7; repeated bool b = 8 [packed = true]; }`,
		`syntax = "proto3"; message A { repeated A a = 1; map<int32, A> m = 2; oneof o { string s = 3; bytes b = 4; } enum E { Z = 0; } repeated E e = 5; double d = 6; map<string, string> t = 7; }`,
		`edition = "2023"; message A { string s = 1 [features.utf8_validation = NONE]; string t = 2; A a = 3 [features.message_encoding = DELIMITED]; repeated int32 n = 4 [features.repeated_field_encoding = EXPANDED]; }`,
	}
	compiled := make(map[string]*Schema)
	for i, definition := range append(avros, protos...) {
		kind := avroType
		if i >= len(avros) {
			kind = protoType
		}
		compiled[definition] = mustCompile(f, kind, definition)
	}
	for i := range uint8(9) {
		f.Add(i, true, []byte(everythingJSON))
		f.Add(i, false, []byte("\x08\x01\x12\x02\x08\x01\x1a\x02\x01\x02\x18\x05\x23\x0a\x01s\x24"))
		f.Add(i, false, []byte("\x0cAlaska\x04AK"))
		f.Add(i, false, []byte("\x1b\x0a\x01\xff\x12\x01\xff\x1c"))
	}
	f.Fuzz(func(t *testing.T, which uint8, isJSON bool, message []byte) {
		encoding := asBinary
		if isJSON {
			encoding = asJSON
		}
		if i := int(which) % 9; i < len(avros) {
			err := compiled[avros[i]].Validate(encoding, message)
			holdAgainstAvro(t, avros[i], encoding, message, err)
		} else {
			s := compiled[protos[i-len(avros)]]
			holdAgainstProto(t, s, encoding, message, s.Validate(encoding, message))
		}
	})
}

// holdAgainstAvro fails when the library cannot read what was accepted. It reads
// more than that: values of unions without their type, and missing fields.
func holdAgainstAvro(t *testing.T, definition string, encoding pubsubpb.Encoding, message []byte, err error) {
	t.Helper()
	if err != nil {
		return
	}
	s, err := avro.Parse(definition)
	if err != nil {
		t.Fatal(err)
	}
	var v any
	var rest []byte
	if encoding == asJSON {
		err = s.DecodeJSON(message, &v)
	} else {
		rest, err = s.Decode(message, &v)
	}
	if err != nil || len(rest) > 0 {
		t.Errorf("accepted %q, which the library cannot read: %v, %d bytes left", message, err, len(rest))
	}
}

// holdAgainstProto fails unless a binary message is accepted exactly if the
// library accepts it.
func holdAgainstProto(t *testing.T, s *Schema, encoding pubsubpb.Encoding, message []byte, err error) {
	t.Helper()
	if encoding == asJSON || err != nil && strings.Contains(err.Error(), "nests deeper") {
		return
	}
	m := dynamicpb.NewMessage(s.checker.(protoChecker).message)
	if want := proto.Unmarshal(message, m); (err == nil) != (want == nil) {
		t.Errorf("%q: %v, the library says %v", message, err, want)
	}
}
