package subject

import (
	"strings"
	"testing"
)

func TestG26Match(t *testing.T) {
	for _, test := range []struct {
		pattern, subject string
		want             bool
	}{
		{"job.assign.calc", "job.assign.calc", true},
		{"job.assign.*", "job.assign.calc", true},
		{"job.*.calc", "job.assign.calc", true},
		{"*.*.*", "job.assign.calc", true},
		{"job.assign.>", "job.assign.gpu.train", true},
		{"job.assign.gpu.>", "job.assign.gpu.train", true},
		{">", "job", true},
		{">", "job.assign.calc", true},
		{"job.*.>", "job.assign.gpu.train", true},
		{"job.assign.*", "job.assign", false},
		{"job.assign.*", "job.assign.gpu.train", false},
		{"job.assign", "job.assign.calc", false},
		{"job.assign.>", "job.assign", false}, // > is one token or more
		{"job.assign.calc", "job.assign.Calc", false},
		{"job.assign.a", "job.assign.ab", false},
		{"job.assign.ab", "job.assign.a", false},
		{"*", "job.assign", false},
		{"job.*.>", "job.assign", false},
	} {
		if err := CheckPattern(test.pattern); err != nil {
			t.Errorf("pattern: %v", err)
		}
		if err := CheckSubject(test.subject); err != nil {
			t.Errorf("subject: %v", err)
		}
		if got := Match(test.pattern, test.subject); got != test.want {
			t.Errorf("Match(%q, %q) = %t, want %t", test.pattern, test.subject, got, test.want)
		}
	}
}

func TestG26CheckRefusesAmbiguousNames(t *testing.T) {
	for _, test := range []struct{ name, s, inPattern, inSubject string }{
		{"nothing", "", "empty token", "empty token"},
		{"a dot at the start", ".a", "empty token", "empty token"},
		{"a dot at the end", "job.assign.a.", "empty token", "empty token"},
		{"two dots", "job..a", "empty token", "empty token"},
		{"a blank", "job.a b", "a blank", "a blank"},
		{"a tab", "job.\ta", "a blank", "a blank"},
		{"a carriage return", "job.a\r", "line end", "line end"},
		{"a line end", "job.a\n", "line end", "line end"},
		{"a form feed", "job.a\f", "line end", "line end"},
		{"a NUL", "job.a\x00", "NUL", "NUL"},
		{"a > before the end", "job.>.a", "not its last token", "wildcard"},
		{"a star within a token", "job.assign.*x", "within a token", "wildcard"},
		{"a star at the end of a token", "job.assign.a*", "within a token", "wildcard"},
		{"two >", "job.>>", "within a token", "wildcard"},
		{"a > within a token", "job.a>", "within a token", "wildcard"},
		{"a pattern", "job.assign.>", "", "wildcard"},
		{"a pattern with a star", "job.*.a", "", "wildcard"},
		{"a subject", "job.assign.a-b_c", "", ""},
		{"a subject of the most bytes", strings.Repeat("a", MaxLen), "", ""},
		{"one byte more", strings.Repeat("a", MaxLen+1), "at most 512", "at most 512"},
	} {
		t.Run(test.name, func(t *testing.T) {
			wantError(t, "CheckPattern", CheckPattern(test.s), test.inPattern)
			wantError(t, "CheckSubject", CheckSubject(test.s), test.inSubject)
		})
	}
}

// wantError checks that err says part, or that there is none if part is empty.
func wantError(t *testing.T, what string, err error, part string) {
	t.Helper()
	if part == "" && err != nil || part != "" && (err == nil || !strings.Contains(err.Error(), part)) {
		t.Errorf("%s = %v, want an error with %q", what, err, part)
	}
}

// FuzzF3Match compares Match with one that works on lists of tokens.
func FuzzF3Match(f *testing.F) {
	for _, seed := range [][2]string{{"job.assign.>", "job.assign"}, {"job.*.>", "job.assign.a.b"}, {"*.a", "b.a"}, {">", ""}, {"a*", "a*"}, {"job.>.a", "job.b.a"}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, pattern, subject string) {
		if CheckSubject(pattern) == nil && CheckPattern(pattern) != nil {
			t.Errorf("%q is a subject and no pattern", pattern)
		}
		if CheckPattern(pattern) != nil || CheckSubject(subject) != nil {
			return
		}
		if got, want := Match(pattern, subject), reference(strings.Split(pattern, "."), strings.Split(subject, ".")); got != want {
			t.Errorf("Match(%q, %q) = %t, want %t", pattern, subject, got, want)
		}
	})
}

func reference(pattern, subject []string) bool {
	switch {
	case len(pattern) == 0 || len(subject) == 0:
		return len(pattern) == len(subject)
	case pattern[0] == ">":
		return true
	}
	return (pattern[0] == "*" || pattern[0] == subject[0]) && reference(pattern[1:], subject[1:])
}
