package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/batchfleet/batchfleet/cli/openapi"
)

// contract is the OpenAPI document, to hold answers against.
type contract struct {
	t        *testing.T
	doc      map[string]any
	compiler *jsonschema.Compiler
	schemas  map[string]*jsonschema.Schema // by JSON pointer
	paths    []documented
	seen     map[string]bool // "METHOD path status"
}

// documented is a path of the document.
type documented struct {
	path    string
	pattern *regexp.Regexp
}

func newContract(t *testing.T, text []byte) *contract {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := &contract{t: t, doc: doc.(map[string]any), compiler: jsonschema.NewCompiler(), schemas: map[string]*jsonschema.Schema{}, seen: map[string]bool{}}
	c.compiler.AssertFormat()
	if err := c.compiler.AddResource("openapi.json", doc); err != nil {
		t.Fatal(err)
	}
	variable := regexp.MustCompile(`\\\{[a-zA-Z]+\\\}`)
	for path := range c.doc["paths"].(map[string]any) {
		c.paths = append(c.paths, documented{path, regexp.MustCompile("^" + variable.ReplaceAllString(regexp.QuoteMeta(path), "[^/]+") + "$")})
	}
	// A path without variables goes before one with them.
	slices.SortFunc(c.paths, func(a, b documented) int {
		return strings.Count(a.path, "{") - strings.Count(b.path, "{")
	})
	return c
}

// operations returns "METHOD path" of all there are.
func (c *contract) operations() (all []string) {
	for path, item := range c.doc["paths"].(map[string]any) {
		for method := range item.(map[string]any) {
			if method != "parameters" {
				all = append(all, strings.ToUpper(method)+" "+path)
			}
		}
	}
	slices.Sort(all)
	return all
}

// at returns what is at a JSON pointer, and the pointer that it really is at: a
// reference is followed.
func (c *contract) at(pointer string) (any, string) {
	var v any = c.doc
	for part := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		part = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		m, ok := v.(map[string]any)
		if !ok {
			return nil, pointer
		}
		v = m[part]
	}
	if m, ok := v.(map[string]any); ok && m["$ref"] != nil && len(m) == 1 {
		return c.at(strings.TrimPrefix(m["$ref"].(string), "#"))
	}
	return v, pointer
}

func escaped(part string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(part) }

// object is at, for what must be one. It is empty when there is none.
func (c *contract) object(pointer string) (map[string]any, string) {
	v, pointer := c.at(pointer)
	m, _ := v.(map[string]any)
	return m, pointer
}

// valid returns what is wrong with a value by the schema at pointer.
func (c *contract) valid(pointer string, value any) error {
	s := c.schemas[pointer]
	if s == nil {
		u := &url.URL{Path: "openapi.json", Fragment: pointer}
		var err error
		if s, err = c.compiler.Compile(u.String()); err != nil {
			return err
		}
		c.schemas[pointer] = s
	}
	return s.Validate(value)
}

// check holds an answer against the document, and, if it is a success, the request
// too.
func (c *contract) check(method, uri, body string, r reply) {
	c.t.Helper()
	u, err := url.Parse(uri)
	if err != nil {
		c.t.Fatal(err)
	}
	what := fmt.Sprintf("%s %s answered %d %.300s", method, uri, r.status, r.body)
	i := slices.IndexFunc(c.paths, func(d documented) bool { return d.pattern.MatchString(u.Path) })
	if i < 0 {
		c.t.Errorf("%s: the document has no such path", what)
		return
	}
	path := c.paths[i].path
	operation := "/paths/" + escaped(path) + "/" + strings.ToLower(method)
	if op, _ := c.object(operation); len(op) == 0 {
		c.t.Errorf("%s: the document has no such operation", what)
		return
	}
	status := fmt.Sprint(r.status)
	response, at := c.object(operation + "/responses/" + status)
	if len(response) == 0 {
		c.t.Errorf("%s: the document has no such status of %s", what, path)
		return
	}
	c.seen[method+" "+path+" "+status] = true
	for _, err := range c.answer(response, at, r) {
		c.t.Errorf("%s: %v", what, err)
	}
	if r.status < 300 {
		for _, err := range c.request(operation, u, body) {
			c.t.Errorf("%s, but the document takes no such request %.300s: %v", what, body, err)
		}
	}
}

// checkPlain holds an answer against a response that no operation has.
func (c *contract) checkPlain(response string, r reply) {
	c.t.Helper()
	v, at := c.object("/components/responses/" + response)
	for _, err := range c.answer(v, at, r) {
		c.t.Errorf("%d %s is no %s: %v", r.status, r.body, response, err)
	}
}

// told are the headers that a response has only if the document names them.
var told = []string{"Accept-Ranges", "Allow", "Content-Disposition", "Content-Range", "Etag", "Location", "Retry-After", "Www-Authenticate"}

func (c *contract) answer(response map[string]any, at string, r reply) (wrong []error) {
	headers, _ := response["headers"].(map[string]any)
	named := map[string]bool{}
	for name := range headers {
		named[http.CanonicalHeaderKey(name)] = true
		header, from := c.object(at + "/headers/" + escaped(name))
		values := r.header.Values(name)
		switch {
		case len(values) == 0 && header["required"] == true:
			wrong = append(wrong, fmt.Errorf("header %s is missing", name))
		case len(values) > 1:
			wrong = append(wrong, fmt.Errorf("header %s is there %d times", name, len(values)))
		case len(values) == 1:
			if err := c.valid(from+"/schema", values[0]); err != nil {
				wrong = append(wrong, fmt.Errorf("header %s: %w", name, err))
			}
		}
	}
	for _, name := range told {
		if r.header.Get(name) != "" && !named[name] {
			wrong = append(wrong, fmt.Errorf("header %s: %q is not documented", name, r.header.Get(name)))
		}
	}
	content, _ := response["content"].(map[string]any)
	media := r.header.Get("Content-Type")
	if len(content) == 0 {
		if len(r.body) > 0 || media != "" {
			wrong = append(wrong, fmt.Errorf("it has a body of type %q", media))
		}
		return wrong
	}
	if _, ok := content[media]; !ok {
		short, _, _ := strings.Cut(media, ";") // metrics say their version
		if content["*/*"] != nil {
			short = "*/*"
		}
		if _, ok := content[short]; !ok {
			return append(wrong, fmt.Errorf("media type %q, want one of %v", media, slices.Collect(maps.Keys(content))))
		}
		media = short
	}
	at += "/content/" + escaped(media)
	var value any = string(r.body)
	if media == "application/json" {
		var err error
		if value, err = jsonschema.UnmarshalJSON(bytes.NewReader(r.body)); err != nil {
			return append(wrong, err)
		}
	}
	if err := c.valid(at+"/schema", value); err != nil {
		wrong = append(wrong, err)
	}
	if media == "text/event-stream" {
		wrong = append(wrong, c.events(at, r.body)...)
	}
	return wrong
}

// events looks at the data of server-sent events.
func (c *contract) events(at string, body []byte) (wrong []error) {
	kinds, _ := c.object(at + "/x-events")
	for event := range strings.SplitSeq(strings.TrimSpace(string(body)), "\n\n") {
		var name, data string
		for line := range strings.Lines(event) {
			field, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
			switch field {
			case "event":
				name = value
			case "data":
				data = value
			}
		}
		if name == "" || (name == "end" || name == "reset") && data == "" {
			continue // a comment; the end; what says that events were lost
		}
		if kinds[name] == nil {
			wrong = append(wrong, fmt.Errorf("event %q is not documented", name))
			continue
		}
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(data))
		if err == nil {
			err = c.valid(at+"/x-events/"+name, value)
		}
		if err != nil {
			wrong = append(wrong, fmt.Errorf("event %s: %w", name, err))
		}
	}
	return wrong
}

// request returns what is wrong with a request that was granted.
func (c *contract) request(operation string, u *url.URL, body string) (wrong []error) {
	op, _ := c.object(operation)
	content, _ := c.object(operation + "/requestBody/content")
	if body != "" && content["*/*"] != nil {
		body = "" // it may be anything
	}
	if body != "" {
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(body))
		if err == nil && op["requestBody"] == nil {
			err = fmt.Errorf("it has no body")
		}
		if err == nil {
			err = c.valid(operation+"/requestBody/content/application~1json/schema", value)
		}
		if err != nil {
			wrong = append(wrong, err)
		}
	} else if b, _ := op["requestBody"].(map[string]any); b["required"] == true {
		wrong = append(wrong, fmt.Errorf("it needs a body"))
	}
	parameters, _ := op["parameters"].([]any)
	for name, values := range u.Query() {
		found := false
		for _, p := range parameters {
			p := p.(map[string]any)
			if ref, ok := p["$ref"].(string); ok {
				p, _ = c.object(strings.TrimPrefix(ref, "#"))
			}
			if p["name"] == name && p["in"] == "query" {
				found = true
				text, err := json.Marshal(p["schema"])
				if err != nil {
					return append(wrong, err)
				}
				// As text, a number has the form of one.
				if strings.Contains(string(text), `"integer"`) && strings.Trim(values[0], "0123456789") != "" {
					wrong = append(wrong, fmt.Errorf("parameter %s is %q", name, values[0]))
				}
			}
		}
		if !found {
			wrong = append(wrong, fmt.Errorf("parameter %s is not documented", name))
		}
	}
	return wrong
}

// unseen returns the documented successes that no answer was.
func (c *contract) unseen() (all []string) {
	for _, name := range c.operations() {
		method, path, _ := strings.Cut(name, " ")
		responses, _ := c.object("/paths/" + escaped(path) + "/" + strings.ToLower(method) + "/responses")
		for status := range responses {
			if status < "400" && !c.seen[name+" "+status] {
				all = append(all, name+" "+status)
			}
		}
	}
	slices.Sort(all)
	return all
}

// TestContractFindsWhatIsWrong breaks one thing at a time.
func TestContractFindsWhatIsWrong(t *testing.T) {
	header := http.Header{"X-Request-Id": {"a"}, "Cache-Control": {"no-store"}, "X-Content-Type-Options": {"nosniff"}, "Content-Type": {"application/json"}}
	for _, tt := range []struct {
		name, body string
		header     [2]string
		want       string
	}{
		{"nothing", `{"job_id":"01ARZ3NDEKTSV4RRFFQ69G5FAV"}`, [2]string{}, ""},
		{"a field more", `{"job_id":"01ARZ3NDEKTSV4RRFFQ69G5FAV","x":1}`, [2]string{}, "additional properties 'x' not allowed"},
		{"a field less", `{}`, [2]string{}, "missing property 'job_id'"},
		{"another type", `{"job_id":1}`, [2]string{}, "got number, want string"},
		{"another form", `{"job_id":"x"}`, [2]string{}, "does not match pattern"},
		{"no JSON", `{`, [2]string{}, "EOF"},
		{"another media type", `{}`, [2]string{"Content-Type", "text/html"}, `media type "text/html"`},
		{"a header that may be stored", `{"job_id":"01ARZ3NDEKTSV4RRFFQ69G5FAV"}`, [2]string{"Cache-Control", "max-age=60"}, "value must be 'no-store'"},
		{"a header more", `{"job_id":"01ARZ3NDEKTSV4RRFFQ69G5FAV"}`, [2]string{"Location", "/"}, "Location: \"/\" is not documented"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newContract(t, openapi.JSON())
			h := header.Clone()
			if tt.header[0] != "" {
				h.Set(tt.header[0], tt.header[1])
			}
			v, at := c.object("/paths/~1calc~1zpe~1jobs/post/responses/200")
			got := fmt.Sprint(c.answer(v, at, reply{200, h, []byte(tt.body)}))
			if tt.want == "" && got != "[]" || !strings.Contains(got, tt.want) {
				t.Errorf("got %s, want %q", got, tt.want)
			}
		})
	}
}
