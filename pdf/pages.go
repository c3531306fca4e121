package pdf

import (
	"iter"
	"sync"
	"sync/atomic"
)

// Pages reads the pages from number first to number last, counted from 1, and
// yields them in order; last may be beyond the end. A page that fails comes
// with its error, and the iteration goes on.
//
// With more than one of [Options].Workers, pages are read ahead, a few dozen at
// most; no goroutine is left when the iteration ends.
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

// batchPages is how many pages one goroutine reads in a row. Pages that stand
// together share fonts and object streams, which each reader loads for itself.
const batchPages = 8

// batch is a run of pages read by one goroutine.
type batch struct {
	first, last int
	read        chan pageResult // holds all of them: reading never waits
}

type pageResult struct {
	page Page
	err  error
}

// readAhead yields the pages from first to last while others read the next.
func (d *Document) readAhead(first, last int, yield func(Page, error) bool) {
	workers := min(d.opts.Workers, (last-first)/batchPages+1)
	work := make(chan batch, 2*workers)    // for the workers, which may take the next at any time
	pending := make(chan batch, 2*workers) // the same for who yields, in order
	var stopped atomic.Bool
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stopped.Store(true)
	defer close(work)
	for range workers {
		wg.Go(func() {
			for b := range work {
				for n := b.first; n <= b.last && !stopped.Load(); n++ {
					page, err := d.Page(n)
					b.read <- pageResult{page, err}
				}
				close(b.read)
			}
		})
	}
	next := first
	hand := func() {
		for next <= last && len(pending) < cap(pending) {
			b := batch{next, min(next+batchPages-1, last), make(chan pageResult, batchPages)}
			work <- b
			pending <- b
			next = b.last + 1
		}
	}
	for hand(); len(pending) > 0; hand() {
		for r := range (<-pending).read {
			if !yield(r.page, r.err) {
				return
			}
		}
	}
}
