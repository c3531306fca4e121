package kinds

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"
)

const allTypes = `
[k]
command = ["prog", "{params.dpi}"]
[k.params.title]
type = "string"
pattern = "[a-z ]*"
max_length = 10
[k.params.dpi]
type = "integer"
default = 60
max = 600
[k.params.scale]
type = "number"
min = -1.5
[k.params.grey]
type = "boolean"
default = false
[k.params.mode]
type = "enum"
values = ["fast", "best"]
required = true
`

func TestK03ParamsAreCheckedAndCompleted(t *testing.T) {
	k := parse(t, allTypes).Get("k")
	for _, tt := range []struct{ name, raw, want, err string }{
		{"defaults are filled in", `{"mode":"fast"}`, `{"dpi":60,"grey":false,"mode":"fast"}`, ""},
		{"in the order of the file, in one form", ` {"mode":"best", "grey":true,"scale":-0.50e0 ,"dpi":3.0e2,"title":"\u0061 b"} `, `{"title":"a b","dpi":300,"scale":-0.5,"grey":true,"mode":"best"}`, ""},
		{"a whole number may have a point and zeros", `{"mode":"fast","dpi":7.000}`, `{"dpi":7,"grey":false,"mode":"fast"}`, ""},
		{"nothing, where one is required", "", "", `params.mode is missing: want "fast" or "best"`},
		{"null, where one is required", "null", "", `params.mode is missing: want "fast" or "best"`},
		{"a number above its limit", `{"mode":"fast","dpi":601}`, "", "params.dpi is 601: must be at most 600"},
		{"a number below its limit", `{"mode":"fast","scale":-2}`, "", "params.scale is -2: must be at least -1.5"},
		{"a negative number that would be an option", `{"mode":"fast","dpi":-1}`, "", "params.dpi is -1: it must not be negative, because it begins an argument"},
		{"half a number", `{"mode":"fast","dpi":1.5}`, "", "params.dpi is 1.5: want a whole number"},
		{"a number beyond what JSON keeps", `{"mode":"fast","dpi":9007199254740992.0}`, "", "params.dpi is 9007199254740992.0: must be from -9007199254740991 to 9007199254740991"},
		{"a number beyond all", `{"mode":"fast","scale":1e999}`, "", "params.scale is 1e999, which is too large"},
		{"a number of many digits", `{"mode":"fast","scale":1` + strings.Repeat("0", 64) + `}`, "", "params.scale is a number of 65 characters: at most 64 are allowed"},
		{"a string for a number", `{"mode":"fast","dpi":"60"}`, "", `params.dpi is the string "60": want a whole number`},
		{"a number for a string", `{"mode":"fast","title":60}`, "", "params.title is the number 60: want a string"},
		{"a string for truth", `{"mode":"fast","grey":"true"}`, "", `params.grey is the string "true": want true or false`},
		{"null for a value", `{"mode":null}`, "", `params.mode is null: want "fast" or "best"`},
		{"an object for a value", `{"mode":"fast","title":{"a":[1]}}`, "", "params.title is an object: want a string"},
		{"a string that is too long", `{"mode":"fast","title":"aaaaaaaaaaa"}`, "", "params.title has 11 bytes: at most 10 are allowed"},
		{"a string that matches only in part", `{"mode":"fast","title":"a1"}`, "", `params.title is "a1": must match [a-z ]*`},
		{"a line end does not end a match", `{"mode":"fast","title":"a\n"}`, "", `params.title is "a\n": must match [a-z ]*`},
		{"a NUL byte", `{"mode":"fast","title":"a\u0000"}`, "", "params.title holds a NUL byte, which a program cannot be given"},
		{"a misspelt value", `{"mode":"fats"}`, "", `params.mode is "fats": do you mean "fast"?`},
		{"a value that is like none", `{"mode":"slow and thorough"}`, "", `params.mode is "slow and thorough": want "fast" or "best"`},
		{"a misspelt name", `{"mode":"fast","dip":60}`, "", "params.dip is unknown: do you mean dpi?"},
		{"a name that is like none", `{"mode":"fast","resolution":60}`, "", "params.resolution is unknown: want title, dpi, scale, grey or mode"},
		{"a name that is given twice", `{"mode":"fast","dpi":60,"dpi":70}`, "", "params.dpi is given twice"},
		{"a name that is given twice in another spelling", `{"mode":"fast","dpi":60,"d\u0070i":60}`, "", "params.dpi is given twice"},
		{"all mistakes at once", `{"dpi":7.5,"grey":0,"mode":1}`, "", `params.dpi is 7.5: want a whole number; params.grey is the number 0: want true or false; params.mode is the number 1: want "fast" or "best"`},
		{"a list", `[]`, "", "params are a list: want an object"},
		{"a string", `"{}"`, "", "params are a string: want an object"},
		{"half an object", `{"mode":"fast"`, "", "params are not JSON: unexpected EOF"},
		{"two objects", `{"mode":"fast"} {}`, "", "params have something behind their end"},
		{"no JSON", `mode=fast`, "", "params are not JSON: "},
		{"bytes that are not UTF-8", "{\"mode\":\"fast\",\"title\":\"\xff\"}", "", "params are not JSON: invalid UTF-8"},
		{"half of a pair of surrogates", `{"mode":"fast","title":"\ud800"}`, "", "params are not JSON: invalid "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := k.CheckParams(json.RawMessage(tt.raw))
			wrong := (*ParamsError)(nil)
			if string(got) != tt.want || (tt.err == "") != (err == nil) || err != nil && (!errors.As(err, &wrong) || !strings.HasPrefix(err.Error(), tt.err)) {
				t.Errorf("got %s, %v, want %s, %s", got, err, tt.want, tt.err)
			}
		})
	}
}

func TestK03AKindWithoutParamsTakesNone(t *testing.T) {
	k := parse(t, kind()).Get("k")
	for _, raw := range []string{"", "{}", "null"} {
		if got, err := k.CheckParams([]byte(raw)); err != nil || string(got) != "{}" {
			t.Errorf("got %s, %v", got, err)
		}
	}
	if _, err := k.CheckParams([]byte(`{"dpi":1}`)); err == nil || err.Error() != "params.dpi is unknown: k has no params" {
		t.Errorf("got %v", err)
	}
}

// TestK03HostileParamsCostLittle counts allocations, which do not depend on how busy the machine
// is.
func TestK03HostileParamsCostLittle(t *testing.T) {
	k := parse(t, allTypes).Get("k")
	many := strings.Builder{}
	for i := range 1_000_000 {
		fmt.Fprintf(&many, `,"k%d":0`, i)
	}
	keys := "{" + many.String()[1:] + "}"
	for _, tt := range []struct{ name, raw, err string }{
		{"a million keys", keys, "params are 11888891 bytes long: at most 262144 are allowed"},
		{"as many keys as fit", keys[:MaxParams-10] + `"x":0}`, "params.k0 is unknown"},
		{"one key as often as it fits", "{" + strings.Repeat(`"dpi":1,`, MaxParams/8-8) + `"dpi":1}`, "params.dpi is given twice; params.dpi is given twice"},
		{"a megabyte", `{"title":"` + strings.Repeat("a", 1<<20) + `"}`, "params are 1048588 bytes long"},
		{"as much as fits", `{"title":"` + strings.Repeat("a", MaxParams-20) + `"}`, "params.title has 262124 bytes: at most 10 are allowed"},
		{"a value that is like none, as long as it can be", `{"mode":"` + strings.Repeat("a", MaxParams-20) + `"}`, `params.mode is "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa": want`},
		{"a name as long as it can be", `{"` + strings.Repeat("a", MaxParams-20) + `":1}`, `params."aaaaaaaaa`},
		{"lists in lists", `{"title":` + strings.Repeat("[", MaxParams-20), "params.title is a list: want a string; params are not JSON: "},
		{"objects in objects", strings.Repeat(`{"title":`, MaxParams/10), "params.title is an object: want a string; params are not JSON: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var err error
			allocations := testing.AllocsPerRun(1, func() { _, err = k.CheckParams([]byte(tt.raw)) })
			wrong := (*ParamsError)(nil)
			if !errors.As(err, &wrong) || len(wrong.Errors) > 10 || !strings.HasPrefix(err.Error(), tt.err) || len(err.Error()) > 2000 {
				t.Errorf("got %.300v, want %s", err, tt.err)
			}
			if allocations > 500 {
				t.Errorf("took %v allocations", allocations)
			}
		})
	}
}

func TestK03TextBecomesAValueOfItsType(t *testing.T) {
	k := parse(t, allTypes).Get("k")
	for _, tt := range []struct{ name, text, want, err string }{
		{"title", "a \"b\"", `"a \"b\""`, ""},
		{"title", "60", `"60"`, ""},
		{"title", "\xff", "", "params.title is not UTF-8"},
		{"dpi", "300", "300", ""},
		{"dpi", " 3e2", "300", ""},
		{"dpi", "many", "", `params.dpi is "many": want a whole number`},
		{"dpi", "1.5", "", "params.dpi is 1.5: want a whole number"},
		{"dpi", "0x10", "", `params.dpi is "0x10": want a whole number`},
		{"dpi", "", "", `params.dpi is "": want a whole number`},
		{"dpi", "NaN", "", `params.dpi is "NaN": want a whole number`},
		{"scale", "-.5", "", `params.scale is "-.5": want a number`},
		{"scale", "0.5", "0.5", ""},
		{"grey", "true", "true", ""},
		{"grey", "yes", "", `params.grey is "yes": want true or false`},
		{"mode", "fast", `"fast"`, ""},
		{"mod", "fast", "", "params.mod is unknown: do you mean mode?"},
	} {
		got, err := k.ParseParam(tt.name, tt.text)
		if string(got) != tt.want || (tt.err == "") != (err == nil) || err != nil && err.Error() != tt.err {
			t.Errorf("%s=%s: got %s, %v, want %s, %s", tt.name, tt.text, got, err, tt.want, tt.err)
		}
	}
}

// fataler is a test, or one run of a property.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

func compileSchema(t fataler, k *Kind) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(k.Schema()))
	if err != nil {
		t.Fatalf("%s: %v", k.Schema(), err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	if err := c.AddResource("params.json", doc); err != nil {
		t.Fatalf("%s: %v", k.Schema(), err)
	}
	schema, err := c.Compile("params.json")
	if err != nil {
		t.Fatalf("%s: %v", k.Schema(), err)
	}
	return schema
}

func validates(t fataler, schema *jsonschema.Schema, raw []byte) bool {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return schema.Validate(doc) == nil
}

func TestK03TheSchemaSaysWhatTheFileSays(t *testing.T) {
	const want = `{"type":"object","properties":{` +
		`"title":{"type":"string","maxLength":10,"pattern":"^(?:[a-z ]*)$","not":{"pattern":"^-|\\x00"}},` +
		`"dpi":{"type":"integer","default":60,"minimum":0,"maximum":600},` +
		`"scale":{"type":"number","minimum":-1.5},` +
		`"grey":{"type":"boolean","default":false},` +
		`"mode":{"type":"string","enum":["fast","best"]}},"required":["mode"],"additionalProperties":false}`
	if got := string(parse(t, allTypes).Get("k").Schema()); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := string(parse(t, kind()).Get("k").Schema()); got != `{"type":"object","properties":{},"additionalProperties":false}` {
		t.Errorf("got %s", got)
	}
}

func TestK03PatternsThatOnlyGoReadsAreLeftOutOfTheSchema(t *testing.T) {
	for pattern, portable := range map[string]bool{
		`[a-z]+`: true, `a|b`: true, `(?:a){2,3}\d\.x*?`: true, `[^\w\-]`: true, `a{2,}`: true, `[\d.]`: true, `\$\^\/`: true, `[()]`: true, `a\b`: true,
		`(?i)a`: false, `(?P<n>a)`: false, `\pL`: false, `[[:alpha:]]`: false, `\Aa\z`: false, `\Q.\E`: false, `\s`: false, `\-`: false, `a{,3}`: false, `]`: false,
		`}`: false, `[]a]`: false, `é`: false, `\x41`: false, `[\w-.]`: false, `^*`: false, `\_`: false, `[^]a]`: false,
	} {
		if isPortable(pattern) != portable {
			t.Errorf("%s: portable %t", pattern, !portable)
		}
	}
}

// TestK03TheSchemaAcceptsWhatIsAccepted compares both on random kinds and random values. Texts
// are ASCII, of which bytes and characters are one.
func TestK03TheSchemaAcceptsWhatIsAccepted(t *testing.T) {
	names := []string{"a", "b", "c"}
	scalar := rapid.OneOf(
		rapid.SampledFrom([]string{`null`, `true`, `false`, `{}`, `[1]`, `0`, `-0`, `-1`, `1`, `2.0`, `1.5`, `-2.5`, `1e1`, `9007199254740991`, `9007199254740992`, `-9007199254740993`}),
		rapid.Map(rapid.IntRange(-20, 20), func(n int) string { return fmt.Sprint(n) }),
		rapid.Map(rapid.OneOf(rapid.SampledFrom([]string{"", "a", "ab", "-a", "a-b", "a\nb", "\x00", "a1", "\n"}), rapid.StringMatching(`[a-c\-]{0,8}`)), func(s string) string {
			text, err := json.Marshal(s)
			if err != nil {
				panic(err)
			}
			return string(text)
		}),
	)
	rapid.Check(t, func(t *rapid.T) {
		k := randomKind(t, names)
		schema := compileSchema(t, k)
		for range 10 {
			sameVerdict(t, k, schema, names, scalar)
		}
	})
}

// sameVerdict makes a random object and compares what the kind and its schema say of it.
func sameVerdict(t *rapid.T, k *Kind, schema *jsonschema.Schema, names []string, scalar *rapid.Generator[string]) {
	given := rapid.SliceOfNDistinct(rapid.SampledFrom(append(names, "z")), 0, 4, rapid.ID[string]).Draw(t, "given")
	members := make([]string, len(given))
	for i, name := range given {
		members[i] = fmt.Sprintf("%q:%s", name, scalar.Draw(t, name))
	}
	raw := []byte("{" + strings.Join(members, ",") + "}")
	normalized, err := k.CheckParams(raw)
	if valid := validates(t, schema, raw); valid != (err == nil) {
		t.Fatalf("%s\nof %s: valid %t, %v", raw, k.Schema(), valid, err)
	}
	if err != nil {
		return
	}
	again, err := k.CheckParams(normalized)
	if err != nil || !bytes.Equal(again, normalized) || !validates(t, schema, normalized) {
		t.Fatalf("%s becomes %s and then %s, %v", raw, normalized, again, err)
	}
}

// randomKind returns a kind of a file with up to three params.
func randomKind(t *rapid.T, names []string) *Kind {
	var b strings.Builder
	b.WriteString("[k]\ncommand = [\"prog\"")
	for _, name := range names {
		b.WriteString(rapid.SampledFrom([]string{"", `, "{params.` + name + `}"`, `, "x={params.` + name + `}"`}).Draw(t, "placeholder"))
	}
	fmt.Fprintf(&b, "]\nallow_dash = %t\n", rapid.Bool().Draw(t, "dash"))
	for _, name := range names {
		fmt.Fprintf(&b, "[k.params.%s]\nrequired = %t\n", name, rapid.Bool().Draw(t, "required"))
		b.WriteString(rapid.SampledFrom([]string{
			"type = 'string'\n", "type = 'string'\npattern = '[a-c]+'\n", "type = 'string'\nmax_length = 2\n", "type = 'string'\npattern = '^a|b$'\nmax_length = 3\n",
			"type = 'integer'\n", "type = 'integer'\nmin = -3\n", "type = 'integer'\nmax = 3\n", "type = 'integer'\nmin = 2\nmax = 2\n",
			"type = 'number'\n", "type = 'number'\nmin = -1.5\n", "type = 'number'\nmin = 0.5\nmax = 1.5\n",
			"type = 'boolean'\n", "type = 'enum'\nvalues = ['a', 'ab']\n",
		}).Draw(t, "type"))
	}
	set, err := Parse("kinds.toml", []byte(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	return set.Get("k")
}
