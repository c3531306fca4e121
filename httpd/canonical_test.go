package httpd

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

func TestZ54SameContentHasOneText(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"keys are sorted at every depth", `{"b":1,"a":{"d":[{"z":1,"y":2}],"c":""}}`, `{"a":{"c":"","d":[{"y":2,"z":1}]},"b":1}`},
		{"keys are sorted by what they mean", `{"b":1,"\u0061":2,"é":3,"":4}`, `{"":4,"a":2,"b":1,"é":3}`},
		{"space goes", " [ 1 ,\t2\r\n, { } , [ ] ] ", `[1,2,{},[]]`},
		{"escapes have one form", `"\u0041\/\u000a\u001F\ud83d\ude00\"\\\u007f\u2028"`, "\"A/\\n\\u001f😀\\\"\\\\\x7f\u2028\""},
		{"words stay", `[true,false,null]`, `[true,false,null]`},
		{"html is left alone", `"<&>"`, `"<&>"`},
	}
	for _, tt := range tests {
		got, err := CanonicalJSON([]byte(tt.in))
		if err != nil || string(got) != tt.want {
			t.Errorf("%s: got %s, %v, want %s", tt.name, got, err, tt.want)
		}
	}
}

func TestZ55NumbersStayAsTheyAreWritten(t *testing.T) {
	const in = `[1e-17,123456789012345678901234567890,0.1000,-0,1E+2]`
	if got, err := CanonicalJSON([]byte(in)); err != nil || string(got) != in {
		t.Errorf("got %s, %v, want %s", got, err, in)
	}
	for _, bad := range []string{`NaN`, `[Infinity]`, `{"a":-Infinity}`, `{"a":1,"a":1}`, `"\ud800"`, ``, strings.Repeat("[", 65) + strings.Repeat("]", 65)} {
		if got, err := CanonicalJSON([]byte(bad)); err == nil {
			t.Errorf("%s: got %s, want it refused", bad, got)
		}
	}
}

func FuzzCanonicalJSON(f *testing.F) {
	f.Add([]byte(`{"b":[1,2.50,{"y":"\u0041"}],"a":null}`), []byte(` {"a" : null, "b":[1,2.50,{"y":"A"}]}`))
	f.Add([]byte(`"\ud83d\ude00"`), []byte(`"😀"`))
	f.Add([]byte(`[{},[],""]`), []byte(`[{},[],"\u0000"]`))
	f.Fuzz(func(t *testing.T, x, y []byte) {
		cx, err := CanonicalJSON(x)
		if err != nil {
			return
		}
		if again, err := CanonicalJSON(cx); err != nil || !bytes.Equal(again, cx) {
			t.Fatalf("%q became %q and then %q, %v", x, cx, again, err)
		}
		vx := value(t, x)
		if !reflect.DeepEqual(vx, value(t, cx)) {
			t.Fatalf("%q became %q, which means something else", x, cx)
		}
		// Another spelling of the same value: encoding/json sorts and escapes its own way.
		other, err := json.Marshal(vx)
		if err != nil {
			t.Fatal(err)
		}
		if co, err := CanonicalJSON(other); err != nil || !bytes.Equal(co, cx) {
			t.Fatalf("%q and %q mean the same, but became %q and %q, %v", x, other, cx, co, err)
		}
		cy, err := CanonicalJSON(y)
		if err != nil {
			return
		}
		if bytes.Equal(cx, cy) != reflect.DeepEqual(vx, value(t, y)) {
			t.Fatalf("%q and %q became %q and %q", x, y, cx, cy)
		}
	})
}

// value is what raw means, numbers as they are written.
func value(t *testing.T, raw []byte) (v any) {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("%q: %v", raw, err)
	}
	return v
}
