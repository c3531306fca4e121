package cos

import (
	"strings"
	"unicode/utf16"
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
	for range 100 {
		before, rest, found := strings.Cut(s, "\x1b")
		_, after, closed := strings.Cut(rest, "\x1b")
		if !found || !closed {
			break
		}
		s = before + after
	}
	return s
}

// decodePDFDoc decodes PDFDocEncoding: Latin 1 with other marks at codes 24 to
// 31 and 128 to 160 (ISO 32000-1, annex D.2).
func decodePDFDoc(s String) string {
	var text strings.Builder
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 0x18 && c <= 0x1f:
			text.WriteRune(pdfDocLow[c-0x18])
		case c >= 0x80 && c <= 0xa0:
			text.WriteRune(pdfDocHigh[c-0x80])
		default:
			text.WriteRune(rune(c))
		}
	}
	return text.String()
}

var (
	pdfDocLow  = []rune("˘ˇˆ˙˝˛˚˜")
	pdfDocHigh = []rune("•†‡…—–ƒ⁄‹›−‰„“”‘’‚™ﬁﬂŁŒŠŸŽıłœšž\ufffd€")
)
