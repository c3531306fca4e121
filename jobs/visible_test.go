package jobs_test

import (
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/batchfleet/batchfleet/jobs"
)

func TestVisible(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"plain text", "a plain\ttext\n", "a plain\ttext\n"},
		{"letters of other scripts", "größe 日本 שלום 👍", "größe 日本 שלום 👍"},
		{"a terminal's commands", "\x1b[2J\x1b]0;title\x07", `\x1b[2J\x1b]0;title\x07`},
		{"NUL, backspace and delete", "a\x00b\bc\x7f", `a\x00b\x08c\x7f`},
		{"C1 controls", "\u009b31m\u0085", `\u009b31m\u0085`},
		{"marks of direction", "invoice\u202efdp.exe\u2066\u200f", `invoice\u202efdp.exe\u2066\u200f`},
		{"what is not seen", "a\u200bb\ufeffc\u00ad\U000e0041", `a\u200bb\ufeffc\u00ad\U000e0041`},
		{"separators", "a\u2028b\u2029", `a\u2028b\u2029`},
		{"what is not UTF-8", "a\x9b\xff\xe2\x80", `a\x9b\xff\xe2\x80`},
		{"line ends of Windows", "a\r\nb\rc", "a\nb\\x0dc"},
		{"the mark for what is not UTF-8", "\ufffd", "\ufffd"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := jobs.Visible(tt.text); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if name := tt.text == tt.want && tt.name != "plain text"; jobs.IsVisible(tt.text) != name {
				t.Errorf("may be a name: %t, want %t", !name, name)
			}
		})
	}
	if got := jobs.VisibleLine("a\tb\nc\x1b\r\n"); got != `a b c\x1b ` {
		t.Errorf("as a line it is %q", got)
	}
}

func FuzzVisible(f *testing.F) {
	for _, seed := range []string{"", "a\tb\r\n", "\x1b[0m\u202e\x9b", "日本\U000e0001\ufffd\xed\xa0\x80"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := jobs.Visible(s)
		if !utf8.ValidString(got) || jobs.Visible(got) != got {
			t.Errorf("%q became %q, which is not visible", s, got)
		}
		for _, r := range got {
			if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) {
				t.Errorf("%q became %q, which has %q", s, got, r)
			}
		}
	})
}
