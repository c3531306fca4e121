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

// Sender delivers items, each until it is decided. It keeps nothing on disk: that is for who uses it, as a [Box].
// Set the fields before the first call. Its methods may be called concurrently; Run is called once.
type Sender struct {
	// Uploads is how many functions given to [Sender.Upload] run at once.
	Uploads int
	Retry   retry.Policy // the pauses between attempts: First, Max and Factor
	// FinalTimeout is how long attempts under way may take when Run ends.
	FinalTimeout time.Duration
	Log          *slog.Logger

	made    sync.Once
	uploads chan struct{} // holds a token for each upload under way
	wake    chan struct{} // something is pending
	ended   chan struct{} // closed when Run begins no more deliveries

	mu      sync.Mutex
	pending []*Delivery // not yet begun
}

func (s *Sender) init() {
	s.made.Do(func() {
		s.uploads, s.wake, s.ended = make(chan struct{}, s.Uploads), make(chan struct{}, 1), make(chan struct{})
	})
}

// Delivery is an item that was given to [Sender.Deliver].
type Delivery struct {
	item      Item
	sender    *Sender
	attempted chan struct{} // closed after the first attempt
	err       error         // then: its error if it was a decision
}

// Wait waits for the first attempt, until ctx ends or [Sender.Run] has ended. It returns Try's error if that
// attempt was a decision, and nil if it was none or there was none yet.
func (d *Delivery) Wait(ctx context.Context) error {
	select {
	case <-d.attempted:
		return d.err
	case <-d.sender.ended:
	case <-ctx.Done():
	}
	return nil
}

// Deliver has [Sender.Run] deliver an item whose entry is on disk. It does not wait. What comes after the end
// of Run stays on disk for the next process.
func (s *Sender) Deliver(item Item) *Delivery {
	s.init()
	d := &Delivery{item: item, sender: s, attempted: make(chan struct{})}
	s.mu.Lock()
	s.pending = append(s.pending, d)
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
	return d
}

// errEnding ends the attempts that are under way when Run has ended for too long.
var errEnding = errors.New("the process is stopping")

// Run delivers until ctx ends. What is on its way then has FinalTimeout; what was given to [Sender.Deliver] just
// before is tried once in that time. The rest is delivered by the next process. It owns every goroutine it starts.
func (s *Sender) Run(ctx context.Context) {
	s.init()
	// Attempts end later than the waiting between them.
	work, abort := context.WithCancelCause(context.WithoutCancel(ctx))
	defer abort(nil)
	var deliveries sync.WaitGroup
	begin := func() {
		s.mu.Lock()
		pending := s.pending
		s.pending = nil
		s.mu.Unlock()
		for _, d := range pending {
			deliveries.Go(func() { d.run(ctx, work, s.Retry.Delays()) })
		}
	}
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-s.wake:
			begin()
		}
	}
	begin()
	close(s.ended)
	overdue := time.AfterFunc(s.FinalTimeout, func() { abort(errEnding) })
	deliveries.Wait()
	overdue.Stop()
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
		d.sender.Log.LogAttrs(ctx, slog.LevelWarn, "cannot deliver, will retry", attrs...)
		if jobs.Sleep(ctx, pause) != nil {
			return
		}
	}
}

// Upload calls f when fewer than [Sender.Uploads] others run, and returns its error. It is for attempts that hold much
// in memory. When ctx ends before, it returns a [*RetryError].
func (s *Sender) Upload(ctx context.Context, f func() error) error {
	s.init()
	select {
	case s.uploads <- struct{}{}:
	case <-ctx.Done():
		return &RetryError{Err: context.Cause(ctx)}
	}
	defer func() { <-s.uploads }()
	return f()
}
