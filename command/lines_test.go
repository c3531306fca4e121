package command

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

// split feeds stream to a splitter in pieces of size bytes.
func split(stream string, limit, size int) (lines []string, rest string, err error) {
	s := splitter{max: limit}
	for len(stream) > 0 && err == nil {
		n := min(size, len(stream))
		piece := []byte(stream[:n])
		err = s.write(piece, func(line []byte, _ bool) error { lines = append(lines, string(line)); return nil })
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

// logged is what a log is given: a line with "…" after it if it was cut.
func logged(lines []string, line []byte, cut bool) []string {
	if cut {
		return append(lines, string(line)+"…")
	}
	return append(lines, string(line))
}

// wantLogged is the log of the first kept bytes of a stream, by replacing and
// splitting.
func wantLogged(stream string, limit, kept int) (want []string) {
	text := stream[:kept]
	next := stream[kept:]
	for i, line := range strings.Split(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text), "\n") {
		last := i == strings.Count(strings.ReplaceAll(text, "\r\n", "\n"), "\r")+strings.Count(text, "\n")
		switch {
		case last && line == "":
		case len(line) > limit:
			want = logged(want, []byte(line[:limit]), true)
		case last && next != "" && next[0] != '\n' && next[0] != '\r':
			want = logged(want, []byte(line), true)
		default:
			want = logged(want, []byte(line), false)
		}
	}
	return want
}

// FuzzOutputLog divides a stream into reads in any way, for both streams at once:
// the lines are the same.
func FuzzOutputLog(f *testing.F) {
	f.Add("one\r\ntwo\rthree\n\n\r\r\nrest", 3, 12, 1)
	f.Add("  0%\r 50%\r100%\r\ndone\r", 10, 0, 7)
	f.Add("exactly10!\nexactly11!!\nx", 10, 11, 100)
	f.Add("0123456789", 4, 6, 3)
	f.Add("\r\n", 1, 1, 1)
	f.Fuzz(func(t *testing.T, stream string, limit, most, size int) {
		limit, most, size = max(0, limit)%100+1, max(0, most)%300, max(0, size)%50+1
		var lines [Stderr + 1][]string
		c := &Command{
			Limits: Limits{LineBytes: limit, OutputBytes: int64(2 * most)},
			Output: func(s Stream, line []byte, cut bool) error {
				lines[s] = logged(lines[s], line, cut)
				return nil
			},
		}
		if limit%2 == 0 { // it takes some of the same lines
			c.Overwritten = func(s Stream, line []byte) error { return c.Output(s, line, false) }
		}
		o := newOutputLog(c)
		for rest := []byte(stream); len(rest) > 0; {
			// One byte of each in turn, or the limit would cut one of them sooner.
			n := min(size, len(rest))
			if most > 0 {
				n = 1
			}
			for _, s := range []Stream{Stdout, Stderr} {
				piece := bytes.Clone(rest[:n])
				if err := o.write(s, piece); err != nil {
					t.Fatal(err)
				}
				clear(piece) // it must not be kept
			}
			rest = rest[n:]
		}
		kept := len(stream)
		if most > 0 {
			kept = min(kept, most)
		}
		want := wantLogged(stream, limit, kept)
		for _, s := range []Stream{Stdout, Stderr} {
			if err := o.end(s); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(lines[s], want) {
				t.Errorf("%s: got %q, want %q", s, lines[s], want)
			}
		}
		if want := int64(2 * (len(stream) - kept)); o.dropped != want {
			t.Errorf("dropped %d bytes, want %d", o.dropped, want)
		}
	})
}

// FuzzOutputLimit divides one stream with a limit into reads in any way.
func FuzzOutputLimit(f *testing.F) {
	f.Add("one\r\ntwo\nthree", 4, 5, 2)
	f.Add("one\r\ntwo\nthree", 2, 8, 9)
	f.Fuzz(func(t *testing.T, stream string, limit, most, size int) {
		limit, most, size = max(0, limit)%100+1, max(0, most)%300+1, max(0, size)%50+1
		var lines []string
		o := newOutputLog(&Command{
			Limits: Limits{LineBytes: limit, OutputBytes: int64(most)},
			Output: func(_ Stream, line []byte, cut bool) error { lines = logged(lines, line, cut); return nil },
		})
		for rest := []byte(stream); len(rest) > 0; rest = rest[min(size, len(rest)):] {
			if err := o.write(Stderr, rest[:min(size, len(rest))]); err != nil {
				t.Fatal(err)
			}
		}
		if err := o.end(Stderr); err != nil {
			t.Fatal(err)
		}
		if want := wantLogged(stream, limit, min(len(stream), most)); !slices.Equal(lines, want) {
			t.Errorf("got %q, want %q", lines, want)
		}
	})
}
