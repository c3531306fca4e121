package journal

import (
	"fmt"
	"slices"
	"time"
)

// retryAfter is how long the writer waits after a failure, with
// RetryAfterFailure.
const retryAfter = time.Second

// A writer is the one goroutine that touches segments.
type writer struct {
	*Journal
	pending []chunk  // to be written before what is queued
	current *segment // nil before the first chunk
}

// write writes what is queued until the journal is closed, or stops after a
// failure.
func (j *Journal) write() {
	w := writer{Journal: j}
	defer w.abandon()
	for {
		more, closing := w.take()
		if !more && !closing {
			<-j.wake
			continue
		}
		err := w.work()
		if err == nil && closing && w.current != nil {
			if err = w.current.close(j.disk); err == nil {
				w.reportSynced(w.written)
			}
		}
		if err != nil && !w.retry {
			w.stop(err)
			return
		}
		w.report(err)
		switch {
		case closing:
			return
		case err != nil:
			w.pause()
		}
	}
}

// abandon closes the file of a segment that could not be written or synced.
func (w *writer) abandon() {
	if w.current != nil && w.current.f != nil {
		_ = w.current.f.Close() // the journal has failed already
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

// take takes what is queued. It reports whether there is anything to do, and
// whether this is the last time.
func (w *writer) take() (more, closing bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pending = append(w.pending, w.queue...)
	clear(w.queue)
	w.queue = w.queue[:0]
	return len(w.pending) > 0 || w.needsSync(), w.closed
}

// needsSync reports whether a caller waits for a sync, or one has failed. The
// caller holds w.mu.
func (w *writer) needsSync() bool {
	return w.current != nil && w.current.failed ||
		slices.ContainsFunc(w.waiting, func(x waiter) bool { return x.sync && x.ticket <= w.written && x.ticket > w.synced })
}

// work writes what is pending, and syncs it if a caller waits for that. What it
// could not write stays pending.
func (w *writer) work() error {
	for len(w.pending) > 0 {
		c := w.pending[0]
		if err := w.enter(c.segment); err != nil {
			return err
		}
		if err := w.writeFrames(c.frames); err != nil {
			return err
		}
		w.reportWritten(c)
		w.pending[0] = chunk{}
		w.pending = w.pending[1:]
	}
	w.pending = nil
	w.mu.Lock()
	need, upTo := w.needsSync(), w.written
	w.mu.Unlock()
	if !need || w.current == nil {
		return nil
	}
	if err := w.checkDir(); err != nil {
		w.current.failed = true // so that needsSync asks for the next attempt
		return err
	}
	if err := w.current.sync(w.disk); err != nil {
		return err
	}
	w.reportSynced(upTo)
	return nil
}

// enter makes s the current segment. The one before is synced first: a power cut
// must not lose its end and keep what is written to s.
func (w *writer) enter(s *segment) error {
	if s == w.current {
		return nil
	}
	if w.current != nil {
		if err := w.current.close(w.disk); err != nil {
			return err
		}
		w.reportSynced(w.written)
	}
	w.current = s
	return nil
}

func (w *writer) writeFrames(frames []byte) error {
	if len(frames) == 0 {
		return nil
	}
	if w.current.f == nil { // about to be made
		if err := w.checkDir(); err != nil {
			return err
		}
	}
	err := w.current.write(w.disk, w.dir, frames)
	if err != nil && w.retry {
		w.current.cutTorn()
	}
	return err
}

// reportWritten answers callers who wait for no more than a write.
func (w *writer) reportWritten(c chunk) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.written = c.end
	if w.spare == nil && cap(c.frames) <= 2*chunkSize {
		w.spare = c.frames
	}
	w.answerWaiters()
}

// reportSynced answers callers who wait for a sync.
func (w *writer) reportSynced(upTo Ticket) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.synced = upTo
	w.answerWaiters()
}

// report makes err what Err returns, and logs when that begins and ends.
func (w *writer) report(err error) {
	w.mu.Lock()
	was := w.err
	w.err = err
	w.answerWaiters()
	w.mu.Unlock()
	switch {
	case was == nil && err != nil:
		w.log.Warn("journal cannot be written, will be tried again", "dir", w.dir, "err", err)
	case was != nil && err == nil:
		w.log.Info("journal can be written again", "dir", w.dir)
	}
}

// stop ends the journal: nothing is written any more, and what was not committed
// before never is.
func (w *writer) stop(err error) {
	w.mu.Lock()
	w.err = fmt.Errorf("%w: %w", ErrFailStop, err)
	w.stopped = true
	w.queue, w.spare = nil, nil
	close(w.failed)
	w.answerWaiters()
	w.mu.Unlock()
	w.log.Error("journal stopped, nothing is written any more", "dir", w.dir, "err", err)
}
