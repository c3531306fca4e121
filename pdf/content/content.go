// Package content reads the text of pages: it runs their content streams as
// far as text needs, with the form XObjects they use and the appearance of
// their annotations, or the value of form fields without one, and puts the
// glyphs into words and lines.
//
// Lines come in the order in which the page draws them, which for nearly all
// producers is the order of reading. Nothing is drawn, and operators without
// effect on text cost little more than being skipped. Text that is not visible is
// left out: outside the page, on a layer that is off, drawn a second time over
// itself. What is clipped or covered is read all the same, and so is invisible
// text over a scanned image: it is what the scan says.
package content

import (
	"errors"
	"fmt"
	"math"

	"github.com/batchfleet/batchfleet/pdf/cos"
	"github.com/batchfleet/batchfleet/pdf/font"
)

// ErrLimit says that a page has more operators or more text than allowed.
var ErrLimit = errors.New("over a limit")

// Limits bound the work on one page. The bytes it may decode are bounded by
// the budget of the file.
type Limits struct {
	Operators int // content-stream operators, forms included
	Text      int // bytes of text
}

// Page is a page and what it inherits.
type Page struct {
	Dict      cos.Dict
	Resources cos.Object
	MediaBox  cos.Object // nil if unknown: then nothing is outside
}

// Result is what a page shows.
type Result struct {
	Text   string
	Images int // drawn, each time it is drawn
}

const (
	// maxOperands bounds the operands kept for one operator, array elements
	// included: long lines set in one TJ have a few thousand.
	maxOperands = 1 << 16
	// maxStates bounds the graphics states saved; the standard guarantees 28.
	maxStates = 512
	// maxForms bounds how deep form XObjects nest.
	maxForms = 20
	// loadCost is what loading a font counts in operators.
	loadCost = 500
)

// Reader reads the pages of one file. It keeps their fonts, which pages share.
// It is not safe for concurrent use.
type Reader struct {
	file   *cos.File
	limits Limits
	fonts  font.Cache
	layers *layers // nil before the first need
}

// NewReader returns a reader of the pages of file.
func NewReader(file *cos.File, limits Limits) *Reader {
	return &Reader{file: file, limits: limits, fonts: font.Cache{File: file}}
}

// Read reads one page. With an error it returns what it has read: the errors are
// [ErrLimit], [cos.ErrBudget], and the first of decoding what the page shows.
func (r *Reader) Read(page Page) (Result, error) {
	in := &interpreter{
		Reader: r, operators: r.limits.Operators,
		layout: layout{limit: r.limits.Text, page: everywhere}, running: map[*cos.Stream]bool{},
	}
	if b, ok := readBox(r.file, page.MediaBox); ok {
		in.layout.page = b
	}
	if r.file.Missing(page.Resources) {
		r.file.Note("the resources are missing")
	}
	in.run(in.contents(page.Dict), r.file.Dict(page.Resources), graphics{ctm: identity, stretch: 1}, 0)
	in.annotations(page.Dict)
	result := Result{Text: in.layout.finish(), Images: in.images}
	if budgetErr := r.file.BudgetErr(); budgetErr != nil {
		return result, budgetErr
	}
	switch {
	case in.operators < 0:
		return result, fmt.Errorf("%w: more than %d operators", ErrLimit, r.limits.Operators)
	case in.layout.full:
		return result, fmt.Errorf("%w: more than %d bytes of text", ErrLimit, r.limits.Text)
	case in.cut:
		return result, fmt.Errorf("%w: %w", ErrLimit, cos.ErrTooLong)
	}
	return result, in.failed
}

// contents returns the page's content streams as one. A stream that breaks off
// is read as far as it goes.
func (in *interpreter) contents(page cos.Dict) []byte {
	parts := in.file.List(page["Contents"])
	if in.file.Missing(page["Contents"]) {
		in.file.Note("the contents are missing")
	}
	var data []byte
	for _, o := range parts {
		s := in.file.Stream(o)
		if s == nil {
			in.file.Note("some of the contents are missing")
		}
		part := in.decode("contents", s, math.MaxInt)
		if len(parts) == 1 {
			return part
		}
		data = append(data, part...)
		data = append(data, '\n') // streams end between tokens
	}
	return data
}

// decode returns what can be decoded of the first limit bytes of s, and keeps
// the first error.
func (in *interpreter) decode(what string, s *cos.Stream, limit int) []byte {
	data, err := in.file.DecodePrefix(s, limit)
	in.cut = in.cut || errors.Is(err, cos.ErrTooLong)
	if err != nil && in.failed == nil {
		in.failed = fmt.Errorf("read %s: %w", what, err)
	}
	return data
}
