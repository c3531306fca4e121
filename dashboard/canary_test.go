package dashboard_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/dashboard/dashboardtest"
	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
)

// canary breaks out of every place that forgets to escape it, colours terminals and turns text around.
const canary = "\"'><canary onx=1>&amp;</title></textarea></script>\x1b[31m\x00\u202e\u2066javascript:alert(1)\n`"

// fill sets every text in a value to the canary.
func fill(v reflect.Value, text string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		fill(v.Elem(), text)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[jobapi.Time]() {
			v.Set(reflect.ValueOf(jobapi.At(time.Now())))
			return
		}
		for _, f := range v.Fields() {
			if f.CanSet() {
				fill(f, text)
			}
		}
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[json.RawMessage]() {
			quoted, _ := json.Marshal(map[string]string{text: text})
			v.SetBytes(quoted)
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(v.Index(i), text)
		}
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]any{text: text}))
	default: // no text
	}
}

// hostileFleet is a fleet whose every text is the canary, but for the ids by which its things are found.
func hostileFleet(text string) *dashboardtest.Fleet {
	f := dashboardtest.New("fleet")
	for id, state := range map[string]jobs.State{"waits": jobs.Queued, "runs": jobs.Running, "fails": jobs.Failed, "works": jobs.Succeeded} {
		var j jobapi.Job
		fill(reflect.ValueOf(&j).Elem(), text)
		j.ID, j.Type, j.Status, j.Progress, j.Attempt = id, "fleet."+text, state, jobapi.Progress{Current: 1, Total: 2}, 2
		for i := range j.Steps {
			j.Steps[i].Status = jobapi.Running
		}
		f.Put(j)
		f.Write(id, strings.ReplaceAll(text, "\n", " "), "second")
		var r jobapi.Reason
		fill(reflect.ValueOf(&r).Elem(), text)
		f.Explain(id, r, jobapi.Reason{Code: jobapi.WhyLeased, Until: jobapi.At(time.Now())})
		f.Keep(id, "a.txt", []byte(text))
	}
	for _, v := range []any{&f.Catalog, &f.Force, &f.Tables} {
		fill(reflect.ValueOf(v).Elem(), text)
	}
	f.Catalog = append(f.Catalog, jobapi.Kind{Name: "form", Input: "many", Params: hostileSchema(text)})
	return f
}

// hostileSchema has the canary as names, descriptions, defaults and values of parameters.
func hostileSchema(text string) json.RawMessage {
	properties := map[string]any{}
	for _, kind := range []string{"string", "integer", "number", "boolean", text} {
		properties[text+kind] = map[string]any{"type": kind, "description": text, "default": text, "pattern": text, "minimum": text}
	}
	properties["pick"] = map[string]any{"type": "string", "enum": []string{text, "b"}, "description": text}
	schema, _ := json.Marshal(map[string]any{"type": "object", "properties": properties, "required": []string{text, "pick"}})
	return schema
}

func TestD23NoStoredTextBecomesMarkup(t *testing.T) {
	g := over(t, hostileFleet(canary), nil)
	for _, path := range append([]string{
		"/", "/jobs", "/jobs?state=failed", "/jobs/fleet/waits", "/jobs/fleet/runs", "/jobs/fleet/fails", "/jobs/fleet/works",
		"/jobs?q=%22%3E%3Ccanary%3E&worker=%22%3E%3Ccanary%3E&kind=%22%3E%3Ccanary%3E", "/login?next=%22%3E%3Ccanary%3E", "/find?q=%3Ccanary%3E", "/nothing",
	}, morePages...) {
		p := g.ask(t, "GET "+path, "")
		if p.status >= 500 {
			t.Errorf("%s: status %d\n%s\n%s", path, p.status, mainOf(p.body), g.Logged.String())
		}
		p.lacks(t, path, "<canary", "\x1b", "\x00", "\u202e", "\u2066", "</script>\x1b", `href="javascript:`, `src="javascript:`, ` onx=1>`)
		if strings.Count(p.body, "<main") > 1 || strings.Count(p.body, "</title>") > 1 {
			t.Errorf("%s has more than one main part or title", path)
		}
	}
}

// morePages are the pages beside those of jobs.
var morePages = []string{"/new", "/new?scope=fleet&kind=form", "/new?clone=waits&scope=fleet", "/workers", "/kinds", "/failed", "/system", "/failed/redrive", "/failed/purge", "/bulk?do=cancel&filter=scope%3Dfleet%26q%3D%2522%253E%253Ccanary%253E"}

func TestD23LongTextsAreCut(t *testing.T) {
	long := strings.Repeat("long ", 1<<20/5)
	g := over(t, hostileFleet(long), nil)
	for _, path := range append([]string{"/", "/jobs", "/jobs/fleet/waits", "/jobs/fleet/fails"}, morePages...) {
		p := g.ask(t, "GET "+path, "")
		if p.status >= 500 || len(p.body) > 4<<20 {
			t.Errorf("%s: status %d, %d bytes", path, p.status, len(p.body))
		}
	}
}
