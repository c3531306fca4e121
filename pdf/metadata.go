package pdf

import (
	"strings"
	"time"

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

// Info returns the document's metadata, from its information dictionary and,
// where that has none, its XMP metadata. What is damaged is left empty.
func (d *Document) Info() Info {
	info, _ := d.info() // after a panic, what was read before it
	return info
}

func (d *Document) info() (info Info, err error) {
	defer recovered("read metadata", &err)
	defer faultsPanic()()
	r := d.reader()
	defer r.done()
	defer r.addWarnings()
	r.file.SetBudget(d.opts.MaxPageBytes)
	dict := r.file.Dict(r.file.Trailer["Info"])
	text := func(key cos.Name) string { return plain(r.file.String(dict[key])) }
	date := func(key cos.Name) time.Time { return parseDate(string(r.file.String(dict[key]))) }
	info = Info{
		Version: r.file.Version, Encrypted: r.file.Encrypted(),
		Title: text("Title"), Author: text("Author"), Subject: text("Subject"), Keywords: text("Keywords"),
		Creator: text("Creator"), Producer: text("Producer"),
		Created: date("CreationDate"), Modified: date("ModDate"),
	}
	// The catalog may raise the version, in files that were updated in place.
	if v := string(r.file.Name(r.catalog()["Version"])); len(v) == len("1.7") && v > info.Version {
		info.Version = v
	}
	info.complete(r.file, r.catalog())
	return info, nil
}

// plain returns a text string as valid UTF-8 on one line, cut to size.
func plain(text cos.String) string {
	return plainText(text[:min(len(text), 2*maxMetadata)].Text())
}

func plainText(s string) string {
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

// parseDate reads "D:YYYYMMDDHHmmSSOHH'mm'". Everything after the year may be
// missing. It returns the zero time for what is no date; a time
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
