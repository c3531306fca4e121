package jobs

import "testing"

func TestClip(t *testing.T) {
	tests := []struct {
		name, in string
		limit    int
		mark     string
		want     string
	}{
		{"nothing", "", 0, "", ""},
		{"fits", "abc", 3, "…", "abc"},
		{"too long", "abc", 2, "", "ab"},
		{"too long, marked", "abcdef", 5, "…", "ab…"},
		{"between runes", "a報", 3, "", "a"},
		{"whole runes fit", "a報", 4, "", "a報"},
		{"not even one rune", "報", 1, "", ""},
		{"between runes, marked", "報報報", 8, "…", "報…"},
		{"four bytes", "😀😀", 7, "", "😀"},
		{"no UTF-8", "a\xff\xfeb", 10, "", "a\uFFFDb"},
		{"grows beyond the limit", "a\xffb", 4, "", "a\uFFFD"},
		{"half a rune at the end", "abc\xe5\xa0", 4, "", "abc"},
		{"nothing but the mark", "abcdef", 3, "…", "…"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Clip(tt.in, tt.limit, tt.mark); got != tt.want {
				t.Errorf("Clip(%q, %d, %q) = %q, want %q", tt.in, tt.limit, tt.mark, got, tt.want)
			}
		})
	}
}
