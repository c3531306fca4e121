package pdf_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/pdf"
	"github.com/batchfleet/batchfleet/pdf/pdftest"
)

// form returns a page that says "form" with the given widgets, objects from 8
// on. Objects 4 and 5 are appearances that say "drawn" and nothing, 6 is a long
// value. entries are of the interactive form.
func form(entries string, widgets ...string) []byte {
	b := pdftest.Pages()
	b.Stream("/Subtype /Form /BBox [0 0 200 20] /Resources <</Font <</F 3 0 R>>>>", "/Tx BMC BT /F 12 Tf (drawn) Tj ET EMC")
	b.Stream("/Subtype /Form /BBox [0 0 200 20]", "/Tx BMC EMC")
	b.Flate("", "\xfe\xff\x00l\x00o\x00n\x00g")
	b.Add("<</FT /Tx /T (field) /V (from above) /Kids [8 0 R]>>")
	var list strings.Builder
	for i, w := range widgets {
		n := b.Add("<</Type /Annot /Subtype /Widget /T (%d) /F 4 /DA (/F 12 Tf 0 g) /Rect [100 %d 300 %d] %s>>", i, 500-100*i, 580-100*i, w)
		fmt.Fprintf(&list, "%d 0 R ", n)
	}
	b.Set(1, "<</Type /Catalog /Pages 2 0 R /AcroForm <</Fields [%s] /DA (/F 12 Tf 0 g) /DR <</Font <</F 3 0 R>>>> %s>>>>", list.String(), entries)
	return showing(b, "BT /F 12 Tf 72 720 Td (form) Tj ET", "/Annots ["+list.String()+"]")
}

const stale = "/NeedAppearances true"

func TestF78ValuesOfFields(t *testing.T) {
	const (
		options = "/Opt [[(a) (Apple)] [(b) (Banana)] (c) [(d) (Date)]]"
		drawn   = "/AP <</N 4 0 R>>"
		states  = "/AP <</N <</Yes 4 0 R>>>>"
		kids    = "/Kids [8 0 R 9 0 R]"
	)
	one := func(widget string) []string { return []string{widget} }
	for _, tt := range []struct {
		name, entries string
		widgets       []string
		want          string
	}{
		{"text", "", one("/FT /Tx /V (in Z\\374rich)"), "form in Zürich"},
		{"UTF-16", "", one("/FT /Tx /V <FEFF017D 006C 0075 0165>"), "form Žluť"},
		{"PDFDocEncoding", "", one("/FT /Tx /V (5 \\240 \\204 x)"), "form 5 € — x"},
		{"lines", "", one("/FT /Tx /Ff 4096 /V (one\\rtwo\\r\\nthree)"), "form|one|two|three"},
		{"a name", "", one("/FT /Tx /V /Name"), "form Name"},
		{"a stream", "", one("/FT /Tx /V 6 0 R"), "form long"},
		{"right to left", "", one("/FT /Tx /V <FEFF 05E9 05DC 05D5 05DD>"), "form שלום"},
		{"of the field above", "", one("/Parent 7 0 R"), "form from above"},
		{"of the field above, not of another", "", one("/Parent 7 0 R /V (own)"), "form own"},
		{"no value", "", one("/FT /Tx"), "form"},
		{"no rectangle", "", one("/FT /Tx /V (value) /Rect [1 1 1 1]"), "form"},
		{"hidden", "", one("/FT /Tx /V (value) /F 2"), "form"},
		{"a password", "", one("/FT /Tx /Ff 8192 /V (secret)"), "form"},
		{"a signature", "", one("/FT /Sig /V <</Name (signed)>>"), "form"},
		{"two fields", "", []string{"/FT /Tx /V (one)", "/FT /Tx /V (two)"}, "form|one|two"},

		{"drawn", "", one("/FT /Tx /V (value) " + drawn), "form drawn"},
		{"drawn, but stale", stale, one("/FT /Tx /V (value) " + drawn), "form value"},
		{"drawn, stale, without a value", stale, one("/FT /Tx " + drawn), "form drawn"},
		{"drawn as empty, but stale", stale, one("/FT /Tx /V (value) /AP <</N 5 0 R>>"), "form value"},
		{"another annotation", stale, one("/Subtype /FreeText /FT /Tx /V (value) " + drawn), "form drawn"},

		{"choice", "", one("/FT /Ch /Ff 131072 /V (b) " + options), "form Banana"},
		{"choice without a name of its own", "", one("/FT /Ch /V (c) " + options), "form c"},
		{"choice typed in", "", one("/FT /Ch /Ff 393216 /V (else) " + options), "form else"},
		{"several choices", "", one("/FT /Ch /Ff 2097152 /V [(b) (d)] " + options), "form|Banana|Date"},

		{"box on", "", one("/FT /Btn /V /Yes /AS /Yes"), "form Yes"},
		{"box on without a state", "", one("/FT /Btn /V /Yes"), "form Yes"},
		{"box off", "", one("/FT /Btn /V /Off /AS /Off"), "form"},
		{"box off by its state", "", one("/FT /Btn /V /Yes /AS /Off"), "form"},
		{"box on, drawn", stale, one("/FT /Btn /V /Yes /AS /Yes " + states), "form drawn"},
		{"box on, whose other state is drawn", "", one("/FT /Btn /V /On /AS /On " + states), "form On"},
		{"button to push", "", one("/FT /Btn /Ff 65536 /V /Yes"), "form"},
		{"radio buttons", "", []string{"/AS /Off /Parent <</FT /Btn /Ff 32768 /V /Two>>", "/AS /Two /Parent <</FT /Btn /Ff 32768 /V /Two>>"}, "form Two"},
		{"radio buttons without states", "", []string{"/Parent <</FT /Btn /V /Two " + kids + ">>", "/Parent <</FT /Btn /V /Two " + kids + ">>"}, "form Two"},
		{"radio buttons with numbers for names", "", one("/AS /1 /Parent <</FT /Btn /Ff 32768 /V /1 /Opt [(first) (second)]>>"), "form second"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := text(t, open(t, form(tt.entries, tt.widgets...), pdf.Options{}))
			if !strings.Contains(tt.want, "|") { // or lines matter
				got = words(got)
			}
			if got = strings.ReplaceAll(got, "\n", "|"); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestF78LetterspacedAnnotationKeepsItsWords(t *testing.T) {
	b := pdftest.Pages()
	draft := b.Stream("/Subtype /Form /BBox [0 0 200 20] /Resources <</Font <</F 3 0 R>>>>", "BT /F 10 Tf 4 Tc (DRAFT) Tj ET")
	page := showing(b, "BT /F 12 Tf 72 720 Td (text) Tj ET", fmt.Sprintf("/Annots [<</Type /Annot /Subtype /FreeText /Rect [100 500 300 520] /AP <</N %d 0 R>>>>]", draft))
	if got, want := text(t, open(t, page, pdf.Options{})), "text\nDRAFT"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
