package pdf

import (
	"strings"
	"time"
	"unicode/utf16"

	"github.com/batchfleet/batchfleet/pdf/cos"
)

// Info is what a document says about itself. Strings are valid UTF-8, without
// control characters, at most 4 KiB each.
type Info struct {
	Version   string // of the PDF format: "1.7"; empty if the file does not say
	Encrypted bool
	Title     string
	Author    string
	Subject   string
	Keywords  string
	Creator   string    // the program the document was written in
	Producer  string    // the program that made it a PDF
	Created   time.Time // zero if unknown
	Modified  time.Time // zero if unknown
}

// maxMetadata bounds a metadata string and a title of the outline, in bytes.
const maxMetadata = 4 << 10

// Info returns the document's metadata, from its information dictionary. What
// is damaged is left empty.
func (d *Document) Info() Info {
	d.file.SetBudget(d.opts.MaxPageBytes)
	dict := d.file.Dict(d.file.Trailer["Info"])
	text := func(key cos.Name) string { return decodeText(d.file.String(dict[key])) }
	date := func(key cos.Name) time.Time { return parseDate(string(d.file.String(dict[key]))) }
	info := Info{
		Version: d.file.Version, Encrypted: d.file.Encrypted(),
		Title: text("Title"), Author: text("Author"), Subject: text("Subject"), Keywords: text("Keywords"),
		Creator: text("Creator"), Producer: text("Producer"),
		Created: date("CreationDate"), Modified: date("ModDate"),
	}
	// The catalog may raise the version, in files that were updated in place.
	if v := string(d.file.Name(d.catalog()["Version"])); len(v) == len("1.7") && v > info.Version {
		info.Version = v
	}
	return info
}

// decodeText decodes a text string: UTF-16 or UTF-8 with a byte order mark,
// else PDFDocEncoding.
func decodeText(s cos.String) string {
	b := []byte(s[:min(len(s), 2*maxMetadata)])
	var text string
	switch {
	case len(b) >= 2 && b[0] == 0xfe && b[1] == 0xff:
		text = decodeUTF16(b[2:], 0)
	case len(b) >= 2 && b[0] == 0xff && b[1] == 0xfe:
		text = decodeUTF16(b[2:], 1)
	case len(b) >= 3 && string(b[:3]) == "\xef\xbb\xbf":
		text = string(b[3:])
	default:
		text = decodePDFDoc(b)
	}
	return clean(text)
}

// decodeUTF16 decodes b, where high is the index of the high byte's
// counterpart: 0 for big-endian, 1 for little-endian.
func decodeUTF16(b []byte, low int) string {
	units := make([]uint16, 0, len(b)/2)
	for ; len(b) >= 2; b = b[2:] {
		units = append(units, uint16(b[low])<<8|uint16(b[1-low]))
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
func decodePDFDoc(b []byte) string {
	var text strings.Builder
	for _, c := range b {
		switch {
		case c >= 0x18 && c <= 0x1f:
			text.WriteRune([]rune("˘ˇˆ˙˝˛˚˜")[c-0x18])
		case c >= 0x80 && c <= 0xa0:
			text.WriteRune([]rune("•†‡…—–ƒ⁄‹›−‰„“”‘’‚™ﬁﬂŁŒŠŸŽıłœšž\ufffd€")[c-0x80])
		default:
			text.WriteRune(rune(c))
		}
	}
	return text.String()
}

// clean makes s valid UTF-8 on one line and cuts it to size.
func clean(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '\t' || r == '\n' || r == '\r':
			return ' '
		case r < ' ' || r >= 0x7f && r < 0xa0 || r == '\ufffd':
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	if len(s) > maxMetadata {
		s = strings.ToValidUTF8(s[:maxMetadata], "")
	}
	return strings.TrimSpace(s)
}

// parseDate reads "D:YYYYMMDDHHmmSSOHH'mm'", of which everything after the
// year may be missing. It returns the zero time for what is no date; a time
// without a zone is taken as UTC.
func parseDate(s string) time.Time {
	s = strings.TrimPrefix(strings.TrimSpace(s), "D:")
	digits := 0
	for digits < len(s) && digits < 14 && '0' <= s[digits] && s[digits] <= '9' {
		digits++
	}
	const layout = "20060102150405"
	if digits < 4 {
		return time.Time{}
	}
	digits -= digits % 2
	t, err := time.Parse(layout[:digits], s[:digits])
	if err != nil {
		return time.Time{}
	}
	return t.Add(-zone(s[digits:])).UTC()
}

// zone reads "+HH'mm'", "-HHmm" or "Z".
func zone(s string) time.Duration {
	if s == "" || s[0] != '+' && s[0] != '-' {
		return 0
	}
	t, err := time.Parse("1504", strings.ReplaceAll(s[1:], "'", ""))
	if err != nil {
		if t, err = time.Parse("15", strings.Trim(s[1:], "'")); err != nil {
			return 0
		}
	}
	offset := time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute
	if s[0] == '-' {
		return -offset
	}
	return offset
}
