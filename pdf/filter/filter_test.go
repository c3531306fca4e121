package filter_test

import (
	"bytes"
	"compress/lzw"
	"compress/zlib"
	"encoding/ascii85"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/pdf/filter"
)

const plenty = 1 << 20

type decoder func(src []byte, limit int) ([]byte, error)

var decoders = map[string]decoder{
	"Flate":     filter.Flate,
	"ASCII85":   filter.ASCII85,
	"ASCIIHex":  filter.ASCIIHex,
	"RunLength": filter.RunLength,
	"LZW":       func(src []byte, limit int) ([]byte, error) { return filter.LZW(src, true, limit) },
	"LZW late":  func(src []byte, limit int) ([]byte, error) { return filter.LZW(src, false, limit) },
}

func deflated(tb testing.TB, text string) []byte {
	tb.Helper()
	var b bytes.Buffer
	w := zlib.NewWriter(&b)
	if _, err := w.Write([]byte(text)); err != nil {
		tb.Fatal(err)
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

// packed85 encodes text, which must not end inside a group.
func packed85(text string) string {
	out := make([]byte, ascii85.MaxEncodedLen(len(text)))
	return string(out[:ascii85.Encode(out, []byte(text))])
}

func TestF70Filters(t *testing.T) {
	long := strings.Repeat("the same words over and over ", 2000)
	flate := deflated(t, long)
	tests := []struct {
		name, filter, src, want string
		fails                   bool
	}{
		{"flate", "Flate", string(flate), long, false},
		{"flate after an end of line too many", "Flate", "\r\n" + string(flate), long, false},
		{"flate without header", "Flate", string(flate[2:]), long, false},
		{"flate without checksum", "Flate", string(flate[:len(flate)-4]), long, false},
		{"flate with a broken header", "Flate", "\x70" + string(flate[1:]), long, true},
		{"flate with a wrong checksum", "Flate", string(flate[:len(flate)-1]) + "\x00", long, true},
		{"flate without header, and more behind", "Flate", "\x01\x01\x00\xfe\xffAmore of it", "A", true},
		{"flate of nothing", "Flate", "", "", false},
		{"flate of one byte", "Flate", "x", "", true},
		{"hex", "ASCIIHex", "48 65\n6C6c 6F>rest", "Hello", false},
		{"hex with an odd digit", "ASCIIHex", "487", "Hp", false},
		{"hex with rubbish", "ASCIIHex", "4?8", "H", false},
		{"85", "ASCII85", packed85("Hello world!") + "~>junk", "Hello world!", false},
		{"85 with a short group", "ASCII85", packed85("Hello")[:7] + "~>", "Hello", false},
		{"85 with zeros", "ASCII85", "z~>", "\x00\x00\x00\x00", false},
		{"85 in btoa brackets", "ASCII85", "<~" + packed85("abcd") + "~>", "abcd", false},
		{"85 across lines", "ASCII85", "BO\nu!\rr~>", "hell", false},
		{"85 with rubbish", "ASCII85", "BOu!r\xff~>", "hell", true},
		{"runs", "RunLength", "\x02abc\xfed\x80ignored", "abcddd", false},
		{"runs cut short", "RunLength", "\x05ab", "ab", false},
		{"run without its byte", "RunLength", "\x00a\xfe", "a", true},
		// The example of ISO 32000-1, 7.4.4.2.
		{"lzw", "LZW", "\x80\x0B\x60\x50\x22\x0C\x0C\x85\x01", "-----A---B", false},
		{"lzw that begins with a code not yet known", "LZW", "\xff\xff", "", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := decoders[tt.filter]([]byte(tt.src), plenty)
			if string(got) != tt.want || (err != nil) != tt.fails {
				t.Errorf("got %.60q, %v; want %.60q, fails=%v", got, err, tt.want, tt.fails)
			}
		})
	}
}

func TestDamagedFlateYieldsItsBeginning(t *testing.T) {
	var text strings.Builder
	random := rand.New(rand.NewPCG(1, 2)) // hard to compress, so many blocks
	for range 100_000 {
		text.WriteByte(byte('a' + random.IntN(16)))
	}
	src := deflated(t, text.String())
	got, err := filter.Flate(src[:len(src)/2], plenty)
	if err == nil {
		t.Error("half a stream gave no error")
	}
	if len(got) < text.Len()/4 || !strings.HasPrefix(text.String(), string(got)) {
		t.Errorf("half a stream gave %d of %d bytes", len(got), text.Len())
	}
}

// The standard library's LZW is that of GIF and of TIFF's other kind, which
// grows its codes late.
func TestLZWOfLongData(t *testing.T) {
	var text strings.Builder
	for i := range 40_000 {
		text.WriteByte(byte('a' + (i*i>>3)%23))
	}
	var b bytes.Buffer
	w := lzw.NewWriter(&b, lzw.MSB, 8)
	if _, err := w.Write([]byte(text.String())); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := filter.LZW(b.Bytes(), false, plenty)
	if err != nil || string(got) != text.String() {
		t.Errorf("got %d bytes, %v; want %d", len(got), err, text.Len())
	}
}

// literals encodes text as LZW does if it never finds a string twice, with
// codes that grow when entries come before the power of two.
func literals(text string, early int) []byte {
	var out []byte
	var acc uint32
	bits, width, next := 0, 9, 257
	for _, c := range []byte(text) {
		acc, bits = acc<<width|uint32(c), bits+width
		for bits >= 8 {
			bits -= 8
			out = append(out, byte(acc>>bits))
		}
		if next++; next+early >= 1<<width {
			width++
		}
	}
	return append(out, byte(acc<<(8-bits)))
}

func TestLZWGrowsItsCodesInTime(t *testing.T) {
	text := strings.Repeat("abcdefgh", 200)
	for early, change := range map[bool]int{true: 1, false: 0} {
		got, err := filter.LZW(literals(text, change), early, plenty)
		if err != nil || string(got) != text {
			t.Errorf("early %v: got %d bytes, %v; want %d", early, len(got), err, len(text))
		}
	}
}

func TestF70StreamsAreCapped(t *testing.T) {
	bombs := map[string][]byte{
		"Flate":     deflated(t, strings.Repeat("\x00", 1<<20)),
		"ASCII85":   bytes.Repeat([]byte("z"), 1000),
		"ASCIIHex":  bytes.Repeat([]byte("00"), 1000),
		"RunLength": bytes.Repeat([]byte("\x81x"), 100),
		"LZW":       []byte("\x80\x0B\x60\x50\x22\x0C\x0C\x85\x01"),
	}
	for name, bomb := range bombs {
		for _, limit := range []int{0, 1, 5, 9} {
			got, err := decoders[name](bomb, limit)
			if !errors.Is(err, filter.ErrTooLong) || len(got) > limit {
				t.Errorf("%s under a limit of %d: %d bytes, %v", name, limit, len(got), err)
			}
		}
	}
}

func TestF70Predictors(t *testing.T) {
	tests := []struct {
		name      string
		predictor filter.Predictor
		src, want string
	}{
		{"none", filter.Predictor{}, "abc", "abc"},
		{"PNG none", filter.Predictor{Algorithm: 10, Columns: 3}, "\x00abc\x00def", "abcdef"},
		{"PNG sub", filter.Predictor{Algorithm: 11, Columns: 3}, "\x01a\x01\x01", "abc"},
		{"PNG up", filter.Predictor{Algorithm: 12, Columns: 2}, "\x00ab\x02\x01\x01", "abbc"},
		{"PNG average", filter.Predictor{Algorithm: 13, Columns: 2}, "\x00\x10\x20\x03\x01\x01", "\x10\x20\x09\x15"},
		{"PNG Paeth", filter.Predictor{Algorithm: 14, Columns: 2}, "\x00\x10\x20\x04\x01\x01", "\x10\x20\x11\x21"},
		{"PNG Paeth that takes the corner", filter.Predictor{Algorithm: 14, Columns: 2}, "\x00\x20\x30\x04\xf0\x01", "\x20\x30\x10\x21"},
		{"PNG with pixels of three bytes", filter.Predictor{Algorithm: 15, Colors: 3, Columns: 2}, "\x01abc\x01\x01\x01", "abcbcd"},
		{"PNG row cut short", filter.Predictor{Algorithm: 12, Columns: 4}, "\x00abcd\x02\x01", "abcdb"},
		{"PNG up in the first row", filter.Predictor{Algorithm: 12, Columns: 2}, "\x02ab", "ab"},
		{"PNG average in the first row", filter.Predictor{Algorithm: 13, Columns: 2}, "\x03\x10\x20", "\x10\x28"},
		{"PNG Paeth in the first row", filter.Predictor{Algorithm: 14, Columns: 2}, "\x04\x10\x20", "\x10\x30"},
		{"PNG type unknown", filter.Predictor{Algorithm: 12, Columns: 2}, "\x09ab", "ab"},
		{"TIFF", filter.Predictor{Algorithm: 2, Columns: 3}, "a\x01\x01b\x01\x01", "abcbcd"},
		{"TIFF of 16 bits", filter.Predictor{Algorithm: 2, Bits: 16, Columns: 2}, "\x00\xff\x00\x02", "\x00\xff\x01\x01"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.predictor.Undo([]byte(tt.src))
			if err != nil || string(got) != tt.want {
				t.Errorf("got %q, %v; want %q", got, err, tt.want)
			}
		})
	}
}

func TestPredictorRefusesAbsurdRows(t *testing.T) {
	for _, p := range []filter.Predictor{
		{Algorithm: 12, Columns: 1 << 40},
		{Algorithm: 12, Columns: 1 << 24, Colors: 64, Bits: 32},
		{Algorithm: 12, Colors: 65},
		{Algorithm: 2, Bits: 33},
	} {
		if _, err := p.Undo([]byte("\x00abc")); err == nil {
			t.Errorf("%+v was accepted", p)
		}
	}
}

func FuzzFilters(f *testing.F) {
	f.Add([]byte("\x80\x0B\x60\x50\x22\x0C\x0C\x85\x01"), 12, 2, 8, 3)
	f.Add(deflated(f, "hello hello hello"), 15, 1, 8, 4)
	f.Add([]byte("<~BOu!r~>"), 2, 1, 16, 2)
	f.Add([]byte("\x81\x81\x02abc\xffz\x80"), 10, 1, 8, 5)
	f.Fuzz(func(t *testing.T, src []byte, algorithm, colors, bits, columns int) {
		const limit = 4096
		p := filter.Predictor{Algorithm: algorithm, Colors: colors, Bits: bits, Columns: columns}
		for name, decode := range decoders {
			out, _ := decode(src, limit)
			if len(out) > limit {
				t.Errorf("%s returned %d bytes under a limit of %d", name, len(out), limit)
			}
			if plain, _ := p.Undo(out); len(plain) > len(out) {
				t.Errorf("%+v made %d bytes of %d", p, len(plain), len(out))
			}
		}
	})
}
