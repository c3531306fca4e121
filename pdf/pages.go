package pdf

import "iter"

// Pages reads the pages from number first to number last, counted from 1, and
// yields them in order; last may be beyond the end. A page that fails comes
// with its error, and the iteration goes on.
//
// With more than one of [Options].Workers, pages are read ahead: 16 for each
// worker, but no more than some 64 MiB of text. No goroutine is left when the
// iteration ends.
func (d *Document) Pages(first, last int) iter.Seq2[Page, error] {
	first, last = max(1, first), min(last, d.NumPages())
	if d.opts.Workers > 1 && first < last {
		return func(yield func(Page, error) bool) { d.readAhead(first, last, yield) }
	}
	return func(yield func(Page, error) bool) {
		for n := first; n <= last && yield(d.Page(n)); n++ {
		}
	}
}
