package command

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"
)

func FuzzStderrTail(f *testing.F) {
	f.Add([]byte("hello"), 1, 1)
	f.Add([]byte("0123456789"), 500, 7)
	f.Add([]byte("\xff日本語"), 900, 1000)
	f.Fuzz(func(t *testing.T, unit []byte, times, size int) {
		all := bytes.Repeat(unit[:min(len(unit), 100)], max(0, times)%300)
		size = max(0, size)%5000 + 1
		var w stderrTail
		for rest := all; len(rest) > 0; rest = rest[min(size, len(rest)):] {
			if n, err := w.Write(rest[:min(size, len(rest))]); n != min(size, len(rest)) || err != nil {
				t.Fatalf("Write = %d, %v", n, err)
			}
		}
		got := w.String()
		want := string(all)
		if len(all) > headBytes+tailBytes {
			want = string(all[:headBytes]) + omitted + string(all[len(all)-tailBytes:])
		}
		if got != strings.ToValidUTF8(want, "") || !utf8.ValidString(got) || len(got) > 4<<10 {
			t.Fatalf("of %d bytes kept %d:\n%q\nwant\n%q", len(all), len(got), got, want)
		}
		if cap(w.tail) > 8*tailBytes {
			t.Fatalf("holds %d bytes", cap(w.tail))
		}
	})
}
