package pdf_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/batchfleet/batchfleet/pdf"
	"github.com/batchfleet/batchfleet/pdf/pdftest"
)

func TestF72PageCounts(t *testing.T) {
	b := pdftest.Pages("Two words,\nthen f\xfcnf.", "", "one")
	image := b.Stream("/Type /XObject /Subtype /Image /Width 1 /Height 1", "x")
	b.Set(4, "%s", strings.ReplaceAll(fmt.Sprintf("<</Length %d>>\nstream\n%s\nendstream", 300, pad(pdftest.Contents("Two words,\nthen f\xfcnf.")+"/I Do /I Do BI /W 1 /H 1 ID \x01\x02 EI\n", 300)), "\x00", " "))
	b.Set(2, "<</Type /Pages /Kids [5 0 R 7 0 R 9 0 R] /Resources <</Font <</F 3 0 R>> /XObject <</I %d 0 R>>>>>>", image)
	d := open(t, b.Table(""), pdf.Options{})
	want := []pdf.Page{
		{Number: 1, Text: "Two words,\nthen fünf.", Words: 4, Characters: 18, Images: 3, HasText: true},
		{Number: 2},
		{Number: 3, Text: "one", Words: 1, Characters: 3, HasText: true},
	}
	for i := range want {
		if got, err := d.Page(i + 1); err != nil || !cmp.Equal(got, want[i]) {
			t.Errorf("got %+v, %v; want %+v", got, err, want[i])
		}
	}
}

func pad(s string, n int) string { return s + strings.Repeat(" ", n-len(s)) }

func TestPageNumbersOutOfRange(t *testing.T) {
	d := open(t, pdftest.Pages("a").Table(""), pdf.Options{})
	for _, n := range []int{-1, 0, 2} {
		if p, err := d.Page(n); err == nil || p.Number != n {
			t.Errorf("page %d is %+v, %v", n, p, err)
		}
	}
}

func TestIterationGoesOnAfterAPageThatFails(t *testing.T) {
	b := pdftest.Pages("one", "two", "three")
	b.Set(6, "<</Filter /FlateDecode /Length 4>>\nstream\n\xff\xff\xff\xff\nendstream")
	d := open(t, b.Table(""), pdf.Options{})
	var got []string
	for p, err := range d.Pages(1, d.NumPages()) {
		got = append(got, fmt.Sprintf("%d %s %v", p.Number, p.Text, err != nil))
	}
	if want := "[1 one false 2  true 3 three false]"; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestPagesMayBeginAnywhereAndEndEarly(t *testing.T) {
	d := open(t, pdftest.Pages("a", "b", "c", "d").Table(""), pdf.Options{})
	var got []int
	for p, err := range d.Pages(2, d.NumPages()) {
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, p.Number); len(got) == 2 {
			break
		}
	}
	if fmt.Sprint(got) != "[2 3]" {
		t.Errorf("got %v, want [2 3]", got)
	}
	for p, err := range d.Pages(5, d.NumPages()) {
		t.Errorf("page %d after the last, %v", p.Number, err)
	}
}

func TestLimitsOfAPage(t *testing.T) {
	// Every level of forms draws the next ten times: 10¹⁵ times in all.
	b := pdftest.Pages("before", "after")
	form := b.Stream("/Type /XObject /Subtype /Form", "BT /F 1 Tf (x) Tj ET")
	for i := range 15 {
		draw := fmt.Sprintf("/X Do 1 0 0 1 %d 0 cm ", int(math.Pow10(i))) // beside each other: what lies on itself is read once
		form = b.Stream(fmt.Sprintf("/Type /XObject /Subtype /Form /Resources <</Font <</F 3 0 R>> /XObject <</X %d 0 R>>>>", form), strings.Repeat(draw, 10))
	}
	b.Set(2, "<</Type /Pages /Kids [5 0 R 7 0 R] /Resources <</Font <</F 3 0 R>> /XObject <</X %d 0 R>>>>>>", form)
	bombs := b.Stream("", pdftest.Contents("before")+"/X Do")
	b.Set(5, "<</Type /Page /Contents %d 0 R>>", bombs)
	tests := []struct {
		name string
		opts pdf.Options
		says string
	}{
		{"operators", pdf.Options{MaxOperators: 1000}, "more than 1000 operators"},
		{"text", pdf.Options{MaxTextBytes: 50}, "more than 50 bytes of text"},
		{"decoded bytes", pdf.Options{MaxPageBytes: 20_000}, "budget"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := open(t, b.Table(""), tt.opts)
			p, err := d.Page(1)
			if !errors.Is(err, pdf.ErrLimit) || !strings.Contains(err.Error(), tt.says) || !strings.HasPrefix(p.Text, "before") || len(p.Text) > 10_000 {
				t.Errorf("got %.20q, %v; want what was read and ErrLimit", p.Text, err)
			}
			if p, err := d.Page(2); err != nil || p.Text != "after" {
				t.Errorf("the page after it is %q, %v", p.Text, err)
			}
		})
	}
}

func TestLimitsOfAStream(t *testing.T) {
	data := pdftest.Pages(strings.Repeat("long ", 10_000)).Table("")
	for name, opts := range map[string]pdf.Options{
		"of the stream": {MaxStreamBytes: 5000},
		"of the page":   {MaxPageBytes: 5000},
		"of its text":   {MaxTextBytes: 5000},
	} {
		p, err := open(t, data, opts).Page(1)
		if !errors.Is(err, pdf.ErrLimit) || len(p.Text) > 5000 {
			t.Errorf("limit %s: %d bytes of text, %v; want ErrLimit", name, len(p.Text), err)
		}
	}
}

func TestF71DamagedPartsAreToldWithTheTextThereIs(t *testing.T) {
	var lines strings.Builder
	for i := range 300 {
		fmt.Fprintf(&lines, "some words, %d\n", i*i*i*7919)
	}
	whole := pdftest.Deflate(pdftest.Contents(lines.String()))
	cut := whole[:len(whole)/2]
	b := pdftest.Pages("one", "two")
	b.Set(4, "<</Filter /FlateDecode /Length %d>>\nstream\n%s\nendstream", len(cut), cut)
	form := b.Stream("/Type /XObject /Subtype /Form /Filter /Nonsense", "x")
	b.Set(6, "%s", strings.Replace(fmt.Sprintf("<</Length LL>>\nstream\n%s/X Do\nendstream", pdftest.Contents("two")), "LL", fmt.Sprint(len(pdftest.Contents("two"))+5), 1))
	b.Set(7, "<</Type /Page /Parent 2 0 R /Contents 6 0 R /Resources <</Font <</F 3 0 R>> /XObject <</X %d 0 R>>>>>>", form)
	d := open(t, b.Table(""), pdf.Options{})
	if p, err := d.Page(1); err == nil || !strings.Contains(err.Error(), "read contents: decode stream 4: inflate") || !strings.HasPrefix(p.Text, "some words") {
		t.Errorf("contents cut off: %.20q, %v", p.Text, err)
	}
	if p, err := d.Page(2); err == nil || !strings.Contains(err.Error(), `read form: decode stream`) || !strings.Contains(err.Error(), `unsupported filter "Nonsense"`) || p.Text != "two" {
		t.Errorf("a form in an unknown encoding: %q, %v", p.Text, err)
	}
}
