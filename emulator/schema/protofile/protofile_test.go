package protofile

import (
	"fmt"
	"strings"
	"testing"
)

func TestE01ProtoErrorsHaveAPlace(t *testing.T) {
	const proto3, edition = `syntax = "proto3"; `, `edition = "2023"; `
	tests := []struct{ name, text, want string }{
		{"place on a later line", "message A {\n\té int32 a = 1;\n}", `schema.proto:2:2: invalid character 'é'`},
		{"place behind letters of two bytes", "/* éé */ x", `schema.proto:1:10: syntax error: unexpected "x", want message`},
		{"end of the text", `message A {`, `schema.proto:1:12: syntax error: unexpected the end, want a name`},
		{"string that does not end", `option java_package = "x`, `1:23: the string does not end`},
		{"line in a string", "option java_package = \"x\n\";", `invalid character '\n' in a string`},
		{"escape that is none", `option java_package = "\y";`, `1:24: invalid escape sequence`},
		{"octal escape too large", `option java_package = "\777";`, `invalid escape sequence \777`},
		{"unicode escape too short", `option java_package = "\u12";`, `invalid escape sequence`},
		{"comment that does not end", `message A {} /* x`, `1:14: the comment does not end`},
		{"zero in a comment", "message A {} // \x00", `invalid character '\x00'`},
		{"number with letters", `message A { optional int32 a = 1a; }`, `invalid number 1a`},
		{"octal number that is none", `message A { optional int32 a = 09; }`, `invalid number 09`},
		{"text that is not UTF-8", "message A {} // \xff", `not UTF-8`},
		{"unknown syntax", `syntax = "proto4";`, `1:10: unknown syntax "proto4"`},
		{"unknown edition", `edition = "2024";`, `1:11: unknown edition "2024"`},
		{"import", proto3 + `import "a.proto";`, `1:20: imports are not supported`},
		{"two packages", `package a; package b;`, `there is a package already`},
		{"long package", `package ` + strings.Repeat("a", 512) + `;`, `the package is too long`},
		{"field without a number", `message A { optional int32 a; }`, `unexpected ";", want "="`},
		{"field number 0", `message A { optional int32 a = 0; }`, `1:32: a number from 1 to 536870911`},
		{"field number that is reserved", `message A { optional int32 a = 19000; }`, `numbers from 19000 to 19999`},
		{"field number twice", `message A { optional int32 a = 1; optional int32 b = 1; }`, `1:50: a and b have the same number 1`},
		{"field name twice", `message A { optional int32 a = 1; optional int32 a = 2; }`, `1:50: a is declared already`},
		{"value that has the name of a message", `message A { enum E { B = 0; } message B {} }`, `B is declared already; the values of an enum`},
		{"field without a label", `message A { int32 a = 1; }`, `1:13: the field has no label`},
		{"required field of proto3", proto3 + `message A { required int32 a = 1; }`, `only fields of messages of proto2 can be required`},
		{"optional field of an edition", edition + `message A { optional int32 a = 1; }`, `editions have no label optional`},
		{"label in a oneof", `message A { oneof o { optional int32 a = 1; } }`, `unexpected "optional"`},
		{"empty oneof", `message A { oneof o { } }`, `oneof o has no fields`},
		{"empty enum", `enum E { }`, `enum E has no values`},
		{"empty extend", `message A { extensions 1; } extend A { }`, `unexpected "}", want an extension`},
		{"group of proto3", proto3 + `message A { repeated group G = 1 {} }`, `only proto2 has groups`},
		{"group without a capital letter", `message A { optional group g = 1 {} }`, `does not begin with a capital letter`},
		{"group without a label", `message A { group G = 1 {} }`, `a group has a label`},
		{"map with a key of floats", `message A { map<float, int32> m = 1; }`, `"float" cannot be the key of a map`},
		{"map that is repeated", `message A { repeated map<int32, int32> m = 1; }`, `unexpected "<"`},
		{"map without a letter in its name", `message A { map<int32, int32> _ = 1; optional A a = 2; }`, ``},
		{"entry of a map elsewhere", `message A { map<int32, int32> m = 1; optional MEntry e = 2; }`, `MEntry is an entry of a map`},
		{"unknown type", `message A { optional b.C a = 1; }`, `1:22: unknown type b.C`},
		{"type that is a field", `message A { optional int32 a = 1; optional a b = 2; }`, `a is no message or enum`},
		{"type hidden by a message further in", `package x; message A { message x {} optional x.A a = 1; }`, `unknown type x.A`},
		{"method with an enum", `enum E { Z = 0; } service S { rpc M(E) returns (E); }`, `1:37: E is no message`},
		{"extension out of range", `message A { extensions 2; } extend A { optional int32 a = 1; }`, `schema.proto: extension field "a" extends "A" with non-extension field number: 1`},
		{"extension twice", `message A { extensions 1; } extend A { optional int32 a = 1; optional int32 b = 1; }`, `a and b have the same number 1`},
		{"extensions of proto3", proto3 + `message A { extensions 1; }`, `proto3 has no extensions`},
		{"range that ends before it begins", `message A { reserved 5 to 4; }`, `1:22: the range ends before it begins`},
		{"ranges that overlap", `message A { reserved 1 to 4, 4; }`, `overlap`},
		{"reserved name that is none", `message A { reserved "1"; }`, `"1" is no name`},
		{"reserved name twice", `message A { reserved "a"; reserved "a"; }`, `the name "a" is reserved already`},
		{"reserved word of proto2", `message A { reserved a; }`, `unexpected "a", want a string`},
		{"reserved string of an edition", edition + `message A { reserved "a"; }`, `unexpected a string, want a name`},
		{"default of proto3", proto3 + `message A { int32 a = 1 [default = 1]; }`, `proto3 has no defaults`},
		{"default of a list", `message A { repeated int32 a = 1 [default = 1]; }`, `a repeated field has no default`},
		{"default of a message", `message A { optional A a = 1 [default = 1]; }`, `a message has no default`},
		{"default of another type", `message A { optional int32 a = 1 [default = "1"]; }`, `1:45: the value is not of type int32`},
		{"default out of range", `message A { optional int32 a = 1 [default = 2147483648]; }`, `the value is not of type int32`},
		{"default that an enum does not have", `message A { enum E { Z = 0; } optional E a = 1 [default = Y]; }`, `invalid default`},
		{"default twice", `message A { optional int32 a = 1 [default = 1, default = 2]; }`, `option default is set already`},
		{"unknown option", `message A { optional int32 a = 1 [x = 1]; }`, `1:35: unknown option: google.protobuf.FieldOptions has no field x`},
		{"custom option", `message A { option (x.y).z = 1; }`, `1:20: unknown extension x.y`},
		{"option twice", `message A { option deprecated = true; option deprecated = true; }`, `option deprecated is set already`},
		{"option of another type", `message A { option deprecated = 1; }`, `the value is not of type bool`},
		{"option with a value that is none", `option optimize_for = FAST;`, `the value is not one of SPEED, CODE_SIZE, LITE_RUNTIME`},
		{"option of a message that is none", `option optimize_for.x = 1;`, `optimize_for is no message`},
		{"option of all options", `option uninterpreted_option = {};`, `uninterpreted_option cannot be set`},
		{"map_entry", `message A { option map_entry = true; }`, `use the type map`},
		{"message set", `message A { option message_set_wire_format = true; extensions 4 to max; }`, `message sets are not supported`},
		{"feature of proto3", proto3 + `option features.field_presence = EXPLICIT;`, `only editions have features`},
		{"feature of a later edition", edition + `option features.enforce_naming_style = STYLE2024;`, `edition 2023 does not have this`},
		{"feature at another place", edition + `message A { option features.enum_type = OPEN; int32 a = 1 [features.enum_type = OPEN]; }`, `option enum_type cannot be set here`},
		{"packed of an edition", edition + `message A { repeated int32 a = 1 [packed = true]; }`, `editions have no option packed`},
		{"packed strings", `message A { repeated string a = 1 [packed = true]; }`, `1:29: field a: option packed is for`},
		{"literal without a colon", edition + `option features = { field_presence EXPLICIT };`, `unexpected "EXPLICIT", want ":"`},
		{"the same name in JSON", proto3 + `message A { int32 a_b = 1; int32 aB = 2; }`, `fields a_b and aB have the same name "aB" in JSON`},
		{"the same name in JSON, as given", `message A { optional int32 a = 1; optional int32 b = 2 [json_name = "a"]; }`, `have the same name "a" in JSON`},
		{"the same name in JSON of proto2", `message A { optional int32 a_b = 1; optional int32 aB = 2; }`, ``},
		{"values with the same name in JSON", edition + `enum E { option features.enum_type = CLOSED; E_A = 0; A = 1; }`, `values E_A and A of enum E have the same name "A" in JSON`},
		{"enum of proto3 that begins with 1", proto3 + `enum E { A = 1; }`, `must have zero number for the first value`},
		{"values with the same number", `enum E { A = 1; B = 1; }`, `conflicting non-aliased values`},
		{"messages nested deep", strings.Repeat("message A {", 32) + strings.Repeat("}", 32), `1:350: messages nest deeper than 31`},
		{"brackets nested deep", strings.Repeat("message A {", 33) + strings.Repeat("}", 33), `brackets nest deeper than 32`},
		{"declaration without a name", `message A { extensions 1 [declaration = { number: 1 }]; }`, `needs full_name and type, or reserved`},
		{"declaration with a number out of range", `message A { extensions 1 [declaration = { number: 2 reserved: true }]; }`, `needs a number of its own in the range, and not 2`},
		{"extension that is not declared", `message A { extensions 1 to 2 [verification = DECLARATION]; } extend A { optional int32 a = 1; }`, `the extension is not declared`},
		{"extension of another type than declared", `message A { extensions 1 [declaration = { number: 1 full_name: ".a" type: "string" }]; } extend A { optional int32 a = 1; }`, `the extension is not as it is declared`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			compare(t, tt.text)
			_, err := Parse(tt.text)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}

// The full names of what is declared grow with the square of the text.
func TestE01ProtoFullNamesAreBounded(t *testing.T) {
	var b strings.Builder
	for range 30 {
		b.WriteString("message " + strings.Repeat("N", 5000) + "{")
	}
	for i := range 5000 {
		fmt.Fprintf(&b, "optional int32 a%d=%d;", i, i+1)
	}
	b.WriteString(strings.Repeat("}", 30))
	_, err := Parse(b.String())
	if want := "the full names of all that is declared have more than"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %q", err, want)
	}
}
