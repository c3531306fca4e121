package command

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"
)

// split feeds stream to a splitter in pieces of size bytes.
func split(stream string, limit, size int) (lines []string, rest string, err error) {
	s := splitter{max: limit}
	for len(stream) > 0 && err == nil {
		n := min(size, len(stream))
		piece := []byte(stream[:n])
		err = s.write(piece, func(line []byte) error { lines = append(lines, string(line)); return nil })
		clear(piece) // the splitter must not keep it
		stream = stream[n:]
	}
	return lines, string(s.rest), err
}

func FuzzSplitter(f *testing.F) {
	f.Add("one\ntwo\n\nthree", 10, 2)
	f.Add("exactly10!\nexactly11!!\n", 10, 100)
	f.Add("", 0, 0)
	f.Add("\n\n\n", 0, 1)
	f.Fuzz(func(t *testing.T, stream string, limit, size int) {
		limit, size = max(0, limit)%100, max(0, size)%50+1
		lines, rest, err := split(stream, limit, size)
		want := strings.Split(stream, "\n")
		for i, line := range want {
			if len(line) > limit {
				want = want[:i] // the lines before the first that is too long
				if err == nil {
					t.Fatalf("line %d of %d bytes passed the limit of %d", i, len(line), limit)
				}
				if got := strings.Join(lines, "\n"); got != strings.Join(want, "\n") || len(lines) != len(want) {
					t.Fatalf("got %q, want %q", lines, want)
				}
				return
			}
		}
		if err != nil {
			t.Fatalf("%v for lines of at most %d bytes", err, limit)
		}
		if got := append(lines, rest); strings.Join(got, "\n") != stream || len(got) != len(want) {
			t.Fatalf("got %q, want %q", got, want)
		}
	})
}

func FuzzLastWords(f *testing.F) {
	f.Add([]byte("hello"), 1, 1)
	f.Add([]byte("0123456789"), 500, 7)
	f.Add([]byte("\xff日本語"), 900, 1000)
	f.Fuzz(func(t *testing.T, unit []byte, times, size int) {
		all := bytes.Repeat(unit[:min(len(unit), 100)], max(0, times)%300)
		size = max(0, size)%5000 + 1
		var w lastWords
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
