package httpd

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

type result struct {
	Result  json.RawMessage `json:"result" required:"true"`
	Summary string          `json:"summary_text" required:"true"`
	Seconds float64         `json:"seconds"`
	Count   int8            `json:"count"`
	Tags    []struct {
		Name string `json:"name" required:"true"`
	} `json:"tags"`
	Meta struct {
		Host string `json:"host"`
		When time.Time
	} `json:"meta"`
	By map[string]struct{ N uint }
}

func TestZ04BadBodiesAreNamedInWordsForPeople(t *testing.T) {
	const ok = `"result":{},"summary_text":"s"`
	deep := func(n int) string {
		return `{"result":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `,"summary_text":"s"}`
	}
	many := func(last string) string {
		var b strings.Builder
		for i := range 40 {
			fmt.Fprintf(&b, `"k%d":1,`, i)
		}
		return `{"result":{` + b.String() + `"` + last + `":2},"summary_text":"s"}`
	}
	tests := []struct{ name, body, want string }{
		{"all is well", `{` + ok + `}`, ""},
		{"space around", " \r\n\t{" + ok + "} \n", ""},
		{"required field missing", `{"result":{}}`, "Missing required field: summary_text"},
		{"the first of two is named", `{}`, "Missing required field: result"},
		{"required field null", `{"result":{},"summary_text":null}`, "Missing required field: summary_text"},
		{"required raw field null", `{"result":null,"summary_text":""}`, "Missing required field: result"},
		{"required in an element", `{` + ok + `,"tags":[{"name":"a"},{}]}`, "Missing required field: tags[1].name"},
		{"null for an element", `{` + ok + `,"tags":[null]}`, "Invalid field tags[0]: want an object, got null"},
		{"null for a value of a map", `{` + ok + `,"By":{"x":null}}`, "Invalid field By.x: want an object, got null"},
		{"null for the body", `null`, "Invalid body: want an object, got null"},
		{"optional null is left out", `{` + ok + `,"seconds":null,"meta":null,"tags":null}`, ""},
		{"unknown field", `{` + ok + `,"meta":{"hots":"x"}}`, "Invalid field meta.hots: unknown; the fields are When, host"},
		{"name in other case", `{"result":{},"Summary_Text":"s"}`, "Invalid field Summary_Text: unknown; names are case-sensitive: summary_text"},
		{"key twice", `{` + ok + `,"count":1,"count":2}`, "Invalid field count: it is there twice"},
		{"key twice, once in disguise", `{` + ok + `,"count":1,"c\u006funt":2}`, "Invalid field count: it is there twice"},
		{"key twice, deep in a raw value", `{"result":{"a":[0,{"b":1,"b":1}]},"summary_text":"s"}`, "Invalid field result.a[1].b: it is there twice"},
		{"the same key in two objects", `{"result":{"a":{"a":1},"b":{"a":1}},"summary_text":"s"}`, ""},
		{"key twice among many", many("k1"), "Invalid field result.k1: it is there twice"},
		{"late key twice among many", many("k39"), "Invalid field result.k39: it is there twice"},
		{"many keys", many("k"), ""},
		{"as deep as may be", deep(63), ""},
		{"too deep", deep(64), "Invalid field result" + strings.Repeat("[0]", 63) + ": not JSON at byte 74: nested more than 64 deep"},
		{"wrong type", `{` + ok + `,"meta":{"host":5}}`, "Invalid field meta.host: want a string, got number"},
		{"overflow of an integer", `{` + ok + `,"count":128}`, "Invalid field count: want a whole number of 8 bits, got number 128"},
		{"fraction for an integer", `{` + ok + `,"count":1.5}`, "Invalid field count: want a whole number of 8 bits, got number 1.5"},
		{"overflow of a double", `{` + ok + `,"seconds":1e309}`, "Invalid field seconds: want a number in the range of a double, got number 1e309"},
		{"a list for the body", `[]`, "Invalid body: want an object, got array"},
		{"NaN", `{` + ok + `,"seconds":NaN}`, "Invalid field seconds: not JSON at byte 43: found 'N' where a value should be"},
		{"NaN in a raw value", `{"result":{"x":NaN}}`, "Invalid field result.x: not JSON at byte 16: found 'N' where a value should be"},
		{"infinity", `{` + ok + `,"seconds":-Infinity}`, "Invalid field seconds: not JSON at byte 44: found 'I' where a digit should be"},
		{"leading zero", `{` + ok + `,"count":01}`, "Invalid body: not JSON at byte 42: found '1' where ',' or '}' should be"},
		{"number without end", `{` + ok + `,"seconds":1e}`, "Invalid field seconds: not JSON at byte 45: found '}' where a digit should be"},
		{"trailing data", `{` + ok + `}{}`, "Invalid body: not JSON at byte 33: there is more after the JSON value"},
		{"trailing comma", `{` + ok + `,}`, "Invalid body: not JSON at byte 33: found '}' where a field name in quotes should be"},
		{"two commas", `{"result":[1,,2]}`, "Invalid field result[1]: not JSON at byte 14: found ',' where a value should be"},
		{"comma at the end of an array", `{"result":[1,]}`, "Invalid field result[1]: not JSON at byte 14: found ']' where a value should be"},
		{"no value", `{"result":}`, "Invalid field result: not JSON at byte 11: found '}' where a value should be"},
		{"no colon", `{"result"}`, "Invalid body: not JSON at byte 10: found '}' where ':' should be"},
		{"wrong bracket", `{"result":[1}`, "Invalid field result: not JSON at byte 13: found '}' where ',' or ']' should be"},
		{"half a word", `{"result":nul}`, "Invalid field result: not JSON at byte 11: found 'n' where a value should be"},
		{"object for a name", `{{"`, "Invalid body: not JSON at byte 2: found '{' where a field name in quotes should be"},
		{"cut short behind a comma", `{"result":[1, `, "Invalid field result[1]: not JSON at byte 15: it ends where a value should be"},
		{"cut short", `{"result":{},"summ`, "Invalid body: not JSON at byte 19: it ends where the end of a string should be"},
		{"not UTF-8", "{\"result\":{},\"summary_text\":\"\xff\"}", "Invalid body: it is not UTF-8"},
		{"half a surrogate pair", `{"result":"\ud83d","summary_text":"s"}`, `Invalid field result: not JSON at byte 12: bad escape in a string; a surrogate \uD800 to \uDFFF must be one of a pair`},
		{"surrogate with a letter", `{"result":"\ud83d\u0041","summary_text":"s"}`, `Invalid field result: not JSON at byte 12: bad escape in a string; a surrogate \uD800 to \uDFFF must be one of a pair`},
		{"surrogates in the wrong order", `{"result":"\ude00\ud83d","summary_text":"s"}`, `Invalid field result: not JSON at byte 12: bad escape in a string; a surrogate \uD800 to \uDFFF must be one of a pair`},
		{"surrogate pair", `{"result":"\ud83d\ude00","summary_text":"s"}`, ""},
		{"raw control character", "{\"result\":\"\n\"}", "Invalid field result: not JSON at byte 12: control characters in a string must be escaped"},
		{"NUL byte", "{\x00}", `Invalid body: not JSON at byte 2: found '\x00' where a field name in quotes should be`},
		{"byte order mark", "\ufeff{}", `Invalid body: not JSON at byte 1: found '\ufeff' where a value should be`},
		{"hostile name", `{"a\n` + strings.Repeat("x", 99) + `":1}`, `Invalid field "a\n` + strings.Repeat("x", 62) + `…": unknown; the fields are By, count, meta, result, seconds, summary_text, tags`},
		{"empty", ``, "Invalid body: it is empty; send JSON"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got string
			if err := read(t, &result{}, BodyOptions{}, "application/json", tt.body); err != nil {
				got = err.Error()
				if _, ok := errors.AsType[*BodyError](err); !ok {
					t.Errorf("error is a %T, want a *BodyError", err)
				}
			}
			if got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func read(t *testing.T, dst any, o BodyOptions, kind, body string) error {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(body))
	if kind != "" {
		r.Header.Set("Content-Type", kind)
	}
	return ReadJSON(httptest.NewRecorder(), r, 4096, dst, o)
}

func TestIgnoredFieldsAreNotTakenForOthers(t *testing.T) {
	got := struct {
		Name string `json:"name"`
		Raw  json.RawMessage
	}{Name: "as it was"}
	err := read(t, &got, BodyOptions{IgnoreUnknown: true}, "application/json",
		`{"NAME":"x","ſ":1,"n\u0041me":2,"":3,"Raw":{"NAME":1e-17},"raw":4}`)
	if err != nil {
		t.Fatal(err)
	}
	if got.Name != "as it was" || string(got.Raw) != `{"NAME":1e-17}` {
		t.Errorf("got %q and %s; fields of other names have been taken", got.Name, got.Raw)
	}
	err = read(t, &got, BodyOptions{IgnoreUnknown: true}, "application/json", `{"x":1,"x":2}`)
	if want := "Invalid field x: it is there twice"; err == nil || err.Error() != want {
		t.Errorf("an ignored field twice: %v, want %s", err, want)
	}
}

// JSON Schema knows no difference between 60 and 60.0.
func TestZ02WholeNumbersMayHaveZerosBehindThePoint(t *testing.T) {
	var got result
	err := read(t, &got, BodyOptions{}, "application/json", `{"result":{"n":1.0},"summary_text":"","seconds":2.50,"count":-60.00,"By":{"a":{"N":7.0}}}`)
	if err != nil || got.Count != -60 || got.By["a"].N != 7 || got.Seconds != 2.5 {
		t.Errorf("%+v, %v", got, err)
	}
	if string(got.Result) != `{"n":1.0}` {
		t.Errorf("a result became %s, want it as it was", got.Result)
	}
}

func TestZ40AnEmptyBodyMayBeAllowed(t *testing.T) {
	for _, kind := range []string{"", "application/json", "application/x-www-form-urlencoded"} {
		if err := read(t, &result{}, BodyOptions{AllowEmpty: true}, kind, ""); err != nil {
			t.Errorf("empty body of type %q: %v", kind, err)
		}
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", io.MultiReader()) // of unknown length
	if err := ReadJSON(httptest.NewRecorder(), r, 10, &result{}, BodyOptions{AllowEmpty: true}); err != nil {
		t.Errorf("empty body in chunks: %v", err)
	}
}

func TestZ03OtherTypesAre415(t *testing.T) {
	tests := []struct {
		name string
		head http.Header
		ok   bool
	}{
		{"plain", http.Header{"Content-Type": {"application/json"}}, true},
		{"charset", http.Header{"Content-Type": {"Application/JSON; charset=\"UTF-8\""}}, true},
		{"identity", http.Header{"Content-Type": {"application/json"}, "Content-Encoding": {"identity"}}, true},
		{"none", http.Header{}, false},
		{"form", http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, false},
		{"text", http.Header{"Content-Type": {"text/plain"}}, false},
		{"two", http.Header{"Content-Type": {"application/json", "application/json"}}, false},
		{"other charset", http.Header{"Content-Type": {"application/json; charset=utf-16"}}, false},
		{"other parameter", http.Header{"Content-Type": {"application/json; a=b"}}, false},
		{"nonsense", http.Header{"Content-Type": {"application/json;;;="}}, false},
		{"packed", http.Header{"Content-Type": {"application/json"}, "Content-Encoding": {"gzip"}}, false},
	}
	for _, tt := range tests {
		for _, length := range []int64{2, -1} {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader("{}"))
			r.Header, r.ContentLength = tt.head, length
			err := ReadJSON(httptest.NewRecorder(), r, 10, &struct{}{}, BodyOptions{})
			status, _ := errors.AsType[*StatusError](err)
			if tt.ok != (err == nil) || !tt.ok && status.Status != http.StatusUnsupportedMediaType {
				t.Errorf("%s, length %d: got %v, want it taken: %v", tt.name, length, err, tt.ok)
			}
		}
	}
}

func TestEmbeddedFieldsBelongToTheStruct(t *testing.T) {
	type Lease struct {
		ID string `json:"lease_id" required:"true"`
	}
	var got struct {
		Lease
		Next *Lease `json:"next"`
	}
	if err := read(t, &got, BodyOptions{}, "application/json", `{"lease_id":"l","next":{"lease_id":"m"}}`); err != nil || got.ID != "l" || got.Next.ID != "m" {
		t.Errorf("got %+v, %v", got, err)
	}
	err := read(t, &got, BodyOptions{}, "application/json", `{"lease_id":"l","next":{}}`)
	if err == nil || err.Error() != "Missing required field: next.lease_id" {
		t.Errorf("got %v", err)
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`{"result":{"a":[1e-17,true,null]},"summary_text":"\u00e9\n"}`, `{"a":1,"a":2}`, `[[[{}]]]`, `"\ud83d\ude00"`,
		`{"RESULT":1,"result":2,"summary_text":"","tags":[{"name":""}],"By":{"":{"N":1}}}`, "\xff", `-0.0E+1`, `{"":`, "",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		s := scanner{data: raw}
		err := s.document(nil)
		if err == nil && (!json.Valid(raw) || !utf8.Valid(raw)) {
			t.Fatalf("%q was taken", raw)
		}
		if err != nil && json.Valid(raw) && utf8.Valid(raw) && !ours(err) {
			t.Fatalf("%q was refused: %v", raw, err)
		}
		var strict, loose result
		if parse(bytes.Clone(raw), &strict, BodyOptions{}) != nil {
			return
		}
		// What we take means the same to encoding/json, which is less strict.
		if err := json.Unmarshal(raw, &loose); err != nil || !reflect.DeepEqual(strict, loose) {
			t.Fatalf("%q: %v\n got %+v\nwant %+v", raw, err, strict, loose)
		}
		if err := parse(raw, &strict, BodyOptions{IgnoreUnknown: true}); err != nil {
			t.Fatalf("%q is refused with fewer rules: %v", raw, err)
		}
	})
}

// ours reports whether err is of the rules that encoding/json does not have.
func ours(err error) bool {
	s := err.Error()
	return strings.HasSuffix(s, "twice") || strings.HasSuffix(s, "deep") || strings.Contains(s, "surrogate")
}

func BenchmarkReadJSON(b *testing.B) {
	body := `{"result":{"zpe_ev":0.2728,"freqs":[` + strings.Repeat("4401.213,", 40) + `1e-17]},"summary_text":"` +
		strings.Repeat("ZPE summary line\\n", 70) + `","seconds":12.5,"tags":[{"name":"a"},{"name":"b"}],"meta":{"host":"n1"}}`
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(b.Context(), http.MethodPost, "/", nil)
	r.Header.Set("Content-Type", "application/json")
	r.ContentLength = int64(len(body))
	for b.Loop() {
		r.Body = io.NopCloser(strings.NewReader(body))
		var dst result
		if err := ReadJSON(w, r, 1<<20, &dst, BodyOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkReadJSONManyKeys(b *testing.B) {
	var body bytes.Buffer
	body.WriteByte('{')
	for i := range 100_000 {
		if i > 0 {
			body.WriteByte(',')
		}
		fmt.Fprintf(&body, `"k%d":1`, i)
	}
	body.WriteByte('}')
	b.SetBytes(int64(body.Len()))
	for b.Loop() {
		s := scanner{data: body.Bytes()}
		if err := s.document(nil); err != nil {
			b.Fatal(err)
		}
	}
}

func TestFieldsOfEmbeddedStructsAreNamedAsTheyAreWritten(t *testing.T) {
	type Inner struct {
		N int `json:"n"`
	}
	type Middle struct{ Inner }
	var dst struct {
		Middle
		Own Inner `json:"own"`
	}
	for text, want := range map[string]string{`{"n":"x"}`: "n", `{"own":{"n":"x"}}`: "own.n"} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(text))
		r.Header.Set("Content-Type", "application/json")
		err := ReadJSON(httptest.NewRecorder(), r, 1000, &dst, BodyOptions{})
		var body *BodyError
		if !errors.As(err, &body) || body.Field != want {
			t.Errorf("%s: %v, want field %s", text, err, want)
		}
	}
}

func TestNamesAreCleanedBeforeTheyAreShortened(t *testing.T) {
	long := strings.Repeat("a", 100) + " secret"
	clean := func(name string) string { return strings.ReplaceAll(name, long, "none") }
	for body, want := range map[string]string{
		`{"` + long + `":1}`:                                                `Invalid field "none": unknown; the fields are By, count, meta, result, seconds, summary_text, tags`,
		`{"` + strings.Repeat("é", 2000) + `":1}`:                           "Invalid field " + strings.Repeat("é", 32) + "…: unknown; the fields are By, count, meta, result, seconds, summary_text, tags",
		`{"summary_text":"s","result":{"` + long + `":1,"` + long + `":2}}`: `Invalid field result."none": it is there twice`,
	} {
		if err := read(t, &result{}, BodyOptions{Clean: clean}, "application/json", body); err == nil || err.Error() != want {
			t.Errorf("%.40s: %v, want %s", body, err, want)
		}
	}
}
