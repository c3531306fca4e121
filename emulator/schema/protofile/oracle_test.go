package protofile

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/bufbuild/protocompile/linker"
	"github.com/bufbuild/protocompile/options"
	protoparser "github.com/bufbuild/protocompile/parser"
	"github.com/bufbuild/protocompile/reporter"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/descriptorpb"
)

// oracle returns what another compiler makes of a text. It takes the steps of
// protocompile.Compiler for one file, which imports nothing. It panics at some texts.
func oracle(source string) (_ *descriptorpb.FileDescriptorProto, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	handler := reporter.NewHandler(nil)
	tree, err := protoparser.Parse(fileName, strings.NewReader(source), handler)
	if err != nil {
		return nil, err
	}
	parsed, err := protoparser.ResultFromAST(tree, true, handler)
	if err != nil {
		return nil, err
	}
	if len(parsed.FileDescriptorProto().GetDependency()) > 0 {
		return nil, fmt.Errorf("it imports %q", parsed.FileDescriptorProto().Dependency)
	}
	symbols := new(linker.Symbols)
	file, err := linker.Link(parsed, nil, symbols, handler)
	if err != nil {
		return nil, err
	}
	if _, err := options.InterpretOptions(file, handler); err != nil {
		return nil, err
	}
	if err := file.ValidateOptions(handler, symbols); err != nil {
		return nil, err
	}
	return file.FileDescriptorProto(), handler.Error()
}

// stricter is in our errors for what the oracle accepts.
var stricter = regexp.MustCompile(strings.Join([]string{
	"message sets are not supported",                    // nor does the library support them
	"map enum value must have zero number",              // so says the language; the library checks it
	"using open semantics has conflict",                 // the library checks it whatever the format of JSON is
	"cannot be specified on composite types",            // the same, for a group by its features
	"option: google.protobuf.FieldOptions has no field", // the oracle leaves out default.x and json_name.x
	"has an invalid nested name: .*Entry",               // the message of a map with a name like _1
	"not UTF-8",
	"invalid escape sequence",                // the oracle takes signs among the digits
	"brackets nest deeper",                   // in what it does not read to the end
	"an extension has no json_name",          // the oracle takes an empty one
	"the full names of all that is declared", // the oracle has no limit
}, "|"))

// compare fails unless a text is accepted if the oracle accepts it, with the same
// descriptor, and returns whether it is.
func compare(tb testing.TB, source string) bool {
	tb.Helper()
	want, wantErr := oracle(source)
	_, err := Parse(source)
	switch {
	case err != nil && wantErr == nil && !stricter.MatchString(err.Error()):
		tb.Errorf("refused what the oracle accepts: %v\n%s", err, source)
	case err == nil && wantErr != nil && strings.HasSuffix(wantErr.Error(), "unexpected $end"): // there are only semicolons
		if got, _, _ := parse(source); len(got.MessageType)+len(got.EnumType)+len(got.Service) > 0 {
			tb.Errorf("accepted what the oracle refuses: %v\n%s", wantErr, source)
		}
	case err == nil && wantErr != nil:
		tb.Errorf("accepted what the oracle refuses: %v\n%s", wantErr, source)
	}
	if err != nil || wantErr != nil {
		return false
	}
	got, _, err := parse(source)
	if err != nil {
		tb.Fatal(err)
	}
	if !proto.Equal(got, want) && !strings.Contains(want.String(), "\ufffdEntry") { // what the oracle makes of a map _
		tb.Errorf("%s\n%s", source, cmp.Diff(want, got, protocmp.Transform()))
	}
	return true
}

// Texts with all that the language has.
var everything = []string{
	`syntax = "proto2"; package a.b; option java_package = "x" "y"; option optimize_for = CODE_SIZE;
	message A {
		required int32 x = 1 [default = -5, deprecated = true]; optional float f = 2 [default = inf]; optional bytes y = 3 [default = "a\001\xff\n'\u00e9\U0001f600"];
		repeated group G = 4 { optional E e = 5 [default = P]; } repeated fixed32 p = 6 [packed = true]; extensions 300; extensions 100 to 200 [declaration = { number: 100 full_name: ".a.b.q" type: "int32" }];
		enum E { option allow_alias = true; P = 0; Q = 0; R = -3 [deprecated = true]; reserved -10 to -5, 7, 9 to max; reserved "X"; }
		reserved 50 to 60, 70; reserved "foo", "bar"; oneof o { string s = 11; bytes t = 12; A a = 13; group H = 14 {} message other = 15; } message message {}
		map<string, A.E> m = 20; enum F { Z = 0; } map<int64, F> mf = 22; map<int32, b.A> n = 21; extend A { optional group XG = 300 { optional .a.b.A.XG x = 1; } }
	}
	extend A { optional int32 q = 100; }
	service S { rpc M(A) returns (stream A); rpc N(stream .a.b.A) returns (A) { option deprecated = true; option idempotency_level = IDEMPOTENT; }; option deprecated = false; }`,
	`syntax = "proto3"; // a comment
	message A {
		optional int32 a = 1; optional A b = 2; optional int32 _a = 7; repeated int32 c = 3 [packed = false]; string long_name = 4 [json_name = "ln"]; int64 j = 5 [jstype = JS_STRING]; A l = 6 [lazy = true];
		enum E { E_ZERO = 0; E_ONE = 1; } E e = 8; map<string, E> m = 9; message B { message A {} A a = 1; .A b = 2; } reserved 20 to 25, 27; reserved "zz"; oneof o { int32 oo = 30; string op = 31; }; /**/
		string with_1_digit = 40; string __two = 41; string package = 42; map m2 = 43; message map { map<string, map> m = 1; }
	}`,
	`edition = "2023"; option features = { field_presence: IMPLICIT json_format: LEGACY_BEST_EFFORT }; package p;
	message A {
		string s = 1 [features.utf8_validation = NONE]; A a = 3 [features.message_encoding = DELIMITED]; repeated int32 n = 4 [features.repeated_field_encoding = EXPANDED];
		int32 d = 5 [features.field_presence = EXPLICIT, default = 7]; int32 r = 6 [features.field_presence = LEGACY_REQUIRED]; enum E { option features.enum_type = CLOSED; A1 = 1; }
		map<string, A> m = 7 [features.utf8_validation = NONE]; reserved foo, bar; extensions 100 to max [verification = UNVERIFIED]; E e = 8 [features = { field_presence: EXPLICIT }];
	}
	extend A { repeated A.E x = 100 [features.repeated_field_encoding = PACKED]; }`,
	`message A {
		optional string s = 1 [targets = TARGET_TYPE_FIELD, targets = TARGET_TYPE_FILE, retention = RETENTION_SOURCE, edition_defaults = { edition: EDITION_2023, value: "x" }, feature_support = { edition_introduced: 1000; edition_deprecated: EDITION_2023 deprecation_warning: 'a' "b" }, debug_redact = true];
		extensions 4 to 10 [declaration = {number: 4 reserved: t full_name: ".q" type: ".z"}, declaration = { number: 5, reserved: True }]; optional double d = 2 [default = 1e400]; optional float f = 3 [default = -.5e-3];
		optional uint64 u = 11 [default = 0xFFFFFFFFFFFFFFFF]; optional sint64 i = 12 [default = -9223372036854775808]; optional bool b = 13 [default = true]; optional double n = 14 [default = -nan]; optional fixed32 h = 15 [default = 017]; optional float g = 16 [default = 18446744073709551616];
	}`,
}

// corpus returns texts that import nothing, from the modules of the library and the oracle.
func corpus(tb testing.TB) (texts []string) {
	tb.Helper()
	out, err := exec.CommandContext(tb.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "google.golang.org/protobuf", "github.com/bufbuild/protocompile").Output()
	if err != nil {
		tb.Fatal(err)
	}
	for dir := range strings.FieldsSeq(string(out)) {
		err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".proto") {
				return err
			}
			text, err := os.ReadFile(path)
			if !strings.Contains(string(text), "\nimport ") {
				texts = append(texts, string(text))
			}
			return err
		})
		if err != nil {
			tb.Fatal(err)
		}
	}
	return texts
}

func TestE01ProtoFilesReadAsByTheOracle(t *testing.T) {
	for _, text := range everything {
		if !compare(t, text) {
			_, err := Parse(text)
			t.Errorf("refused: %v\n%s", err, text)
		}
	}
	same := 0
	for _, text := range corpus(t) {
		if compare(t, text) {
			same++
		}
	}
	t.Logf("%d files", same)
	if same < 50 {
		t.Errorf("only %d files could be compared", same)
	}
}

// tokens cuts a text into tokens.
func tokens(tb testing.TB, source string) (words []string) {
	tb.Helper()
	p := &parser{lexer: lexer{source: source}}
	err := p.guard(func() {
		for t := p.lex(); t.kind != end; t = p.lex() {
			words = append(words, source[t.pos:p.offset])
		}
	})
	if err != nil {
		tb.Fatal(err)
	}
	return words
}

// mutate returns a text with one token replaced, left out, doubled or swapped with another.
func mutate(r *rand.Rand, words, others []string) string {
	words = slices.Clone(words)
	i, j := r.IntN(len(words)), r.IntN(len(words))
	switch r.IntN(5) {
	case 0:
		words[i] = ""
	case 1:
		words[i] = words[j]
	case 2:
		words[i] = others[r.IntN(len(others))]
	case 3:
		words[i] += " " + others[r.IntN(len(others))]
	default:
		words[i], words[j] = words[j], words[i]
	}
	return strings.Join(words, " ")
}

func TestE01ProtoFilesWithMistakesReadAsByTheOracle(t *testing.T) {
	var texts [][]string
	var all []string
	for _, text := range everything {
		words := tokens(t, text)
		texts = append(texts, words)
		all = append(all, words...)
	}
	r := rand.New(rand.NewPCG(1, 2))
	accepted := 0
	for range 4000 {
		if compare(t, mutate(r, texts[r.IntN(len(texts))], all)) {
			accepted++
		}
	}
	t.Logf("%d texts are accepted", accepted)
	if accepted < 100 {
		t.Errorf("only %d texts are accepted", accepted)
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range everything {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) { compare(t, text) })
}
