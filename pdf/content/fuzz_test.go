package content_test

import (
	"testing"
	"unicode/utf8"

	"github.com/batchfleet/batchfleet/pdf/content"
)

func FuzzContent(f *testing.F) {
	for _, seed := range []string{
		"BT /F 10 Tf 14 TL 72 720 Td (Two words,) Tj T* [(then) -250 (more)] TJ ET",
		"q 2 0 0 2 0 0 cm BT /V 10 Tf <65e5672c8a9e> Tj ET Q /Y Do /X Do",
		"BI /W 1 /H 1 ID \x80\xff EI BT /G gs 4 Tc 90 Tw 50 Tz 3 Ts (a b) Tj (c) ' 1 2 (d) \" ET",
		"/OC /Off BDC BT /F 10 Tf (a) Tj EMC /Span <</ActualText <FEFF00E9>>> BDC (x) Tj EMC",
		"BT /F 10 Tf (a) Tj 4 Tc (bc) Tj [(d)400(e)] TJ 0 Tc 9 0 Td (f) Tj",
		"BT /F 10 Tf (Bold) Tj 0.3 0 Td (Bold) Tj (e) Tj 1 0 Td (\xb4) Tj <FF> Tj",
		"/OC /Or BDC /OC /M BDC /L Do EMC EMC 1 0 0 1 0 1e9 Tm 0 0 0 0 0 0 cm",
	} {
		f.Add([]byte(seed), "<</Subtype /Widget /Rect [0 0 9 9] /AP <</N 7 0 R>>>>")
	}
	f.Add([]byte("BT /F 10 Tf (a) Tj ET"), "<</Subtype /Widget /Rect [0 0 9 9] /FT /Ch /V [(b) /c] /Opt [[(b) (B)]]>> <</Subtype /Widget /Rect [0 0 9 9] /Parent <</FT /Btn /V /1 /Opt [(x) (y)] /Kids []>>>>")
	f.Fuzz(func(t *testing.T, contents []byte, annotations string) {
		file, page := open(t, string(contents), annotations)
		limits := content.Limits{Operators: 20_000, Text: 50_000}
		got, _ := content.NewReader(file, limits).Read(page) // any error is fine
		if !utf8.ValidString(got.Text) || len(got.Text) > limits.Text+1 {
			t.Errorf("text of %d bytes, valid UTF-8: %v", len(got.Text), utf8.ValidString(got.Text))
		}
	})
}
