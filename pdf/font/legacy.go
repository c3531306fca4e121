package font

import (
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"
)

// codeReader is what the name of a predefined CMap says about its codes.
type codeReader struct {
	size func(s []byte) int // of the first code; s is not empty
	text func(code []byte) string
}

// legacy returns the reader for the codes of a predefined CMap whose table is
// not at hand: the national encodings and Unicode. ok is false for names that
// say nothing.
func legacy(name string) (r codeReader, ok bool) {
	switch {
	case strings.Contains(name, "UTF16"), strings.Contains(name, "UCS2"):
		return codeReader{utf16Size, func(code []byte) string { return utf16Text(string(code)) }}, true
	case strings.Contains(name, "UTF8"):
		return codeReader{utf8Size, func(code []byte) string { return strings.ToValidUTF8(string(code), "") }}, true
	case strings.Contains(name, "UTF32"):
		return codeReader{fixed(4), func(code []byte) string { return string(rune(bigEndian(code) & 0x1fffff)) }}, true
	case strings.Contains(name, "RKSJ"):
		return codeReader{shiftJISSize, decode(japanese.ShiftJIS)}, true
	case name == "EUC-H", name == "EUC-V":
		return codeReader{leadByte(0x8e), decode(japanese.EUCJP)}, true
	case name == "H", name == "V": // JIS X 0208: EUC without the high bits
		return codeReader{fixed(2), func(code []byte) string {
			if len(code) < 2 {
				return ""
			}
			return decode(japanese.EUCJP)([]byte{code[0] | 0x80, code[1] | 0x80})
		}}, true
	case strings.HasPrefix(name, "GB"):
		return codeReader{leadByte(0x81), decode(simplifiedchinese.GBK)}, true
	case strings.HasPrefix(name, "B5"), strings.HasPrefix(name, "ETen"), strings.HasPrefix(name, "HKscs"):
		return codeReader{leadByte(0x81), decode(traditionalchinese.Big5)}, true
	case strings.HasPrefix(name, "KSC"):
		return codeReader{leadByte(0x81), decode(korean.EUCKR)}, true
	}
	return codeReader{}, false
}

func decode(e encoding.Encoding) func([]byte) string {
	return func(code []byte) string {
		text, err := e.NewDecoder().Bytes(code)
		if err != nil {
			return ""
		}
		return string(text)
	}
}

func fixed(n int) func([]byte) int {
	return func(s []byte) int { return min(n, len(s)) }
}

// leadByte takes two bytes for a code that begins with from to 0xfe.
func leadByte(from byte) func([]byte) int {
	return func(s []byte) int {
		if len(s) > 1 && s[0] >= from && s[0] <= 0xfe {
			return 2
		}
		return 1
	}
}

func shiftJISSize(s []byte) int {
	if len(s) > 1 && (s[0] >= 0x81 && s[0] <= 0x9f || s[0] >= 0xe0 && s[0] <= 0xfc) {
		return 2
	}
	return 1
}

func utf16Size(s []byte) int {
	if len(s) >= 4 && s[0]&0xfc == 0xd8 {
		return 4
	}
	return min(2, len(s))
}

func utf8Size(s []byte) int {
	_, n := utf8.DecodeRune(s)
	return n
}
