package font

import (
	"golang.org/x/text/encoding/charmap"

	"github.com/batchfleet/batchfleet/pdf/cos"
)

// charset maps the codes of a simple font to text; "" is no text.
type charset [256]string

// baseEncoding returns a copy of one of the encodings of ISO 32000-1, annex D.
// A name it does not know gives the standard encoding.
func baseEncoding(name cos.Name) charset {
	switch name {
	case "MacRomanEncoding":
		return fromCharmap(charmap.Macintosh)
	case "WinAnsiEncoding":
		e := fromCharmap(charmap.Windows1252)
		e[0xA0], e[0xAD] = " ", "-"
		for code := 0x80; code < 0xA0; code++ {
			if e[code] == "" {
				e[code] = "•" // unused codes above 0o40 are bullets
			}
		}
		return e
	}
	return standardEncoding()
}

func fromCharmap(m *charmap.Charmap) (e charset) {
	for code := 32; code < 256; code++ {
		if r := m.DecodeByte(byte(code)); r >= ' ' && r != '\uFFFD' && (r < 0x7F || r > 0x9F) {
			e[code] = string(r)
		}
	}
	return e
}

func standardEncoding() (e charset) {
	for code := byte(' '); code <= '~'; code++ {
		e[code] = string(rune(code))
	}
	e['\''], e['`'] = "’", "‘"
	for code, name := range standardUpper {
		if name != "" {
			e[code+161] = GlyphText(name)
		}
	}
	return e
}

// standardUpper is the standard encoding from code 161 on.
var standardUpper = [...]string{
	"exclamdown", "cent", "sterling", "fraction", "yen", "florin", "section", "currency", "quotesingle", "quotedblleft", "guillemotleft", "guilsinglleft", "guilsinglright", "fi", "fl", // 161
	"", "endash", "dagger", "daggerdbl", "periodcentered", "", "paragraph", "bullet", "quotesinglbase", "quotedblbase", "quotedblright", "guillemotright", "ellipsis", "perthousand", "", "questiondown", // 176
	"", "grave", "acute", "circumflex", "tilde", "macron", "breve", "dotaccent", "dieresis", "", "ring", "cedilla", "", "hungarumlaut", "ogonek", "caron", // 192
	"emdash", "", "", "", "", "", "", "", "", "", "", "", "", "", "", "", // 208
	"", "AE", "", "ordfeminine", "", "", "", "", "Lslash", "Oslash", "OE", "ordmasculine", "", "", "", "", // 224
	"", "ae", "", "", "", "dotlessi", "", "", "lslash", "oslash", "oe", "germandbls", "", "", "", "", // 240
}

// differ applies a Differences array: a number sets the code of the names
// after it.
func (e *charset) differ(file *cos.File, differences cos.Array) {
	code := 0
	for _, o := range differences {
		switch v := file.Resolve(o).(type) {
		case int:
			code = v
		case cos.Name:
			if code >= 0 && code < len(e) {
				e[code] = GlyphText(string(v))
				code++
			}
		}
	}
}
