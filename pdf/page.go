package pdf

import (
	"errors"
	"fmt"
	"iter"
	"unicode"

	"github.com/batchfleet/batchfleet/pdf/content"
)

// Page is what one page shows.
type Page struct {
	Number int    // from 1
	Text   string // valid UTF-8: words a blank apart, lines a line feed
	Words  int    // fields of Text between white space
	// Characters counts the runes of Text that are not white space, so it does
	// not depend on where lines break.
	Characters int
	Images     int // drawn, each time it is drawn
	HasText    bool
}

// Page reads page n, counted from 1. A page that cannot be read in full is
// returned as far as it was read, together with the error; [ErrLimit] is one
// of them. It never panics.
func (d *Document) Page(n int) (p Page, err error) {
	p.Number = n
	if n < 1 || n > len(d.tree.pages) {
		return p, fmt.Errorf("read page %d: the document has %d", n, len(d.tree.pages))
	}
	defer recovered(fmt.Sprintf("read page %d", n), &err)
	d.file.SetBudget(d.opts.MaxPageBytes)
	dict, resources := d.page(n)
	if dict == nil {
		return p, fmt.Errorf("read page %d: its object is missing", n)
	}
	result, err := content.Read(d.file, d.fonts, dict, resources, content.Limits{
		Operators: d.opts.MaxOperators,
		Text:      d.opts.MaxTextBytes,
	})
	p.Text, p.Images = result.Text, result.Images
	p.count()
	if errors.Is(err, content.ErrLimit) || d.file.BudgetErr() != nil {
		err = fmt.Errorf("%w: %w", ErrLimit, err)
	}
	if err != nil {
		err = fmt.Errorf("read page %d: %w", n, err)
	}
	return p, err
}

// count fills in what follows from the text.
func (p *Page) count() {
	inWord := false
	for _, r := range p.Text {
		if unicode.IsSpace(r) {
			inWord = false
			continue
		}
		p.Characters++
		if !inWord {
			p.Words++
		}
		inWord = true
	}
	p.HasText = p.Characters > 0
}

// Pages reads the pages from number from on, counted from 1, one at a time. A
// page that fails comes with its error, and the iteration goes on.
func (d *Document) Pages(from int) iter.Seq2[Page, error] {
	return func(yield func(Page, error) bool) {
		for n := max(1, from); n <= len(d.tree.pages); n++ {
			if !yield(d.Page(n)) {
				return
			}
		}
	}
}
