package status

import (
	"testing"
	"unicode/utf8"
)

func FuzzParseDocument(f *testing.F) {
	for _, seed := range []string{
		`{"status":"processing","progress":41,"message":"Page 5/12 analyzing...","result_url":"","error_msg":"","updated_at":"2026-02-12T06:35:00Z"}`,
		`{"status":7}`, `{"status":"queued","progress":"x"}`, `{"status":"x","progress":1e400}`, "null", "[]", "{", "\xff", "",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, ok := parseDocument(text)
		if ok && (d.State() == 0 || d.Progress < 0 || d.Progress > 100 || !utf8.ValidString(d.Message)) {
			t.Errorf("%q became %+v", text, d)
		}
	})
}

func FuzzParseCursor(f *testing.F) {
	for _, seed := range []string{"", "1/a", "/", "9007199254740991/x", "1/.."} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := parseCursor(text)
		if err != nil || text == "" {
			return
		}
		if again, err := parseCursor(cursorOf(p)); err != nil || again != p {
			t.Errorf("%q became %v, and that %v, %v", text, p, again, err)
		}
	})
}
