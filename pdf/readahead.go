package pdf

import "sync"

const (
	// batchPages is how many pages one goroutine reads in a row. Pages that
	// stand together share fonts, which each reader loads for itself.
	batchPages = 8
	// maxAhead bounds the text that has been read and not yet yielded, in
	// bytes, but for one page of each worker.
	maxAhead = 64 << 20
)

// batch is a run of pages read by one goroutine.
type batch struct {
	first, last int
	read        chan pageResult // holds all of them: sending never waits
}

type pageResult struct {
	page Page
	err  error
}

// ahead tells workers how far the consumer of their pages is.
type ahead struct {
	mu      sync.Mutex
	changed sync.Cond
	held    int // bytes of text read and not yet yielded
	head    int // first page of the batch that is being yielded
	stopped bool
}

// mayRead waits until there is room for a page of the batch that begins with
// page first, and reports whether it is still wanted. The batch being yielded
// always has room, or nothing would ever be taken.
func (a *ahead) mayRead(first int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for a.held > maxAhead && a.head != first && !a.stopped {
		a.changed.Wait()
	}
	return !a.stopped
}

func (a *ahead) change(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f()
	a.changed.Broadcast()
}

// readAhead yields the pages from first to last while others read the next.
func (d *Document) readAhead(first, last int, yield func(Page, error) bool) {
	workers := min(d.opts.Workers, (last-first)/batchPages+1)
	work := make(chan batch, 2*workers)    // for the workers, which may take the next at any time
	pending := make(chan batch, 2*workers) // the same for who yields, in order
	a := &ahead{}
	a.changed.L = &a.mu
	var wg sync.WaitGroup
	defer wg.Wait()
	defer a.change(func() { a.stopped = true })
	defer close(work)
	for range workers {
		wg.Go(func() {
			for b := range work {
				d.readBatch(b, a)
			}
		})
	}
	next := first
	enqueue := func() {
		for next <= last && len(pending) < cap(pending) {
			b := batch{next, min(next+batchPages-1, last), make(chan pageResult, batchPages)}
			work <- b
			pending <- b
			next = b.last + 1
		}
	}
	for enqueue(); len(pending) > 0; enqueue() {
		b := <-pending
		a.change(func() { a.head = b.first })
		for r := range b.read {
			if !yield(r.page, r.err) {
				return
			}
			a.change(func() { a.held -= len(r.page.Text) })
		}
	}
}

func (d *Document) readBatch(b batch, a *ahead) {
	defer close(b.read)
	for n := b.first; n <= b.last && a.mayRead(b.first); n++ {
		page, err := d.Page(n)
		a.change(func() { a.held += len(page.Text) })
		b.read <- pageResult{page, err}
	}
}
