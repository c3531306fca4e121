package font

import (
	_ "embed"
	"slices"
	"strconv"
	"strings"
	"sync"
)

//go:generate go run gen_standard14.go

// The metrics of the fourteen standard fonts, whose widths files may leave out,
// and the built-in encodings of Symbol and ZapfDingbats. They are made from
// Adobe's AFM files, see LICENSE-adobe-core14-afm.txt and, for what the lines
// are, gen_standard14.go.
var (
	//go:embed latin14.txt
	latinLines string
	//go:embed symbol.txt
	symbolLines string
	//go:embed dingbats.txt
	dingbatLines string
)

// face is a standard font: one of fourteen, or the closest to another font.
type face struct {
	special *specialFace // Symbol or ZapfDingbats; nil for the others
	column  int          // in latin14.txt; courier for the font not in there
}

const (
	helvetica = 0 // and from there on its bold face
	times     = 2 // and from there on its bold, italic and bold italic faces
	courier   = -1
)

// specialFace is a font with an encoding of its own.
type specialFace struct {
	text  [256]string
	width [256]int // thousandths
	names map[string]string
}

var (
	symbolFace  = sync.OnceValue(func() *specialFace { return newSpecialFace(symbolLines) })
	dingbatFace = sync.OnceValue(func() *specialFace { return newSpecialFace(dingbatLines) })
)

func newSpecialFace(lines string) *specialFace {
	f := &specialFace{names: map[string]string{}}
	for line := range strings.Lines(lines) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 4)
		if len(fields) < 3 {
			continue
		}
		text := knownText(fields[2])
		if len(fields) == 4 {
			text = fields[3]
			f.names[fields[2]] = text
		}
		code, _ := strconv.Atoi(fields[0])
		if code > 0 && code < len(f.text) {
			f.text[code] = text
			f.width[code], _ = strconv.Atoi(fields[1])
		}
	}
	return f
}

// latinWidths returns the lines of latin14.txt by character.
var latinWidths = sync.OnceValue(func() map[string][6]uint16 {
	widths := make(map[string][6]uint16, 320)
	for line := range strings.Lines(latinLines) {
		// The character may be a space.
		text, rest, _ := strings.Cut(line[1:], " ")
		text = line[:1] + text
		var w [6]uint16
		for i, field := range strings.Fields(rest) {
			v, _ := strconv.ParseUint(field, 10, 16)
			w[min(i, len(w)-1)] = uint16(v)
		}
		widths[text] = w
		switch text { // ligatures are taken apart where names are read
		case "ﬁ":
			widths["fi"] = w
		case "ﬂ":
			widths["fl"] = w
		}
	}
	return widths
})

// width returns the advance of a code in thousandths of the font size. ok is
// false if the font does not have it.
func (f face) width(code byte, text string) (w float64, ok bool) {
	switch {
	case f.special != nil:
		w := f.special.width[code]
		return float64(w), w != 0
	case f.column == courier:
		return 600, true
	}
	widths, ok := latinWidths()[text]
	return float64(widths[f.column]), ok
}

// Flags of a font descriptor (ISO 32000-2, table 121).
const (
	flagFixedPitch  = 1 << 0
	flagSerif       = 1 << 1
	flagSymbolic    = 1 << 2
	flagNonsymbolic = 1 << 5
	flagItalic      = 1 << 6
	flagForceBold   = 1 << 18
)

// faceOf returns the standard font of that name, under any of the names it goes
// by, or else the one with the same looks: readers substitute it for a font
// that is not embedded and has no widths.
func faceOf(baseFont string, flags int) face {
	name := plainName(baseFont)
	switch {
	case isDingbats(name):
		return face{special: dingbatFace()}
	case isSymbol(name):
		return face{special: symbolFace()}
	}
	bold := flags&flagForceBold != 0 || contains(name, "Bold", "Black", "Heavy")
	italic := flags&flagItalic != 0 || contains(name, "Italic", "Oblique")
	switch {
	case contains(name, "Courier") || flags&flagFixedPitch != 0:
		return face{column: courier}
	case !contains(name, "Helvetica", "Arial") && (contains(name, "Times") || flags&flagSerif != 0):
		return face{column: times + index(bold, 1) + index(italic, 2)}
	}
	return face{column: helvetica + index(bold, 1)}
}

func index(set bool, n int) int {
	if set {
		return n
	}
	return 0
}

func contains(name string, words ...string) bool {
	return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(name, word) })
}

// plainName takes spaces and the tag of a subset, "ABCDEF+", from the name of
// a font.
func plainName(baseFont string) string {
	if i := strings.IndexByte(baseFont, '+'); i == 6 {
		baseFont = baseFont[i+1:]
	}
	return strings.ReplaceAll(baseFont, " ", "")
}

// isSymbol reports whether name, which is plain, is one of those of Adobe's
// Symbol font: "Symbol", "SymbolMT", "Symbol,Bold" and their like.
func isSymbol(name string) bool {
	family, _, _ := strings.Cut(name, ",")
	family, _, _ = strings.Cut(family, "-")
	return family == "Symbol" || family == "SymbolMT"
}

// isDingbats reports the same of ZapfDingbats and of its free twin by URW.
func isDingbats(name string) bool {
	return strings.HasPrefix(name, "D050000L") || strings.HasSuffix(name, "ZapfDingbats") || strings.HasPrefix(name, "ZapfDingbats") || name == "Dingbats"
}
