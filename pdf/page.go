package pdf

import (
	"errors"
	"fmt"
	"unicode"

	"github.com/batchfleet/batchfleet/pdf/cos"
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
	// Warnings tells what of the page was repaired, is missing or was guessed,
	// for people: at most eight short texts. Of a page without warnings and
	// without an error the text is whole.
	Warnings []string
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
	defer faultsPanic()()
	r := d.reader()
	defer r.done()
	r.file.SetBudget(d.opts.MaxPageBytes)
	r.file.TakeNotes() // of a page that was not finished
	page := r.page(n)
	if page.Dict == nil {
		return p, fmt.Errorf("read page %d: its object is missing", n)
	}
	if r.tree.lost {
		r.file.Note("the page number is guessed")
	}
	result, err := r.content.Read(page)
	p.Text, p.Images = result.Text, result.Images
	p.count()
	p.Warnings = r.file.TakeNotes()
	if errors.Is(err, cos.ErrBudget) {
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
