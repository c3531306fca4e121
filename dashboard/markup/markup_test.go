package markup_test

import (
	"bytes"
	"html/template"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/batchfleet/batchfleet/dashboard/markup"
)

func parse(text string, funcs map[string]markup.Func) (*markup.Set, error) {
	return markup.Parse(fstest.MapFS{"t.html": {Data: []byte(text)}}, "*.html", funcs)
}

func fill(t *testing.T, text string, data any) string {
	t.Helper()
	set, err := parse(text, nil)
	if err != nil {
		t.Fatalf("parse %q: %v", text, err)
	}
	var b bytes.Buffer
	if err := set.Execute(&b, "t.html", data); err != nil {
		t.Fatalf("fill %q: %v", text, err)
	}
	return b.String()
}

// filledBy is what the standard library makes of the same.
func filledBy(t *testing.T, text string, data any) string {
	t.Helper()
	var b bytes.Buffer
	if err := template.Must(template.New("t").Parse(text)).Execute(&b, data); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

type row struct {
	Name string
	N    int
	On   bool
	Rows []row
	Next *row
	Of   map[string]int
}

func TestMarkupFillsAsTheStandardLibraryDoes(t *testing.T) {
	data := row{Name: "a<b>", N: 7, On: true, Rows: []row{{Name: "x"}, {Name: "y", On: true}}, Next: &row{Name: "n"}, Of: map[string]int{"failed": 3}}
	for _, text := range []string{
		`<p>{{.Name}} {{.N}} {{.On}} {{.Next.Name}} {{.Of.failed}}</p>`,
		`{{range .Rows}}<li>{{.Name}}{{if .On}} on{{else}} off{{end}} {{$.N}}</li>{{end}}`,
		`{{range .Next.Rows}}x{{else}}none{{end}}`,
		`{{with .Next}}{{.Name}}{{end}}{{with .Next.Next}}{{.Name}}{{else}}nil{{end}}`,
		`{{if and .On (eq .N 7 8)}}a{{else if .N}}b{{end}}{{if or .Next.On (not .On)}}c{{else if eq .Name "a<b>"}}d{{else}}e{{end}}`,
		`{{define "cell"}}<td title="{{.Name}}">{{.N}}</td>{{end}}<table>{{range .Rows}}{{template "cell" .}}{{end}}{{template "cell" .}}</table>`,
		"a  {{- /* note */ -}}  b\n  {{- if .On -}}\n  c {{ end }}",
		`<option value="1"{{if .On}} selected{{end}}>{{len .Rows}}</option>`,
		`<input {{if .On}}checked{{end}} value='{{.Name}}'>`,
		`<a href="/jobs?q={{.Name}}&amp;n={{.N}}" title='{{.Name}}' class=plain>x</a><br/>`,
		`<title>{{.Name}}</title><textarea name="t">{{.Name}}</textarea>`,
		`<!doctype html><html lang="en">{{.N}}</html>`,
		`<script src="/a.js"></script>{{.N}}<style>p{}</style>{{.N}}`,
	} {
		if got, want := fill(t, text, data), filledBy(t, text, data); got != want {
			t.Errorf("%s\n got %q\nwant %q", text, got, want)
		}
	}
}

// hostile are texts that break out of a place that forgets one of its characters.
var hostile = []string{
	"", "plain", `"><script>alert(1)</script>`, `'onmouseover='alert(1)`, "</title><script>", "</textarea><img src=x onerror=y>", "<!--", "-->", "&lt;", "&#34;", "a+b",
	"javascript:alert(1)", "JavaScript:alert(1)", " javascript:alert(1)", "java\nscript:alert(1)", "data:text/html,<script>", "vbscript:x", "//evil.example/x", "/a?b=c&d=e#f", "https://h/a b", "HTTP://h/",
	"a/b:c", "%2e%2e", "%zz", "`${1}`", "{{.}}", "\x00", "\x1b[31m", "\u202e", "\u2028", "é", "日本", "🙂", "=", "`", "a\tb\nc\rd", "]]>", "<", ">", "&", `\`, `\"`, "'", "(x)",
}

// places are where the pages have values.
var places = []string{
	`<p>{{.}}</p>`, `<p class="a {{.}} b">`, `<p class='{{.}}'>`, `<a href="{{.}}">`, `<a href="/jobs/{{.}}">`, `<a href="/jobs?q={{.}}">`, `<a href="#{{.}}">`, `<a href='{{.}}?x={{.}}'>`,
	`<form action="/a/{{.}}/cancel">`, `<img src="{{.}}" alt="{{.}}">`, `<title>{{.}}</title>`, `<textarea>{{.}}</textarea>`, `<div data-url="/x/{{.}}">`, `<div data-job="{{.}}">`, `<input value="{{.}}">`,
}

func TestMarkupEscapesAsTheStandardLibraryDoes(t *testing.T) {
	for _, text := range places {
		for _, s := range hostile {
			same(t, text, s)
		}
	}
}

// same compares with the standard library, which has another word for a URL that is refused, and allows mailto.
func same(t *testing.T, text, s string) {
	t.Helper()
	got := fill(t, text, s)
	want := strings.ReplaceAll(filledBy(t, text, s), "#ZgotmplZ", "#refused")
	if scheme, _, ok := strings.Cut(s, ":"); ok && strings.EqualFold(scheme, "mailto") {
		return
	}
	if got != want {
		t.Errorf("%s with %q\n got %q\nwant %q", text, s, got, want)
	}
}

func FuzzMarkup(f *testing.F) {
	for i := range places {
		for _, s := range hostile {
			f.Add(i, s)
		}
	}
	f.Fuzz(func(t *testing.T, i int, s string) {
		s = strings.ToValidUTF8(s, "?")
		same(t, places[((i%len(places))+len(places))%len(places)], s)
	})
}

func TestMarkupRefusesTemplatesWithValuesInDangerousPlaces(t *testing.T) {
	for text, want := range map[string]string{
		`<script>var x = "{{.}}"</script>`: "no value may stand in a script",
		`<style>p{color:{{.}}}</style>`:    "in a script or a style",
		`<p onclick="go('{{.}}')">`:        "in an attribute onclick of <p>",
		`<p style="color:{{.}}">`:          "in an attribute style of <p>",
		`<iframe srcdoc="{{.}}">`:          "in an attribute srcdoc",
		`<img srcset="{{.}} 2x">`:          "in an attribute srcset",
		`<p class={{.}}>`:                  "without quotes",
		`<p class=a{{.}}>`:                 "without quotes",
		`<p {{.}}>`:                        "in a tag",
		`<p{{.}}>`:                         "in a tag",
		`<{{.}}>`:                          "is no element",
		`<!-- {{.}} -->`:                   "in a comment",
		`<p{{if .}} class="{{end}}>`:       "one branch ends",
		`{{range .}}<p {{end}}`:            "one branch ends in a tag",
		`<p class="`:                       "it ends in an attribute class of <p>",
		`<p class{{if .}} a{{end}}b>`:      "goes on after an action",
		`<a href="{{if .}}?{{end}}{{.}}">`: "one branch ends",
		`a < b`:                            "write &lt; for <",
		`{{if .}}`:                         "has no {{end}}",
		`{{end}}`:                          "without a beginning",
		`{{else}}`:                         "without a beginning",
		`{{.A`:                             "{{ without }}",
		`{{}}`:                             "a value is missing",
		`{{.A..B}}`:                        "is no field",
		`{{nothing .A}}`:                   "is no value and no function",
		`{{len (.A}}`:                      "( without )",
		`{{.A .B}}`:                        "is too much",
		`{{template "gone" .}}`:            `there is no template "gone"`,
		`{{template gone}}`:                "want the quoted name",
		`{{define "a"}}{{end}}{{define "a"}}{{end}}`:          "is defined twice",
		`{{if .}}{{define "a"}}{{end}}{{end}}`:                "within another action",
		`<p class="{{template "a" .}}">{{define "a"}}{{end}}`: "want in text",
		"\n\n{{if .}}\n<p {{.}}>{{end}}":                      "line 4",
	} {
		if _, err := parse(text, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("parse %q: %v, want %q", text, err, want)
		}
	}
}

func TestMarkupNamesTheLineOfAMistakeInAValue(t *testing.T) {
	for text, want := range map[string]string{
		"a\n{{.Gone}}":               "line 2: markup_test.row has no field Gone",
		"{{.N.Name}}":                "field Name of a int",
		"{{.Next.Name}}":             "field Name of nil",
		"{{range .N}}{{end}}":        "range over a int",
		"{{.Rows}}":                  "cannot be printed",
		"{{len .N}}":                 "has no length",
		"\n{{if .N}}\n{{.X}}{{end}}": "line 3",
		`{{define "a"}}{{template "a" .}}{{end}}{{template "a" .}}`: "calls itself too often",
	} {
		set, err := parse(text, nil)
		if err != nil {
			t.Fatalf("parse %q: %v", text, err)
		}
		if err := set.Execute(&bytes.Buffer{}, "t.html", row{N: 1}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("fill %q: %v, want %q", text, err, want)
		}
	}
}

func TestMarkupShowsEachTextThroughShow(t *testing.T) {
	set, err := parse(`<p title="{{.Name}}">{{.Name}}</p>{{loud .Name}}`, map[string]markup.Func{"loud": func(args ...any) (any, error) { return args[0].(string) + "!", nil }})
	if err != nil {
		t.Fatal(err)
	}
	set.Show = strings.ToUpper
	var b bytes.Buffer
	if err := set.Execute(&b, "t.html", row{Name: "a<"}); err != nil || b.String() != `<p title="A&lt;">A&lt;</p>A&lt;!` {
		t.Errorf("got %q, %v", b.String(), err)
	}
}
