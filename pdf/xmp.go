package pdf

import (
	"bytes"
	"encoding/xml"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/pdf/cos"
)

const (
	// maxXMP bounds the metadata stream that is read; most of it is padding.
	maxXMP = 1 << 20
	// maxXMPTokens bounds the work on it: elements, attributes and texts.
	maxXMPTokens = 20_000
)

// complete fills the fields of i that are empty from the XMP metadata stream of
// the catalog (ISO 32000-2, 14.3.2). Since PDF 2.0 the information dictionary
// need not say them.
func (i *Info) complete(file *cos.File, catalog cos.Dict) {
	s := file.Stream(catalog["Metadata"])
	if s == nil {
		return
	}
	data, _ := file.DecodePrefix(s, maxXMP) // damaged metadata still says something
	properties := readXMP(data)
	text := func(field *string, keys ...string) {
		for _, key := range keys {
			if *field == "" {
				*field = plainText(properties[key])
			}
		}
	}
	text(&i.Title, "dc:title")
	text(&i.Author, "dc:creator")
	text(&i.Subject, "dc:description")
	text(&i.Keywords, "pdf:Keywords", "dc:subject")
	text(&i.Creator, "xmp:CreatorTool")
	text(&i.Producer, "pdf:Producer")
	date := func(field *time.Time, key string) {
		if field.IsZero() {
			*field = parseXMPDate(properties[key])
		}
	}
	date(&i.Created, "xmp:CreateDate")
	date(&i.Modified, "xmp:ModifyDate")
}

// xmpPrefixes are the usual prefixes of the namespaces whose properties are
// read.
var xmpPrefixes = map[string]string{
	"http://purl.org/dc/elements/1.1/": "dc:",
	"http://ns.adobe.com/xap/1.0/":     "xmp:",
	"http://ns.adobe.com/pdf/1.3/":     "pdf:",
}

// readXMP returns the properties of an XMP packet by name, "dc:title". A
// property is an element, whose text may be in a list, or an attribute. Of
// titles and descriptions in several languages it takes the first, of other
// lists all.
func readXMP(packet []byte) map[string]string {
	properties := map[string]string{}
	add := func(name, text string) {
		text = strings.TrimSpace(text)
		switch before := properties[name]; {
		case len(before) >= maxMetadata: // no more of it will be kept
		case text == "" || before != "" && (name == "dc:title" || name == "dc:description"):
		case before != "":
			properties[name] = before + ", " + text
		default:
			properties[name] = text
		}
	}
	d := xml.NewDecoder(bytes.NewReader(packet))
	d.Strict = false
	var inside string // the property that is being read
	for left := maxXMPTokens; left > 0; left-- {
		t, err := d.Token()
		if err != nil {
			break
		}
		switch t := t.(type) {
		case xml.StartElement:
			if prefix, ok := xmpPrefixes[t.Name.Space]; ok {
				inside = prefix + t.Name.Local
			}
			for _, a := range t.Attr[:min(len(t.Attr), left)] {
				left--
				if prefix, ok := xmpPrefixes[a.Name.Space]; ok {
					add(prefix+a.Name.Local, a.Value)
				}
			}
		case xml.EndElement:
			if _, ok := xmpPrefixes[t.Name.Space]; ok {
				inside = ""
			}
		case xml.CharData:
			if inside != "" {
				add(inside, string(t[:min(len(t), 2*maxMetadata)]))
			}
		}
	}
	return properties
}

// parseXMPDate reads a date of ISO 8601. Everything after the year may be missing.
// It returns the zero time for what is no date.
func parseXMPDate(s string) time.Time {
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04Z07:00", "2006-01-02T15:04:05", "2006-01-02T15:04", time.DateOnly, "2006-01", "2006"} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC()
		}
	}
	return time.Time{}
}
