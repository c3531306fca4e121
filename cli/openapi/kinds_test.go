package openapi

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/batchfleet/batchfleet/kinds"
)

const kindsFile = `
[thumbnail]
command = ["thumbnail", "{params.dpi}"]
[thumbnail.params.dpi]
type = "integer"
min = 10
max = 600

[report]
command = ["report", "{params.month}"]
[report.params.month]
type = "string"
required = true
`

// newCompiler returns one that reads the patterns of JSON Schema, which are JavaScript's, as far as ours go.
func newCompiler() *jsonschema.Compiler {
	c := jsonschema.NewCompiler()
	c.UseRegexpEngine(func(pattern string) (jsonschema.Regexp, error) {
		return regexp.Compile(strings.ReplaceAll(pattern, `\u0000`, `\x00`))
	})
	return c
}

func TestK03DescriptionHasTheParamsOfTheServersKinds(t *testing.T) {
	set, err := kinds.Parse("kinds.toml", []byte(kindsFile))
	if err != nil {
		t.Fatal(err)
	}
	text, err := Of(set)
	if err != nil {
		t.Fatal(err)
	}
	isOpenAPI(t, text)
	refersToWhatIsThere(t, text)
	c := newCompiler()
	if err := c.AddResource("openapi.json", parse(t, text)); err != nil {
		t.Fatal(err)
	}
	submission, err := c.Compile("openapi.json#/components/schemas/Submission")
	if err != nil {
		t.Fatal(err)
	}
	for body, want := range map[string]bool{
		`{"kind":"thumbnail","params":{"dpi":300}}`: true,
		`{"kind":"thumbnail"}`:                      true,
		`{"kind":"thumbnail","params":null}`:        true,
		`{"kind":"thumbnail","params":{"dpi":7}}`:   false,
		`{"kind":"thumbnail","params":{"dip":300}}`: false,
		`{"kind":"report","params":{}}`:             false,
		`{"kind":"report","params":{"month":"1"}}`:  true,
		`{"kind":"other","params":{"x":[1]}}`:       true, // of a live worker, say
	} {
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if err := submission.Validate(value); (err == nil) != want {
			t.Errorf("%s: %v", body, err)
		}
	}
	for _, none := range []*kinds.Set{nil, {}} {
		if text, err := Of(none); err != nil || !bytes.Equal(text, JSON()) {
			t.Errorf("without kinds: %v", err)
		}
	}
}
