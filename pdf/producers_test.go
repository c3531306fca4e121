package pdf_test

import (
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/pdf"
)

const letter = `On the Care of Slow Machines
A. Keeper
The Engine Room
1. Feeding
A slow machine wants regular work in small pieces. Do not give it a whole book at once: tear out
the pages, “one by one”, and wait for each of them to come back. Difficult efficient files suffice;
the office is afflicted by ñandu.
• Work that is not asked for is not done.
• Work that is done twice counts once.
2. Resting
Shift Hours
Day 8
Night 12
for page := range pages { read(page) }
-2-
3. Leaving
Before the lights go out, hand back what you hold.`

func TestF71TextOfRealProducers(t *testing.T) {
	tests := []struct {
		file, want string
		pages      int
	}{
		{"groff.pdf", letter, 2},
		{"ghostscript.pdf", letter, 2},
		{"cairo.pdf", "Příliš žluťoučký kůň\nΕλληνικά и кириллица\nsideways up", 1},
	}
	for _, tt := range tests {
		t.Run(tt.file, func(t *testing.T) {
			d := open(t, fixture(t, tt.file), pdf.Options{})
			got := strings.ReplaceAll(text(t, d), "|", "\n")
			if got != tt.want || d.NumPages() != tt.pages {
				t.Errorf("%d pages:\n%s", d.NumPages(), got)
			}
		})
	}
}

func TestF72ImageOfARealProducer(t *testing.T) {
	d := open(t, fixture(t, "cairo.pdf"), pdf.Options{})
	if p, err := d.Page(1); err != nil || p.Images != 1 {
		t.Errorf("%d images, %v; want 1", p.Images, err)
	}
	if title := d.Info().Title; title != "Žluťoučký kůň" {
		t.Errorf("title is %q", title)
	}
}
