package font

import (
	"math"
	"strings"

	"github.com/batchfleet/batchfleet/pdf/cos"
)

// loadSimple reads a Type 1, TrueType or Type 3 font: 256 codes of one byte.
func loadSimple(file *cos.File, d cos.Dict) *[256]Glyph {
	descriptor := file.Dict(d["FontDescriptor"])
	text := simpleEncoding(file, d, descriptor)
	if c := toUnicode(file, d); c != nil {
		for code := range text {
			if t, ok := c.Text(uint32(code), 1); ok {
				text[code] = t
			} else if t, ok := c.Text(uint32(code), 2); ok { // some writers use two bytes throughout
				text[code] = t
			}
		}
	}
	widths := simpleWidths(file, d, descriptor)
	scale := glyphScale(file, d)
	var glyphs [256]Glyph
	for code := range glyphs {
		glyphs[code] = Glyph{Text: text[code], Width: widths[code] * scale, Space: code == ' '}
	}
	return &glyphs
}

// simpleEncoding finds the base encoding, named or built into the font
// program, and applies the differences.
func simpleEncoding(file *cos.File, d, descriptor cos.Dict) charset {
	var base cos.Name
	var differences cos.Array
	switch e := file.Resolve(d["Encoding"]).(type) {
	case cos.Name:
		base = e
	case cos.Dict:
		base = file.Name(e["BaseEncoding"])
		differences = file.Array(e["Differences"])
	}
	if base == "" && file.Name(d["Subtype"]) == "TrueType" {
		base = "WinAnsiEncoding"
	}
	text := baseEncoding(base)
	if program := file.Stream(descriptor["FontFile"]); base == "" && program != nil {
		data, _ := file.DecodePrefix(program, maxType1Header)
		if builtin, ok := type1Encoding(data); ok {
			text = builtin
		}
	}
	text.differ(file, differences)
	return text
}

// simpleWidths returns the advance of every code in glyph space.
func simpleWidths(file *cos.File, d, descriptor cos.Dict) (widths [256]float64) {
	listed := file.Array(d["Widths"])
	missing, _ := file.Number(descriptor["MissingWidth"])
	mono := strings.Contains(string(file.Name(d["BaseFont"])), "Courier")
	for code := range widths {
		widths[code] = missing
		if listed == nil {
			widths[code] = typicalWidth(byte(code), mono)
		}
	}
	first, _ := file.Int(d["FirstChar"])
	for i, o := range listed {
		if code := first + i; code >= 0 && code < len(widths) {
			if w, ok := file.Number(o); ok {
				widths[code] = w
			}
		}
		if i > len(widths)+max(0, -first) {
			break
		}
	}
	return widths
}

// glyphScale returns the size of a unit of glyph space: a thousandth, but for
// Type 3 fonts, which say so themselves.
func glyphScale(file *cos.File, d cos.Dict) float64 {
	if file.Name(d["Subtype"]) == "Type3" {
		if m := file.Array(d["FontMatrix"]); len(m) == 6 {
			if v, ok := file.Number(m[0]); ok && v != 0 {
				return math.Abs(v)
			}
		}
	}
	return 0.001
}

// typicalWidth stands in for the metrics of the fourteen standard fonts, which
// files need not repeat. It is close enough to Helvetica and Times to tell a
// gap between words from one between letters.
func typicalWidth(code byte, mono bool) float64 {
	switch {
	case mono:
		return 600
	case code == ' ':
		return 278
	case strings.IndexByte("ijl|!'.,:;I", code) >= 0:
		return 250
	case strings.IndexByte("frt()[]/-", code) >= 0:
		return 320
	case strings.IndexByte("mwMW@%", code) >= 0:
		return 850
	case 'A' <= code && code <= 'Z':
		return 690
	}
	return 540
}
