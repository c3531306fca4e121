package cos

import (
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Text decodes a text string, as metadata and titles are: UTF-16 or UTF-8 with
// a byte order mark, else PDFDocEncoding. Other strings, such as those of a
// page, are in the encoding of their font. The result may hold invalid UTF-8.
func (s String) Text() string {
	switch {
	case strings.HasPrefix(string(s), "\xfe\xff"):
		return decodeUTF16(s[2:], 0)
	case strings.HasPrefix(string(s), "\xff\xfe"):
		return decodeUTF16(s[2:], 1)
	case strings.HasPrefix(string(s), "\xef\xbb\xbf"):
		return string(s[3:])
	}
	return decodePDFDoc(s)
}

// decodeUTF16 decodes s, whose high bytes are at index high of each pair: 0 for
// big-endian, 1 for little-endian.
func decodeUTF16(s String, high int) string {
	units := make([]uint16, 0, len(s)/2)
	for ; len(s) >= 2; s = s[2:] {
		units = append(units, uint16(s[high])<<8|uint16(s[1-high]))
	}
	return stripLanguage(string(utf16.Decode(units)))
}

// stripLanguage removes language codes, which stand between escape characters
// (ISO 32000-1, 7.9.2.2).
func stripLanguage(s string) string {
	var text strings.Builder
	for {
		before, rest, found := strings.Cut(s, "\x1b")
		_, after, closed := strings.Cut(rest, "\x1b")
		if !found || !closed {
			break
		}
		text.WriteString(before)
		s = after
	}
	if text.Len() == 0 {
		return s
	}
	return text.String() + s
}

// decodePDFDoc decodes PDFDocEncoding.
func decodePDFDoc(s String) string {
	var text strings.Builder
	for i := range len(s) {
		text.WriteRune(pdfDoc[s[i]])
	}
	return text.String()
}

// encodePDFDoc is the inverse; ok is false if s has other characters.
func encodePDFDoc(s string) (encoded []byte, ok bool) {
	for _, r := range s {
		code := slices.Index(pdfDoc[:], r)
		if code < 0 || r == utf8.RuneError { // which stands for a code that is none
			return nil, false
		}
		encoded = append(encoded, byte(code))
	}
	return encoded, true
}

// pdfDoc is PDFDocEncoding: Latin 1 with other marks at codes 24 to 31 and 128
// to 160 (ISO 32000-2, annex D.2).
var pdfDoc = func() (table [256]rune) {
	for code := range table {
		table[code] = rune(code)
	}
	copy(table[0x18:], []rune("˘ˇˆ˙˝˛˚˜"))
	copy(table[0x80:], []rune("•†‡…—–ƒ⁄‹›−‰„“”‘’‚™ﬁﬂŁŒŠŸŽıłœšž\ufffd€"))
	return table
}()
