package openapi

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
)

var update = flag.Bool("update", false, "write openapi.json.gz and kinds.json.gz")

// TestDocumentIsWhatServersAnswer makes JSON of openapi.yaml and kinds.yaml.
func TestDocumentIsWhatServersAnswer(t *testing.T) {
	for name, have := range map[string][]byte{"openapi": JSON(), "kinds": unpacked(packedKinds)} {
		text, err := os.ReadFile(name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		var doc map[string]any
		if err := yaml.Unmarshal(text, &doc); err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(doc); err != nil {
			t.Fatal(err)
		}
		if *update {
			var packed bytes.Buffer
			w, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression) // there is this level
			_, err := w.Write(b.Bytes())
			if err := errors.Join(err, w.Close(), os.WriteFile(name+".json.gz", packed.Bytes(), 0o644)); err != nil { //nolint:gosec // everybody may read it
				t.Fatal(err)
			}
			continue
		}
		if !bytes.Equal(b.Bytes(), have) {
			t.Errorf("%s.json.gz is not what %s.yaml says: go test ./cli/openapi -run TestDocument -update", name, name)
		}
	}
}

// TestDocumentIsOpenAPI holds the document against the specification's own schema,
// and each of its schemas against that of JSON Schema.
func TestDocumentIsOpenAPI(t *testing.T) { isOpenAPI(t, JSON()) }

func isOpenAPI(t *testing.T, text []byte) {
	t.Helper()
	c := newCompiler()
	c.AssertFormat()
	rules, err := os.ReadFile("testdata/oas-3.1.json") // https://spec.openapis.org/oas/3.1/schema/2022-10-07
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"oas.json": rules, "openapi.json": text} {
		if err := c.AddResource(name, parse(t, text)); err != nil {
			t.Fatal(err)
		}
	}
	doc := parse(t, text)
	if err := c.MustCompile("oas.json").Validate(doc); err != nil {
		t.Errorf("it is no OpenAPI 3.1:\n%v", err)
	}
	schemas := 0
	walk(doc, "", func(pointer string, v map[string]any) {
		if !schemaAt.MatchString(pointer) {
			return
		}
		schemas++
		if _, err := c.Compile("openapi.json#" + pointer); err != nil {
			t.Errorf("schema at %s: %v", pointer, err)
		}
	})
	if schemas < 100 {
		t.Errorf("only %d schemas were looked at", schemas)
	}
}

var schemaAt = regexp.MustCompile(`(/schema|^/components/schemas/[^/]+)$`)

// TestDocumentRefersToWhatIsThere looks at all references, both ways, and that no
// operation is without a name of its own, a security and answers.
func TestDocumentRefersToWhatIsThere(t *testing.T) { refersToWhatIsThere(t, JSON()) }

func refersToWhatIsThere(t *testing.T, text []byte) {
	t.Helper()
	doc := parse(t, text).(map[string]any)
	used := map[string]bool{}
	walk(doc, "", func(pointer string, v map[string]any) {
		ref, ok := v["$ref"].(string)
		if !ok {
			return
		}
		used[ref] = true
		var at any = doc
		for part := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
			at = at.(map[string]any)[part]
			if at == nil {
				t.Fatalf("%s refers to %s, which is not there", pointer, ref)
			}
		}
	})
	for kind, all := range doc["components"].(map[string]any) {
		if kind == "securitySchemes" {
			continue
		}
		for name := range all.(map[string]any) {
			// What any path may answer is told in words.
			if ref := "#/components/" + kind + "/" + name; !used[ref] && name != "NoRoute" && name != "MethodNotAllowed" {
				t.Errorf("nothing refers to %s", ref)
			}
		}
	}
	var ids []string
	for path, item := range doc["paths"].(map[string]any) {
		for method, op := range item.(map[string]any) {
			if method == "parameters" {
				continue
			}
			op := op.(map[string]any)
			id, _ := op["operationId"].(string)
			if id == "" || slices.Contains(ids, id) {
				t.Errorf("%s %s has operationId %q, which is none or another's", method, path, id)
			}
			ids = append(ids, id)
			if _, ok := op["security"].([]any); !ok {
				t.Errorf("%s %s does not say who may call it", method, path)
			}
		}
	}
	if len(ids) < 36 {
		t.Errorf("only %d operations", len(ids))
	}
}

func parse(t *testing.T, text []byte) any {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// walk calls visit for each object in v with its JSON pointer.
func walk(v any, pointer string, visit func(pointer string, v map[string]any)) {
	switch v := v.(type) {
	case map[string]any:
		visit(pointer, v)
		for key, value := range v {
			walk(value, pointer+"/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(key), visit)
		}
	case []any:
		for i, value := range v {
			walk(value, pointer+"/"+strconv.Itoa(i), visit)
		}
	}
}
