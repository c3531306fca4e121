package pdf_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/batchfleet/batchfleet/pdf"
	"github.com/batchfleet/batchfleet/pdf/pdftest"
)

const xmp = `<?xpacket begin="" id="W5M0MpCehiHzreSzNTczkc9d"?><x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">
<rdf:Description rdf:about="" xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:xap="http://ns.adobe.com/xap/1.0/" xmlns:pdf="http://ns.adobe.com/pdf/1.3/" xap:CreatorTool="A &amp; B" xap:CreateDate="2026-01-02T03:04:05+02:00">
<dc:title><rdf:Alt><rdf:li xml:lang="x-default">The title</rdf:li><rdf:li xml:lang="de">Der Titel</rdf:li></rdf:Alt></dc:title>
<dc:creator><rdf:Seq><rdf:li>Ann</rdf:li><rdf:li>Böb</rdf:li></rdf:Seq></dc:creator>
<dc:subject><rdf:Bag><rdf:li>one</rdf:li><rdf:li>two</rdf:li></rdf:Bag></dc:subject>
<pdf:Producer>Producer from XMP</pdf:Producer><xap:ModifyDate>2026-02</xap:ModifyDate></rdf:Description></rdf:RDF></x:xmpmeta><?xpacket end="w"?>`

func TestF72MetadataOfXMP(t *testing.T) {
	full := pdf.Info{
		Version: "1.7", Title: "The title", Author: "Ann, Böb", Keywords: "one, two", Creator: "A & B", Producer: "Producer from XMP",
		Created: time.Date(2026, 1, 2, 1, 4, 5, 0, time.UTC), Modified: time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC),
	}
	inPart := full
	inPart.Title, inPart.Modified = "Of the dictionary", time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	cut := pdf.Info{Version: "1.7", Title: "The title", Creator: "A & B", Created: full.Created}
	tests := []struct {
		name, packet, trailer string
		want                  pdf.Info
	}{
		{"alone", xmp, "", full},
		{"beside the information dictionary", xmp, "/Info <</Title (Of the dictionary) /ModDate (D:20250101)>>", inPart},
		{"cut off", xmp[:strings.Index(xmp, "</rdf:Alt>")], "", cut},
		{"no XML", "\x00\xff<<<>>>&nope;", "", pdf.Info{Version: "1.7"}},
		{"empty", "", "", pdf.Info{Version: "1.7"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := pdftest.Pages("text")
			b.Set(1, "<</Type /Catalog /Pages 2 0 R /Metadata %d 0 R>>", b.Stream("/Type /Metadata /Subtype /XML", tt.packet))
			if diff := cmp.Diff(tt.want, open(t, b.Table(tt.trailer), pdf.Options{}).Info()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestF72HugeXMPIsReadInPart(t *testing.T) {
	packet := strings.Replace(xmp, "xap:CreatorTool", strings.Repeat("dc:subject='word' ", 40_000)+"xap:CreatorTool", 1)
	b := pdftest.Pages("text")
	b.Set(1, "<</Type /Catalog /Pages 2 0 R /Metadata %d 0 R>>", b.Flate("/Type /Metadata", packet))
	info := open(t, b.Table(""), pdf.Options{}).Info()
	if n := len(info.Keywords); n < 4000 || n > 4096 || info.Producer != "" {
		t.Errorf("%d bytes of keywords, producer %q; want some of the first and nothing after 20 000 attributes", n, info.Producer)
	}
}
