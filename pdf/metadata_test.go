package pdf_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/batchfleet/batchfleet/pdf"
	"github.com/batchfleet/batchfleet/pdf/pdftest"
)

func TestF72Metadata(t *testing.T) {
	b := pdftest.Pages("a")
	info := b.Add(`<</Title <FEFF30C730FC30BF D83DDE00> /Author (J\366rg \223X\224 \200\240) /Subject <EFBBBFE697A5E69CAC>
		/Keywords <FFFE41004200> /Creator (two\nlines\000) /Producer <FEFF001B0065006E001B0048006900FC>
		/CreationDate (D:20240229134501+09'30') /ModDate (D:2024)>>`)
	b.Set(1, "<</Type /Catalog /Pages 2 0 R /Version /2.0>>")
	got := open(t, b.Table(fmt.Sprintf("/Info %d 0 R", info)), pdf.Options{}).Info()
	want := pdf.Info{
		Version: "2.0", Title: "データ😀", Author: "Jörg ﬁXﬂ •€", Subject: "日本", Keywords: "AB",
		Creator: "two lines", Producer: "Hiü",
		Created:  time.Date(2024, 2, 29, 4, 15, 1, 0, time.UTC),
		Modified: time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestMetadataOfAFileWithoutAny(t *testing.T) {
	got := open(t, pdftest.Pages("a").Table("/Info 99 0 R"), pdf.Options{}).Info()
	if diff := cmp.Diff(pdf.Info{Version: "1.7"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestDates(t *testing.T) {
	day := time.Date(2019, 12, 31, 0, 0, 0, 0, time.UTC)
	tests := []struct {
		name, date string
		want       time.Time
	}{
		{"full, east", "D:20191231023000+02'30'", day},
		{"full, west", "D:20191230190000-05'00", day},
		{"full, no quotes", "D:20191231010000+0100", day},
		{"hours only in the zone", "D:20191231010000+01", day},
		{"Zulu", "D:20191231000000Z", day},
		{"Zulu with zeros", "D:20191231000000Z00'00'", day},
		{"no zone", "D:20191231000000", day},
		{"no prefix", "20191231", day},
		{"month", "D:201912", time.Date(2019, 12, 1, 0, 0, 0, 0, time.UTC)},
		{"day that does not exist", "D:20190231", time.Time{}},
		{"words", "yesterday", time.Time{}},
		{"empty", "", time.Time{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := pdftest.Pages("a")
			info := b.Add("<</CreationDate (%s)>>", tt.date)
			if got := open(t, b.Table(fmt.Sprintf("/Info %d 0 R", info)), pdf.Options{}).Info().Created; !got.Equal(tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestLongMetadataIsCut(t *testing.T) {
	b := pdftest.Pages("a")
	info := b.Add("<</Title (%s)>>", strings.Repeat("\xe4", 100_000))
	if got := open(t, b.Table(fmt.Sprintf("/Info %d 0 R", info)), pdf.Options{}).Info().Title; len(got) > 4<<10 || len(got) < 4<<9 {
		t.Errorf("the title is %d bytes long", len(got))
	}
}

// outlined returns a document of three pages whose outline begins at object
// 10, which items are added as from there on.
func outlined(items ...string) *pdftest.Builder {
	b := pdftest.Pages("a", "b", "c") // pages are objects 5, 7 and 9
	for _, item := range items {
		b.Add("%s", item)
	}
	b.Set(1, `<</Type /Catalog /Pages 2 0 R /Outlines <</First 10 0 R>> /Dests <</old [9 0 R /Fit]>>
		/Names <</Dests <</Kids [<</Names [(new) <</D [7 0 R /XYZ 0 0 0]>> (array) [5 0 R]]>>]>>>>>>`)
	return b
}

func TestF72Outline(t *testing.T) {
	b := outlined(
		"<</Title (One) /Dest [5 0 R /Fit] /First 11 0 R /Next 13 0 R>>",
		"<</Title (named in the tree) /Dest (new) /Next 12 0 R>>",
		"<</Title (named in the catalog) /Dest /old>>",
		"<</Title (Two) /A <</S /GoTo /D (array)>> /Next 14 0 R>>",
		"<</Title (a link) /A <</S /URI /URI (http://example.org)>> /Next 15 0 R>>",
		"<</Title (by index) /Dest [2 /Fit] /Next 16 0 R>>",
		"<</Title (astray) /Dest (nowhere)>>",
	)
	want := []pdf.OutlineItem{
		{Title: "One", Level: 1, Page: 1},
		{Title: "named in the tree", Level: 2, Page: 2},
		{Title: "named in the catalog", Level: 2, Page: 3},
		{Title: "Two", Level: 1, Page: 1},
		{Title: "a link", Level: 1},
		{Title: "by index", Level: 1, Page: 3},
		{Title: "astray", Level: 1},
	}
	if diff := cmp.Diff(want, open(t, b.Packed(""), pdf.Options{}).Outline()); diff != "" {
		t.Error(diff)
	}
}

func TestOutlineInACircleEnds(t *testing.T) {
	b := outlined(
		"<</Title (a) /First 10 0 R /Next 11 0 R>>",
		"<</Title (b) /First 10 0 R /Next 11 0 R>>",
	)
	if got := open(t, b.Table(""), pdf.Options{}).Outline(); len(got) != 2 {
		t.Errorf("got %v", got)
	}
}

func TestOutlineIsBounded(t *testing.T) {
	var items []string
	for i := range 10_500 {
		items = append(items, fmt.Sprintf("<</Title (%d) /Next %d 0 R>>", i, 11+i))
	}
	if got := open(t, outlined(items...).Packed(""), pdf.Options{}).Outline(); len(got) != 10_000 {
		t.Errorf("%d items, want 10000", len(got))
	}
}
