package font

import "github.com/batchfleet/batchfleet/pdf/cos"

// encoding returns the text of a code of a simple font, "" for none.
type encoding func(code byte) string

// baseEncoding returns one of the encodings of ISO 32000-2, annex D, that a font
// may name, or nil for another name: the font then has its own encoding. The
// standard encoding is not one of them, and readers agree to ignore the name.
func baseEncoding(name cos.Name) encoding {
	switch name {
	case "MacRomanEncoding":
		return macRoman
	case "WinAnsiEncoding":
		return winAnsi
	case "MacExpertEncoding":
		return func(code byte) string { return knownText(macExpertName(code)) }
	}
	return nil
}

func macRoman(code byte) string {
	if code == 0xDB {
		return "¤" // the euro, which came here later, is not in the encoding of PDF
	}
	return characterOf(macintosh, code)
}

func winAnsi(code byte) string {
	switch code {
	case 0xA0:
		return " "
	case 0xAD:
		return "-"
	}
	if text := characterOf(windows1252, code); text != "" || code < 0x7F {
		return text
	}
	return "•" // unused codes above 0o40 are bullets
}

// macintosh and windows1252 are the characters of two character sets from code 0x80 on, with
// U+FFFD where there is none: for the Macintosh that is Apple's logo. Characters below and after
// are those of Unicode. golang.org/x/text would link the tables of all other sets with these.
var (
	macintosh = []rune("ÄÅÇÉÑÖÜáàâäãåçéèêëíìîïñóòôöõúùûü†°¢£§•¶ß®©™´¨≠ÆØ∞±≤≥¥µ∂∑∏π∫ªºΩæø" +
		"¿¡¬√ƒ≈∆«»…\u00a0ÀÃÕŒœ–—“”‘’÷◊ÿŸ⁄€‹›ﬁﬂ‡·‚„‰ÂÊÁËÈÍÎÏÌÓÔ\ufffdÒÚÛÙıˆ˜¯˘˙˚¸˝˛ˇ")
	windows1252 = []rune("€\ufffd‚ƒ„…†‡ˆ‰Š‹Œ\ufffdŽ\ufffd\ufffd‘’“”•–—˜™š›œ\ufffdžŸ")
)

// characterOf returns the character that a set has for a code, "" for none and for control characters.
func characterOf(set []rune, code byte) string {
	r := rune(code)
	if i := int(code) - 0x80; i >= 0 && i < len(set) {
		r = set[i]
	}
	if r < ' ' || r >= 0x7F && r <= 0x9F || r == '\uFFFD' {
		return ""
	}
	return string(r)
}

func standard(code byte) string {
	switch {
	case code == '\'':
		return "’"
	case code == '`':
		return "‘"
	case code >= ' ' && code <= '~':
		return string(rune(code))
	case code >= 161 && int(code)-161 < len(standardUpper):
		return knownText(standardUpper[code-161])
	}
	return ""
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

// differences is what the Differences array of an encoding says.
type differences struct {
	names     [256]cos.Name
	numbering numbering
}

// loadDifferences reads a Differences array: a number sets the code of the
// names after it. It returns nil if there are none.
func loadDifferences(file *cos.File, list cos.Array) *differences {
	const maxEntries = 4096 // twice each code and its name would be 1024
	d := &differences{}
	var names []string
	var starts []int
	code := 0
	for _, o := range list[:min(len(list), maxEntries)] {
		switch v := file.Resolve(o).(type) {
		case int:
			code = v
			starts = append(starts, v)
		case float64: // against the specification
			code = int(max(-1, min(v, 256)))
			starts = append(starts, code)
		case cos.Name:
			names = append(names, string(v))
			if code >= 0 && code < len(d.names) {
				d.names[code] = v
				code++
			}
		}
	}
	if len(names) == 0 {
		return nil
	}
	d.numbering = numberingOf(names, starts)
	return d
}
