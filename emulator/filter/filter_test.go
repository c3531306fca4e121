package filter

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestE04FilterMatches(t *testing.T) {
	attributes := map[string]string{
		"name": "com", "empty": "", "iana.org/language_tag": "en", "みな": "ü", "a-b_1": "x", "back": "a\\\"\n\tb", "AND": "1",
	}
	tests := []struct {
		name, filter string
		want         bool
	}{
		{"empty filter", ``, true},
		{"attribute is there", `attributes:name`, true},
		{"attribute is not there", `attributes:other`, false},
		{"attribute with an empty value is there", `attributes:empty`, true},
		{"keys are case sensitive", `attributes:Name`, false},
		{"equal", `attributes.name = "com"`, true},
		{"equal without spaces", `attributes.name="com"`, true},
		{"values are case sensitive", `attributes.name = "Com"`, false},
		{"no attribute is not equal to nothing", `attributes.other = ""`, false},
		{"differs", `attributes.name != "org"`, true},
		{"does not differ", `attributes.name != "com"`, false},
		{"what is not there differs", `attributes.other != "com"`, true},
		{"prefix", `hasPrefix(attributes.name, "co")`, true},
		{"prefix is the value", `hasPrefix(attributes.name,"com")`, true},
		{"no prefix", `hasPrefix(attributes.name, "om")`, false},
		{"empty prefix of nothing", `hasPrefix(attributes.other, "")`, false},
		{"not", `NOT attributes:name`, false},
		{"minus", `-attributes:other`, true},
		{"minus after AND", `attributes.name = "com" AND -attributes:other`, true},
		{"not binds tighter than and", `NOT attributes:other AND attributes:name`, true},
		{"not before a parenthesis", `NOT(attributes:other OR attributes:name)`, false},
		{"and", `attributes:name AND attributes:other`, false},
		{"three ands", `attributes:name AND attributes:empty AND attributes:a-b_1`, true},
		{"or", `attributes:other OR attributes:name`, true},
		{"or of none", `attributes:other OR attributes:x`, false},
		{"and of or", `attributes:"iana.org/language_tag" AND (attributes.name = "net" OR attributes.name = "com")`, true},
		{"or of and", `(attributes:x AND attributes:name) OR attributes:empty`, true},
		{"quoted key", `attributes."iana.org/language_tag" = "en"`, true},
		{"quoted key that needs none", `attributes:"name"`, true},
		{"key with - and _", `attributes.a-b_1 = "x"`, true},
		{"key like an operator", `attributes:AND AND attributes.AND = "1"`, true},
		{"unicode escapes", `attributes:"\u307F\u306a"`, true},
		{"long escape", `attributes:"\U0000307f\u306a"`, true},
		{"hexadecimal escape is a character", `attributes."みな" = "\xfc"`, true},
		{"octal escape", `attributes."みな" = "\374"`, true},
		{"escapes", `attributes.back = "a\\\"\n\tb"`, true},
		{"white space all around", " \t\n attributes : name \r\n", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f, err := Parse(tt.filter)
			if err != nil {
				t.Fatal(err)
			}
			if got := f.Match(attributes); got != tt.want {
				t.Errorf("%s: %v, want %v", tt.filter, got, tt.want)
			}
		})
	}
}

func TestE04FilterErrorsNameThePlace(t *testing.T) {
	tests := []struct{ name, filter, want string }{
		{"only space", ` `, "byte 1: got the end, want NOT, -, an opening parenthesis, attributes or hasPrefix"},
		{"value on the left", `"com" = attributes.name`, `byte 0: got "\"", want NOT`},
		{"two keys", `attributes.name = attributes.website`, `byte 18: got "attributes", want a value in double quotes`},
		{"escape without quotes", `attributes:\u307F`, `byte 11: got "\\", want an attribute's name`},
		{"other letters without quotes", `attributes.みな = "ü"`, `byte 11: got "み", want an attribute's name`},
		{"and and or", `attributes:a AND attributes:b OR attributes:c`, `byte 30: got "OR", want parentheses`},
		{"or and and", `(attributes:a OR attributes:b AND attributes:c)`, `byte 30: got "AND", want parentheses`},
		{"incomplete operands", `attributes.name = "com" AND ("net" OR "org")`, `byte 29: got "\"", want NOT`},
		{"lower case and", `attributes:a and attributes:b`, `byte 13: got "and", want AND, OR or the end`},
		{"lower case not", `not attributes:a`, `byte 0: got "not", want NOT`},
		{"word joined to an operator", `attributes:a ANDattributes:b`, `byte 13: got "ANDattributes", want AND, OR or the end`},
		{"not twice", `NOT NOT attributes:a`, `byte 4: got "NOT", want an opening parenthesis`},
		{"other function", `hasSuffix(attributes.a, "b")`, `byte 0: got "hasSuffix", want NOT`},
		{"upper case function", `HASPREFIX(attributes.a, "b")`, `byte 0: got "HASPREFIX"`},
		{"function without a key", `hasPrefix("a", "b")`, `byte 10: got "\"", want attributes`},
		{"function without a dot", `hasPrefix(attributes:a, "b")`, `byte 20: got ":", want a dot`},
		{"function without a comma", `hasPrefix(attributes.a "b")`, `byte 23: got "\"", want a comma`},
		{"function not closed", `hasPrefix(attributes.a, "b"`, `byte 27: got the end, want a closing parenthesis`},
		{"data", `data:a`, `byte 0: got "data"`},
		{"no operator", `attributes.a`, `byte 12: got the end, want = or !=`},
		{"other operator", `attributes.a > "b"`, `byte 13: got ">", want = or !=`},
		{"single quotes", `attributes.a = 'b'`, `byte 15: got "'", want a value in double quotes`},
		{"no key", `attributes:`, `byte 11: got the end, want an attribute's name`},
		{"quote not closed", `attributes.a = "b`, `byte 17: got the end, want the double quote that closes the one at byte 15`},
		{"backslash at the end", `attributes.a = "b\`, `byte 18: got the end, want the rest of an escape`},
		{"unknown escape", `attributes.a = "\q"`, `byte 16: unknown escape`},
		{"short escape", `attributes.a = "\u12"`, `byte 16: bad escape, want 4 digits of base 16`},
		{"half a surrogate pair", `attributes.a = "\ud800"`, `byte 16: bad escape`},
		{"no such character", `attributes.a = "\U00110000"`, `byte 16: bad escape`},
		{"newline in quotes", "attributes.a = \"\n\"", `byte 16: got '\n', want it as an escape`},
		{"not UTF-8", "attributes.a = \"\xff\"", `byte 16: not UTF-8`},
		{"parenthesis not closed", `(attributes:a`, `byte 13: got the end, want AND, OR or a closing parenthesis`},
		{"parenthesis too many", `attributes:a)`, `byte 12: got ")", want AND, OR or the end`},
		{"nested too deep", strings.Repeat("(", 33) + `attributes:a`, "nest deeper than 32"},
		{"too long", `attributes:` + strings.Repeat("a", 246), "257 bytes, at most 256"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Parse(tt.filter)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %s", err, tt.want)
			}
		})
	}
	if _, err := Parse(`attributes:` + strings.Repeat("a", 245)); err != nil {
		t.Errorf("a filter of 256 bytes: %v", err)
	}
	if _, err := Parse(strings.Repeat("(", 32) + `attributes:a` + strings.Repeat(")", 32)); err != nil {
		t.Errorf("32 parentheses: %v", err)
	}
	if _, err := parse(strings.Repeat("(attributes:a) OR ", 40) + `attributes:a`); err != nil {
		t.Errorf("many parentheses side by side: %v", err)
	}
}

func TestE04FilterPrintsItsNormalForm(t *testing.T) {
	tests := []struct{ name, filter, want string }{
		{"spaces", `attributes.a="b"   AND attributes:c`, `attributes.a = "b" AND attributes:c`},
		{"minus", `-attributes:"a"`, `NOT attributes:a`},
		{"parentheses that change nothing", `((attributes:a) OR (-attributes:b))`, `attributes:a OR NOT attributes:b`},
		{"parentheses that are needed", `attributes:a AND (attributes:b OR attributes:c)`, `attributes:a AND (attributes:b OR attributes:c)`},
		{"not of a group", `NOT (attributes:b OR attributes:c)`, `NOT (attributes:b OR attributes:c)`},
		{"not of not", `NOT (NOT attributes:b)`, `NOT (NOT attributes:b)`},
		{"escapes", `hasPrefix(attributes."a.b","\u00e9\a\"\\")`, `hasPrefix(attributes."a.b", "é\x07\"\\")`},
		{"nothing", ``, ``},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f, err := Parse(tt.filter)
			if err != nil {
				t.Fatal(err)
			}
			if got := f.String(); got != tt.want {
				t.Errorf("printed %s, want %s", got, tt.want)
			}
		})
	}
}

func TestE04FilterMatchAllocatesNothing(t *testing.T) {
	f, err := Parse(`(attributes.a = "x" OR hasPrefix(attributes."b.c", "p")) AND NOT attributes:d AND attributes.e != "z"`)
	if err != nil {
		t.Fatal(err)
	}
	attributes := map[string]string{"b.c": "prefix", "e": "y"}
	if n := testing.AllocsPerRun(100, func() {
		if !f.Match(attributes) {
			t.Error("no match")
		}
	}); n != 0 {
		t.Errorf("%v allocations a match", n)
	}
}

// A condition is drawn together with what it must answer, computed without the
// parser or its tree.
type condition struct {
	text string
	want func(map[string]string) bool
}

func drawCondition(t *rapid.T, depth int) condition {
	key := rapid.SampledFrom([]string{"a", "b", "c-1"}).Draw(t, "key")
	value := rapid.SampledFrom([]string{"", "x", "xy", `q"`}).Draw(t, "value")
	quoted := `"` + strings.ReplaceAll(value, `"`, `\"`) + `"`
	kind := rapid.IntRange(0, 6).Draw(t, "kind")
	if depth == 0 {
		kind %= 4
	}
	switch kind {
	case 0:
		return condition{"attributes:" + key, func(m map[string]string) bool { _, ok := m[key]; return ok }}
	case 1:
		return condition{"attributes." + key + " = " + quoted, func(m map[string]string) bool { v, ok := m[key]; return ok && v == value }}
	case 2:
		return condition{"attributes." + key + " != " + quoted, func(m map[string]string) bool { v, ok := m[key]; return !ok || v != value }}
	case 3:
		return condition{"hasPrefix(attributes." + key + ", " + quoted + ")", func(m map[string]string) bool {
			v, ok := m[key]
			return ok && len(v) >= len(value) && v[:len(value)] == value
		}}
	case 4:
		a := drawCondition(t, depth-1)
		return condition{"NOT (" + a.text + ")", func(m map[string]string) bool { return !a.want(m) }}
	default:
		a, b := drawCondition(t, depth-1), drawCondition(t, depth-1)
		if kind == 5 {
			return condition{"(" + a.text + ") AND (" + b.text + ")", func(m map[string]string) bool { return a.want(m) && b.want(m) }}
		}
		return condition{"(" + a.text + ") OR (" + b.text + ")", func(m map[string]string) bool { return a.want(m) || b.want(m) }}
	}
}

func TestE04FilterMatchesWhatItSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawCondition(t, 3)
		f, err := parse(c.text)
		if err != nil {
			t.Fatalf("%s: %v", c.text, err)
		}
		attributes := rapid.MapOf(rapid.SampledFrom([]string{"a", "b", "c-1"}), rapid.SampledFrom([]string{"", "x", "xyz", `q"`})).Draw(t, "attributes")
		if got, want := f.Match(attributes), c.want(attributes); got != want {
			t.Fatalf("%s of %q: %v, want %v", c.text, attributes, got, want)
		}
	})
}

// probes returns sets of attributes that tell filters on n's keys apart.
func (n *node) probes() []map[string]string {
	sets := []map[string]string{{}}
	if n == nil {
		return sets
	}
	if n.op < opNot {
		return append(sets, map[string]string{n.key: n.value}, map[string]string{n.key: n.value + "x"}, map[string]string{n.key: ""})
	}
	all := map[string]string{}
	for _, child := range n.children {
		for _, set := range child.probes() {
			sets = append(sets, set)
			maps.Copy(all, set)
			sets = append(sets, maps.Clone(all))
		}
	}
	return slices.Clip(sets)
}

func FuzzParse(f *testing.F) {
	f.Add(`attributes:"iana.org/language_tag" AND (attributes.name = "net" OR attributes.name != "org")`)
	f.Add(`-hasPrefix(attributes.a-b, "\u307F\xff\n\"")`)
	f.Add(`NOT (attributes:a AND -attributes:b)`)
	f.Add(`((((`)
	f.Fuzz(func(t *testing.T, s string) {
		parsed, err := Parse(s)
		if err != nil {
			return
		}
		printed := parsed.String()
		again, err := parse(printed)
		if err != nil {
			t.Fatalf("%q was printed as %q: %v", s, printed, err)
		}
		if again.String() != printed {
			t.Errorf("%q was printed as %q, and that as %q", s, printed, again)
		}
		for _, attributes := range parsed.root.probes() {
			if parsed.Match(attributes) != again.Match(attributes) {
				t.Errorf("%q and %q differ on %q", s, printed, attributes)
			}
		}
	})
}
