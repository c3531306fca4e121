package outbox

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/retry"
)

// Item is an entry on disk that is to be delivered.
type Item struct {
	// Try tries once, until its context ends. It returns a [*RetryError], or an error that wraps one, when it
	// is to be called again; anything else is a decision, and the entry's file is then no longer as it was.
	Try func(context.Context) error
	// Beside runs until the delivery has ended, which ends its context. It begins when the delivery has taken
	// as long as After, and not at all if it ends before. Nil when there is nothing to do meanwhile.
	Beside func(context.Context)
	After  time.Duration
	// Attrs say in the log what is delivered, when an attempt is repeated.
	Attrs []slog.Attr
}

// RetryError means that a delivery is to be tried again.
type RetryError struct {
	Err   error
	After time.Duration // not sooner, as the receiver has asked; 0 when it has not
}

// Error returns the cause's.
func (e *RetryError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *RetryError) Unwrap() error { return e.Err }

// Delivery is an item that was given to [Box.Deliver].
type Delivery struct {
	item      Item
	box       *Box
	attempted chan struct{} // closed after the first attempt
	err       error         // then: its error if it was a decision
}

// Wait waits for the first attempt, until ctx ends or [Box.Run] has ended. It returns Try's error if that
// attempt was a decision, and nil if it was none or there was none yet.
func (d *Delivery) Wait(ctx context.Context) error {
	select {
	case <-d.attempted:
		return d.err
	case <-d.box.ended:
	case <-ctx.Done():
	}
	return nil
}

// Deliver has [Box.Run] deliver an item whose entry is on disk. It does not wait. What comes after the end
// of Run stays on disk for the next process.
func (b *Box) Deliver(item Item) *Delivery {
	d := &Delivery{item: item, box: b, attempted: make(chan struct{})}
	b.mu.Lock()
	b.pending = append(b.pending, d)
	b.mu.Unlock()
	select {
	case b.wake <- struct{}{}:
	default:
	}
	return d
}

// errEnding ends the attempts that are under way when Run has ended for too long.
var errEnding = errors.New("the process is stopping")

// Run delivers until ctx ends. What is on its way then has FinalTimeout; what was given to [Box.Deliver] just
// before is tried once in that time. The rest is delivered by the next process. It owns every goroutine it starts.
func (b *Box) Run(ctx context.Context) {
	// Attempts end later than the waiting between them.
	work, abort := context.WithCancelCause(context.WithoutCancel(ctx))
	defer abort(nil)
	var keeping, deliveries sync.WaitGroup
	keeping.Go(func() { b.sweepUntil(ctx) })
	keeping.Go(func() { b.checkpointUntil(ctx) })
	begin := func() {
		b.mu.Lock()
		pending := b.pending
		b.pending = nil
		b.mu.Unlock()
		for _, d := range pending {
			deliveries.Go(func() { d.run(ctx, work, b.Retry.Delays()) })
		}
	}
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-b.wake:
			begin()
		}
	}
	begin()
	close(b.ended)
	overdue := time.AfterFunc(b.FinalTimeout, func() { abort(errEnding) })
	deliveries.Wait()
	overdue.Stop()
	keeping.Wait()
}

// run tries until there is a decision, or ctx has ended and an attempt was made. Attempts end with work.
func (d *Delivery) run(ctx, work context.Context, pauses *retry.Delays) {
	ctxBeside, stop := context.WithCancel(work)
	defer stop()
	if d.item.Beside != nil {
		ended := make(chan struct{})
		later := time.AfterFunc(d.item.After, func() {
			defer close(ended)
			d.item.Beside(ctxBeside)
		})
		defer func() {
			if stop(); !later.Stop() {
				<-ended
			}
		}()
	}
	for first := true; ; first = false {
		err := d.item.Try(work)
		again := (*RetryError)(nil)
		undecided := errors.As(err, &again)
		if first {
			if !undecided {
				d.err = err
			}
			close(d.attempted)
		}
		if !undecided || ctx.Err() != nil {
			return
		}
		pause := max(pauses.Next(), again.After)
		attrs := append(slices.Clone(d.item.Attrs), slog.Duration("retry_in", pause), slog.Any("err", err))
		d.box.Log.LogAttrs(ctx, slog.LevelWarn, "cannot deliver, will retry", attrs...)
		if jobs.Sleep(ctx, pause) != nil {
			return
		}
	}
}

// Upload calls f when fewer than [Box.Uploads] others run, and returns its error. It is for attempts that hold much
// in memory. When ctx ends before, it returns a [*RetryError].
func (b *Box) Upload(ctx context.Context, f func() error) error {
	select {
	case b.uploads <- struct{}{}:
	case <-ctx.Done():
		return &RetryError{Err: context.Cause(ctx)}
	}
	defer func() { <-b.uploads }()
	return f()
}
