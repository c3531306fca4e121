package pdf_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/pdf"
	"github.com/batchfleet/batchfleet/pdf/pdftest"
)

// tight are limits that a damaged file must reach in well under a second.
var tight = pdf.Options{MaxPages: 1000, MaxStreamBytes: 1 << 20, MaxPageBytes: 4 << 20, MaxOperators: 100_000, MaxTextBytes: 1 << 20}

// readAll reads everything there is to read of data. Errors are fine; a panic
// that was caught is not.
func readAll(t *testing.T, data []byte, opts pdf.Options) {
	t.Helper()
	d, err := pdf.Open(bytes.NewReader(data), int64(len(data)), opts)
	if err != nil {
		noPanic(t, err)
		return
	}
	noPanic(t, pdf.ReadInfo(d))
	noPanic(t, pdf.ReadOutline(d))
	for p, err := range d.Pages(1, d.NumPages()) {
		noPanic(t, err)
		if len(p.Text) > opts.MaxTextBytes {
			t.Errorf("page %d has %d bytes of text", p.Number, len(p.Text))
		}
	}
}

func noPanic(t *testing.T, err error) {
	t.Helper()
	if err != nil && strings.Contains(err.Error(), "panic:") {
		t.Error(err)
	}
}

// originals are the files that the tests of damage start from.
func originals(tb testing.TB) map[string][]byte {
	tb.Helper()
	names, err := filepath.Glob("testdata/*.pdf")
	if err != nil || len(names) < 10 {
		tb.Fatal(names, err)
	}
	files := map[string][]byte{}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			tb.Fatal(err)
		}
		files[filepath.Base(name)] = data
	}
	b := outlined("<</Title (One) /Dest [5 0 R /Fit] /First 11 0 R>>", "<</Title (Two) /Dest (new)>>")
	files["table"], files["packed"], files["hybrid"] = b.Table(""), b.Packed(""), b.Hybrid("")
	return files
}

// mutate damages a copy of data in one of the ways files are damaged.
func mutate(random *rand.Rand, data []byte) []byte {
	out := bytes.Clone(data)
	at := random.IntN(len(out))
	switch random.IntN(7) {
	case 0: // bits flipped
		for range 1 + random.IntN(20) {
			out[random.IntN(len(out))] ^= 1 << random.IntN(8)
		}
	case 1: // cut off
		out = out[:at]
	case 2: // a hole
		out = append(out[:at], out[min(len(out), at+random.IntN(200)):]...)
	case 3: // a piece twice
		end := min(len(out), at+random.IntN(500))
		out = append(out[:end:end], out[at:]...)
	case 4: // a number changed
		numbers := []string{"0", "-1", "1", "65536", "4294967296", "99999999999999999999", "2 0 R", "1 0 R"}
		start := bytes.IndexAny(out[at:], "0123456789")
		if start < 0 {
			return out
		}
		start += at
		end := start
		for end < len(out) && '0' <= out[end] && out[end] <= '9' {
			end++
		}
		out = append(append(bytes.Clone(out[:start]), numbers[random.IntN(len(numbers))]...), out[end:]...)
	case 5: // two pieces exchanged
		n := random.IntN(50)
		other := random.IntN(len(out))
		for i := range min(n, len(out)-at, len(out)-other) {
			out[at+i], out[other+i] = out[other+i], out[at+i]
		}
	case 6: // a delimiter lost
		if i := bytes.IndexAny(out[at:], "<>[]()/"); i >= 0 {
			out[at+i] = ' '
		}
	}
	return out
}

func TestDamagedFilesAreHarmless(t *testing.T) {
	const mutants = 60
	for name, data := range originals(t) {
		t.Run(name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(4, uint64(len(data))))
			for i := range mutants {
				mutant := mutate(random, data)
				if used := pdftest.Allocated(func() { readAll(t, mutant, tight) }); used > 64<<20 {
					t.Errorf("mutant %d of %d bytes took %d MiB", i, len(mutant), used>>20)
				}
			}
		})
	}
}

// Each of these files is small and made to cost a careless reader much more:
// time that grows with the square of its size, a deep recursion, or memory.
func TestHostileFilesAreHarmless(t *testing.T) {
	const n = 200_000
	repeat := func(s string) []byte { return []byte("%PDF-1.7\n" + strings.Repeat(s, n/len(s))) }
	numbered := func(format string) []byte {
		var b strings.Builder
		b.WriteString("%PDF-1.7\n")
		for i := 1; b.Len() < n; i++ {
			fmt.Fprintf(&b, format, i, i+1)
		}
		return []byte(b.String())
	}
	zeros := strings.Repeat("\x00", 8<<20)
	cmap := func(body string) []byte {
		b := pdftest.Pages("text")
		b.Set(3, "<</Type /Font /Subtype /Type0 /Encoding /Identity-H /ToUnicode %d 0 R>>", b.Flate("", body))
		return b.Table("")
	}
	page := func(body string) []byte {
		b := pdftest.Pages("")
		b.Set(4, "<</Filter /FlateDecode /Length %d>>\nstream\n%s\nendstream", len(pdftest.Deflate(body)), pdftest.Deflate(body))
		return b.Table("")
	}
	self := pdftest.Pages("text")
	self.Set(4, "<</Length 4 0 R /Filter 4 0 R /DecodeParms 4 0 R>>\nstream\nx\nendstream")
	tests := []struct {
		name string
		data []byte
	}{
		{"streams without an end", numbered("%d 0 obj<</A %d>>stream\n")},
		{"strings without an end", numbered("%d 0 obj(%d")},
		{"dictionaries without an end", numbered("%d 0 obj<</A %d")},
		{"arrays without an end", numbered("%d 0 obj[%d")},
		{"lengths that need each other", numbered("%d 0 obj<</Length %d 0 R>>stream\nx\nendstream\n")},
		{"references to references", numbered("%d 0 obj %d 0 R endobj\n")},
		{"a deep page tree", append(numbered("%d 0 obj<</Kids[%d 0 R]>>endobj\n"), "trailer<</Root<</Pages 1 0 R>>>>"...)},
		{"open brackets", repeat("[")},
		{"open dictionaries", repeat("<</A")},
		{"open strings", repeat("((((")},
		{"trailers", repeat("trailer<<")},
		{"the word obj", repeat("1 0 obj ")},
		{"a cross-reference of zeros", []byte("%PDF-1.7\n1 0 obj<</Type/XRef/Size 8000000/W[0 0 1]/Root 1 0 R/Filter/FlateDecode/Length 8200>>stream\n" +
			pdftest.Deflate(zeros) + "\nendstream endobj\nstartxref\n9\n")},
		{"a table of many rows", []byte("%PDF-1.7\nxref\n0 9999999999\n" + strings.Repeat("0 0 n ", 20_000) + "trailer<</Root 1 0 R>>startxref\n9\n")},
		{"a stream that is its own length", self.Table("")},
		{"a page of brackets", page(strings.Repeat("[", n))},
		{"a page of numbers", page(strings.Repeat("1 ", 4*n))},
		{"a page of operators", page(strings.Repeat("q ", 4*n))},
		{"an inline image without an end", page(strings.Repeat("BI ID EI\x01 ", n/8))},
		{"a page of fonts", page(strings.Repeat("/A 1 Tf ", n))},
		{"a CMap of wide ranges", cmap(strings.Repeat("<0000> <ffff> <0000> endbfrange ", n/16))},
		{"a CMap of long texts", cmap("<0000> <" + strings.Repeat("0041", n) + "> endbfchar")},
		{"a CMap of one operator", cmap(strings.Repeat("<00> ", n) + "endbfchar")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if used := pdftest.Allocated(func() { readAll(t, tt.data, tight) }); used > 256<<20 {
				t.Errorf("%d bytes took %d MiB", len(tt.data), used>>20)
			}
		})
	}
}

func FuzzOpen(f *testing.F) {
	for _, data := range originals(f) {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) < 1<<16 {
			readAll(t, data, tight)
		}
	})
}
