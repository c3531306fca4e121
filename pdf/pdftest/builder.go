// Package pdftest writes small PDF files for tests: every form of the
// cross-reference, and room for whatever a test wants to be wrong.
package pdftest

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"fmt"
	"runtime"
	"strings"
)

// Builder collects the objects of a file. The zero value is an empty file.
type Builder struct {
	bodies []string // bodies[i] is object i+1
}

// Add adds an object, written in PDF syntax, and returns its number.
func (b *Builder) Add(format string, args ...any) int {
	b.bodies = append(b.bodies, fmt.Sprintf(format, args...))
	return len(b.bodies)
}

// Set replaces object n.
func (b *Builder) Set(n int, format string, args ...any) {
	b.bodies[n-1] = fmt.Sprintf(format, args...)
}

// Stream adds a stream with the entries of dict and returns its number.
func (b *Builder) Stream(dict, data string) int {
	return b.Add("<<%s /Length %d>>\nstream\n%s\nendstream", dict, len(data), data)
}

// Flate adds a stream compressed with Flate and returns its number.
func (b *Builder) Flate(dict, data string) int {
	return b.Stream(dict+" /Filter /FlateDecode", Deflate(data))
}

// Deflate compresses data as FlateDecode undoes it.
func Deflate(data string) string {
	var out bytes.Buffer
	w := zlib.NewWriter(&out)
	_, _ = w.Write([]byte(data)) // a bytes.Buffer takes everything
	_ = w.Close()
	return out.String()
}

// Allocated returns how many bytes do allocates, and whatever runs beside it.
func Allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Pages returns a builder with one page for every text, whose lines are set
// in Helvetica, and the number of its catalog, which is always 1; the page
// tree is object 2 and the font object 3.
func Pages(texts ...string) *Builder {
	b := &Builder{}
	b.Add("<</Type /Catalog /Pages 2 0 R>>")
	b.Add("")
	b.Add("<</Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding>>")
	var kids strings.Builder
	for _, text := range texts {
		contents := b.Flate("", Contents(text))
		fmt.Fprintf(&kids, "%d 0 R ", b.Add("<</Type /Page /Parent 2 0 R /Contents %d 0 R>>", contents))
	}
	b.Set(2, "<</Type /Pages /Count %d /Kids [%s] /MediaBox %s /Resources <</Font <</F 3 0 R>>>>>>", len(texts), kids.String(), mediaBox(texts))
	return b
}

// mediaBox returns a page as large as it takes to hold each of texts, and A4 at
// least.
func mediaBox(texts []string) string {
	width, bottom := 595, 0
	for _, text := range texts {
		bottom = min(bottom, 700-14*strings.Count(text, "\n"))
		for line := range strings.SplitSeq(text, "\n") {
			width = max(width, 72+12*len(line))
		}
	}
	return fmt.Sprintf("[0 %d %d 842]", bottom, width)
}

// Contents returns a content stream that shows the lines of text in font F.
func Contents(text string) string {
	var c strings.Builder
	c.WriteString("BT /F 12 Tf 14 TL 72 720 Td\n")
	escape := strings.NewReplacer(`\`, `\\`, "(", `\(`, ")", `\)`)
	for line := range strings.SplitSeq(text, "\n") {
		fmt.Fprintf(&c, "(%s) Tj T*\n", escape.Replace(line))
	}
	c.WriteString("ET\n")
	return c.String()
}

// write writes the header and the objects for which in is true, and returns
// the file so far with the offsets of the objects.
func (b *Builder) write(in func(body string) bool) (out []byte, offsets []int) {
	out = append(out, "%PDF-1.7\n%\xe2\xe3\xcf\xd3\n"...)
	offsets = make([]int, len(b.bodies))
	for i, body := range b.bodies {
		if in(body) {
			offsets[i] = len(out)
			out = fmt.Appendf(out, "%d 0 obj\n%s\nendobj\n", i+1, body)
		}
	}
	return out, offsets
}

func all(string) bool { return true }

func isStream(body string) bool { return strings.Contains(body, "\nstream\n") }

// Table returns the file with a cross-reference table. trailer adds entries to
// the trailer, whose Root is object 1.
func (b *Builder) Table(trailer string) []byte {
	out, offsets := b.write(all)
	return b.table(out, offsets, trailer)
}

func (b *Builder) table(out []byte, offsets []int, trailer string) []byte {
	start := len(out)
	out = fmt.Appendf(out, "xref\n0 %d\n0000000000 65535 f \n", len(offsets)+1)
	for _, offset := range offsets {
		use := "n"
		if offset == 0 {
			use = "f" // of a hybrid file: in an object stream
		}
		out = fmt.Appendf(out, "%010d 00000 %s \n", offset, use)
	}
	return fmt.Appendf(out, "trailer\n<</Size %d /Root 1 0 R %s>>\nstartxref\n%d\n%%%%EOF\n", len(offsets)+1, trailer, start)
}

// Packed returns the file with its objects in an object stream, as far as they
// are no streams, and a cross-reference stream with a predictor.
func (b *Builder) Packed(trailer string) []byte {
	out, offsets := b.write(isStream)
	out, offsets, rows := b.pack(out, offsets)
	start := len(out)
	offsets = append(offsets, start)
	rows = append(rows, row(1, start, 0))
	data := Deflate(predict(rows))
	out = fmt.Appendf(out, "%d 0 obj\n<</Type /XRef /Size %d /W [1 4 2] /Root 1 0 R %s /Filter /FlateDecode /DecodeParms <</Predictor 12 /Columns 7>> /Length %d>>\nstream\n",
		len(offsets), len(offsets)+1, trailer, len(data))
	out = append(out, data...)
	return fmt.Appendf(out, "\nendstream\nendobj\nstartxref\n%d\n%%%%EOF\n", start)
}

// Hybrid returns the file with a table that knows only the streams, and a
// cross-reference stream for readers that look for one.
func (b *Builder) Hybrid(trailer string) []byte {
	out, offsets := b.write(isStream)
	packed, offsets, rows := b.pack(out, offsets)
	start := len(packed)
	data := Deflate(strings.Join(rows, ""))
	packed = fmt.Appendf(packed, "%d 0 obj\n<</Type /XRef /Size %d /W [1 4 2] /Filter /FlateDecode /Length %d>>\nstream\n", len(offsets)+1, len(offsets)+1, len(data))
	packed = append(packed, data...)
	packed = append(packed, "\nendstream\nendobj\n"...)
	return b.table(packed, offsets, fmt.Sprintf("/XRefStm %d %s", start, trailer))
}

// pack appends an object stream with every object that is no stream. It
// returns the rows of a cross-reference stream for all objects.
func (b *Builder) pack(out []byte, offsets []int) ([]byte, []int, []string) {
	number := len(b.bodies) + 1
	var head, bodies strings.Builder
	rows := []string{row(0, 0, 65535)}
	count := 0
	for i, body := range b.bodies {
		if isStream(body) {
			rows = append(rows, row(1, offsets[i], 0))
			continue
		}
		fmt.Fprintf(&head, "%d %d ", i+1, bodies.Len())
		bodies.WriteString(body + "\n")
		rows = append(rows, row(2, number, count))
		count++
	}
	rows = append(rows, row(1, len(out), 0))
	offsets = append(offsets, len(out))
	data := Deflate(head.String() + bodies.String())
	out = fmt.Appendf(out, "%d 0 obj\n<</Type /ObjStm /N %d /First %d /Filter /FlateDecode /Length %d>>\nstream\n", number, count, head.Len(), len(data))
	out = append(out, data...)
	return append(out, "\nendstream\nendobj\n"...), offsets, rows
}

func row(kind byte, offset, index int) string {
	b := binary.BigEndian.AppendUint32([]byte{kind}, uint32(offset))
	return string(binary.BigEndian.AppendUint16(b, uint16(index)))
}

// predict applies the PNG filter "up" to rows of equal length.
func predict(rows []string) string {
	var out strings.Builder
	above := make([]byte, len(rows[0]))
	for _, r := range rows {
		out.WriteByte(2)
		for i := range len(r) {
			out.WriteByte(r[i] - above[i])
		}
		above = []byte(r)
	}
	return out.String()
}
