package dashboard_test

import (
	"bytes"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"
)

// send sends a form with files, as a browser does.
func (g *rig) send(t *testing.T, fields [][2]string, files map[string][]byte) page {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for _, f := range fields {
		if err := w.WriteField(f[0], f[1]); err != nil {
			t.Fatal(err)
		}
	}
	for name, content := range files {
		part, err := w.CreateFormFile("file", name)
		if err == nil {
			_, err = part.Write(content)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return g.ask(t, "POST /new", b.String(), "Content-Type", w.FormDataContentType())
}

// request returns what a job was asked to do.
func (g *rig) request(t *testing.T, location string) string {
	t.Helper()
	path, _, _ := strings.Cut(strings.TrimPrefix(location, "/jobs/fleet/"), "?")
	found, err := g.Get(t.Context(), []string{path})
	if err != nil || len(found) != 1 {
		t.Fatalf("there is no job %s", path)
	}
	return string(found[0].Request)
}

func TestD04TheFormIsMadeFromTheParamsOfAKind(t *testing.T) {
	g := open(t, nil)
	p := g.see(
		t, "/new?scope=fleet&kind=thumbnail", "A picture of the first page of a document",
		`<input id="p-dpi" name="p.dpi" type="number" value="120" step="1" min="1" max="1200" data-type="integer">`, "Dots per inch · 1 to 1200",
		`<option value="png" selected>png</option><option value="jpeg">jpeg</option>`,
		`<input id="p-title" name="p.title" value="" maxlength="80" data-type="string" required>`,
		`<option value="false" selected>false</option>`, `step="any" min="0.1" max="10"`,
		`<input id="file" name="file" type="file">`, "curl -X POST http://localhost:8080/api/v1/fleet/jobs -H &#39;Content-Type: application/json&#39; -d ",
		`&#34;params&#34;:{&#34;dpi&#34;:120,&#34;format&#34;:&#34;png&#34;,&#34;title&#34;:&#34;&#34;,&#34;sharpen&#34;:false}`,
	)
	if a, b := strings.Index(p.body, "p.dpi"), strings.Index(p.body, "p.title"); a > b {
		t.Error("the fields are not in the order of the schema")
	}
	g.see(t, "/new?scope=fleet&kind=render", `type="file" multiple`, `name="params"`, "an object of JSON")
	g.see(t, "/new?scope=fleet&clone=invoice-2026-11", `value="300" step="1"`, `name="p.title" value="Invoice"`, ">uploads/invoice.pdf</textarea>", "Filled in after job")
	g.see(t, "/new?scope=fleet&clone=done-1", "Its params are not on record here")
}

func TestD04AJobIsSubmittedOnceWithItsFile(t *testing.T) {
	g := open(t, nil)
	fields := [][2]string{{"scope", "fleet"}, {"key", "k1"}, {"kind", "thumbnail"}, {"p.dpi", "300"}, {"p.format", "webp"}, {"p.title", `It's "new"`}, {"p.sharpen", "true"}, {"p.scale", ""}, {"inputs", ""}}
	p := g.send(t, fields, map[string][]byte{`C:\docs\page one.pdf`: []byte("%PDF")})
	to := p.header.Get("Location")
	if p.status != http.StatusSeeOther || !strings.HasPrefix(to, "/jobs/fleet/job-") {
		t.Fatalf("%d to %q\n%s\n%s", p.status, to, mainOf(p.body), g.Logged.String())
	}
	if got, want := g.request(t, to), `{"input":"uploads/page one.pdf","kind":"thumbnail","params":{"dpi":300,"format":"webp","sharpen":true,"title":"It's \"new\""}}`; got != want {
		t.Errorf("request %s, want %s", got, want)
	}
	if got := string(g.Input("uploads/page one.pdf")); got != "%PDF" {
		t.Errorf("uploaded %q", got)
	}
	if again := g.send(t, fields, nil); again.header.Get("Location") != to {
		t.Errorf("the same form sent again makes another job: %s", again.header.Get("Location"))
	}
}

func TestD04WhatWasTypedStaysAfterAnError(t *testing.T) {
	g := open(t, nil)
	fields := [][2]string{{"scope", "fleet"}, {"kind", "thumbnail"}, {"p.dpi", "5000"}, {"p.title", `"><b>`}, {"inputs", "uploads/a.pdf"}}
	p := g.send(t, fields, nil)
	if p.status != http.StatusBadRequest {
		t.Errorf("status %d", p.status)
	}
	p.has(t, "/new", `value="5000"`, `aria-invalid="true" aria-describedby="e-dpi"`, `id="e-dpi" role="alert">Invalid params.dpi: want 1 to 1200</p>`, `value="&#34;&gt;&lt;b&gt;"`, ">uploads/a.pdf</textarea>")
	p = g.send(t, [][2]string{{"scope", "fleet"}, {"kind", "thumbnail"}, {"p.dpi", "many"}, {"p.sharpen", "maybe"}}, nil)
	p.has(t, "/new", `id="e-dpi" role="alert">want an integer</p>`, `id="e-sharpen" role="alert">want a boolean</p>`)
	p = g.send(t, [][2]string{{"scope", "fleet"}, {"kind", "render"}, {"params", "[1]"}}, nil)
	p.has(t, "/new", "want an object of JSON", ">[1]</textarea>")
	p = g.send(t, [][2]string{{"scope", "fleet"}, {"kind", "pdf"}}, map[string][]byte{strings.Repeat("é", 200): nil})
	if p.status != http.StatusSeeOther {
		t.Errorf("a long name of a file: %d\n%s", p.status, mainOf(p.body))
	}
	for scope, want := range map[string]int{"utils": http.StatusForbidden, "nothing": http.StatusForbidden} {
		if p := g.send(t, [][2]string{{"scope", scope}, {"kind", "pdf"}}, nil); p.status != want {
			t.Errorf("scope %s: %d, want %d", scope, p.status, want)
		}
	}
	if p := g.send(t, [][2]string{{"scope", "fleet"}, {"kind", strings.Repeat("x", 600<<10)}}, nil); p.status != http.StatusRequestEntityTooLarge {
		t.Errorf("a form that is too long: %d", p.status)
	}
	if p := g.ask(t, "POST /new", "x", "Content-Type", "multipart/form-data"); p.status != http.StatusBadRequest {
		t.Errorf("a form that is none: %d", p.status)
	}
}

func FuzzNewJobForm(f *testing.F) {
	f.Add([]byte("--b\r\nContent-Disposition: form-data; name=\"scope\"\r\n\r\nfleet\r\n--b--\r\n"))
	f.Add([]byte("--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\nx\r\n--b--\r\n"))
	f.Fuzz(func(t *testing.T, body []byte) {
		g := open(t, nil)
		if p := g.ask(t, "POST /new", string(body), "Content-Type", "multipart/form-data; boundary=b"); p.status >= 500 {
			t.Errorf("status %d: %s", p.status, g.Logged.String())
		}
	})
}
