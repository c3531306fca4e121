package journal

import (
	"slices"
	"time"
)

// retryAfter is how long the writer waits after a failure.
const retryAfter = time.Second

// A writer is the one goroutine that touches segments.
type writer struct {
	*Journal
	hand    []chunk  // what is to be written first
	current *segment // nil before the first chunk
}

// write writes what is queued until the journal is closed.
func (j *Journal) write() {
	w := writer{Journal: j}
	for {
		more, closing := w.take()
		if !more && !closing {
			<-j.wake
			continue
		}
		err := w.work()
		if err == nil && closing && w.current != nil {
			if err = w.current.close(j.disk); err == nil {
				w.did(w.written)
			}
		}
		w.report(err)
		switch {
		case closing:
			if err != nil && w.current != nil && w.current.f != nil {
				_ = w.current.f.Close() // what is lost is in err
			}
			return
		case err != nil:
			w.pause()
		}
	}
}

// pause waits until it is time to try again.
func (w *writer) pause() {
	t := time.NewTimer(retryAfter)
	defer t.Stop()
	select {
	case <-t.C:
	case <-w.closing: // one last attempt
	}
}

// take takes what is queued. It tells whether there is anything to do, and
// whether it is the last time.
func (w *writer) take() (more, closing bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hand = append(w.hand, w.queue...)
	clear(w.queue)
	w.queue = w.queue[:0]
	return len(w.hand) > 0 || w.needsSync(), w.closed
}

// needsSync needs w.mu.
func (w *writer) needsSync() bool {
	return w.current != nil && w.current.failed ||
		slices.ContainsFunc(w.waiting, func(x waiter) bool { return x.sync && x.ticket <= w.written && x.ticket > w.synced })
}

// work writes what is in hand, and syncs it if anybody waits for that. What it
// could not write stays in hand.
func (w *writer) work() error {
	for len(w.hand) > 0 {
		c := w.hand[0]
		if c.segment != w.current {
			// Synced before anything is written to the next one: a power cut must
			// not leave a hole between them.
			if w.current != nil {
				if err := w.current.close(w.disk); err != nil {
					return err
				}
				w.did(w.written)
			}
			w.current = c.segment
		}
		if len(c.frames) > 0 {
			if w.current.f == nil { // about to be made
				if err := w.checkDir(); err != nil {
					return err
				}
			}
			if err := w.current.write(w.disk, w.dir, c.frames); err != nil {
				return err
			}
		}
		w.wrote(c)
		w.hand[0] = chunk{}
		w.hand = w.hand[1:]
	}
	w.hand = nil
	w.mu.Lock()
	need, upTo := w.needsSync(), w.written
	w.mu.Unlock()
	if !need || w.current == nil {
		return nil
	}
	if err := w.checkDir(); err != nil {
		w.current.failed = true // or nobody would try again
		return err
	}
	if err := w.current.sync(w.disk); err != nil {
		return err
	}
	w.did(upTo)
	return nil
}

// wrote tells those who wait for no more than a write.
func (w *writer) wrote(c chunk) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.written = c.end
	if w.spare == nil && cap(c.frames) <= 2*chunkSize {
		w.spare = c.frames
	}
	w.settle()
}

// did tells those who wait for a sync.
func (w *writer) did(upTo Ticket) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.synced = upTo
	w.settle()
}

// report makes err what Err says, and logs when that begins and ends.
func (w *writer) report(err error) {
	w.mu.Lock()
	was := w.err
	w.err = err
	w.settle()
	w.mu.Unlock()
	switch {
	case was == nil && err != nil:
		w.log.Warn("journal cannot be written, will be tried again", "dir", w.dir, "err", err)
	case was != nil && err == nil:
		w.log.Info("journal can be written again", "dir", w.dir)
	}
}
