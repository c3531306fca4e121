package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"time"

	"github.com/batchfleet/batchfleet/outbox"
	"github.com/batchfleet/batchfleet/retry"
)

// receiver is busy at first. It recognizes what it has already.
type receiver struct{ asked int }

func (r *receiver) take(letter string) error {
	if r.asked++; r.asked == 1 {
		return errors.New("busy")
	}
	fmt.Printf("received %q\n", letter)
	return nil
}

func open(dir string) *outbox.Box {
	box := &outbox.Box{
		Dir: dir, MaxEntry: 1 << 20, KeepFor: 24 * time.Hour,
		Sender: outbox.Sender{
			Retry:        retry.Policy{First: time.Millisecond, Max: time.Second},
			FinalTimeout: 5 * time.Second,
			Log:          slog.New(slog.DiscardHandler),
		},
	}
	if err := box.Open(); err != nil {
		log.Fatal(err)
	}
	return box
}

func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()

	// A process writes an entry and ends before it can deliver it.
	box := open(dir)
	if err := errors.Join(box.Put("1", []byte("the job is done")), box.Close()); err != nil {
		log.Fatal(err)
	}

	// The next one delivers it.
	box = open(dir)
	defer func() { _ = box.Close() }()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var to receiver
	err = box.Load(ctx, func(name string, text []byte) error {
		box.Deliver(outbox.Item{Try: func(context.Context) error {
			if err := to.take(string(text)); err != nil {
				return &outbox.RetryError{Err: err} // not yet decided: again, after a pause
			}
			stop() // there is no other entry
			box.Remove(name)
			return nil
		}})
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	box.Run(ctx) // what is on its way when ctx ends may end too
	fmt.Printf("the receiver was asked %d times\n", to.asked)
	// Output:
	// received "the job is done"
	// the receiver was asked 2 times
}
