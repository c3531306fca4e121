package outbox

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchfleet/batchfleet/internal/testlog"
)

// running runs a box in fake time until f returns, then stops it as a process is stopped. It returns how
// long the end took.
func running(t *testing.T, b *Box, f func()) time.Duration {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var run sync.WaitGroup
	run.Go(func() { b.Run(ctx) })
	f()
	stop()
	stopped := time.Now()
	run.Wait()
	return time.Since(stopped)
}

func test(t *testing.T, f func(t *testing.T, b *Box, log *testlog.Buffer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b, log := open(t, t.TempDir())
		f(t, b, log)
	})
}

// attempts is an item that is decided at the last of its attempts.
type attempts struct {
	mu   sync.Mutex
	at   []time.Duration // since it was made
	from time.Time
}

// item returns an item whose attempts end with the given errors. The last error is repeated.
func (a *attempts) item(errs ...error) Item {
	a.from = time.Now()
	return Item{Try: func(context.Context) error {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.at = append(a.at, time.Since(a.from))
		return errs[min(len(a.at), len(errs))-1]
	}}
}

func (a *attempts) times() []time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]time.Duration(nil), a.at...)
}

var errAway = &RetryError{Err: errors.New("the receiver is away")}

func TestEntryIsTriedUntilItIsDecided(t *testing.T) {
	test(t, func(t *testing.T, b *Box, log *testlog.Buffer) {
		var a attempts
		running(t, b, func() {
			d := b.Deliver(a.item(errAway, fmt.Errorf("more words: %w", errAway), errAway, errAway, nil))
			if err := d.Wait(t.Context()); err != nil {
				t.Errorf("after a first attempt that decided nothing: %v", err)
			}
			time.Sleep(time.Hour)
		})
		at := a.times()
		if len(at) != 5 || at[0] != 0 {
			t.Fatalf("tried after %v", at)
		}
		for i := range at[1:] { // 1, 2, 4, 8 s, give or take a half
			if pause, mean := at[i+1]-at[i], time.Second<<i; pause < mean/2 || pause > mean*3/2 {
				t.Errorf("pause %d took %s", i, pause)
			}
		}
		if n := strings.Count(log.String(), "the receiver is away"); n != 4 {
			t.Errorf("%d attempts are in the log:\n%s", n, log)
		}
	})
}

func TestPausesHaveABound(t *testing.T) {
	test(t, func(t *testing.T, b *Box, _ *testlog.Buffer) {
		var a attempts
		running(t, b, func() {
			b.Deliver(a.item(errAway))
			time.Sleep(5 * time.Hour)
		})
		at := a.times()
		for i := range at[1:] {
			if pause := at[i+1] - at[i]; pause > 90*time.Second {
				t.Errorf("a pause of %s", pause)
			}
		}
		if len(at) < 200 {
			t.Errorf("%d attempts in 5 hours", len(at))
		}
	})
}

func TestReceiverSaysWhenToComeBack(t *testing.T) {
	test(t, func(t *testing.T, b *Box, _ *testlog.Buffer) {
		var a attempts
		running(t, b, func() {
			b.Deliver(a.item(&RetryError{Err: errors.New("later"), After: 77 * time.Second}, errAway, nil))
			time.Sleep(time.Hour)
		})
		if at := a.times(); len(at) != 3 || at[1] < 77*time.Second || at[1] > 78*time.Second || at[2]-at[1] > 4*time.Second {
			t.Errorf("tried after %v", at)
		}
	})
}

func TestFirstAttemptIsWaitedFor(t *testing.T) {
	errLost := errors.New("lost")
	test(t, func(t *testing.T, b *Box, _ *testlog.Buffer) {
		slow := Item{Try: func(ctx context.Context) error {
			time.Sleep(3 * time.Second)
			return errLost
		}}
		running(t, b, func() {
			d := b.Deliver(slow)
			short, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := d.Wait(short); err != nil {
				t.Errorf("before the attempt has ended: %v", err)
			}
			if err := d.Wait(t.Context()); !errors.Is(err, errLost) {
				t.Errorf("after it: %v, want %v", err, errLost)
			}
		})
		if err := b.Deliver(slow).Wait(t.Context()); err != nil { // returns at once
			t.Errorf("after Run: %v", err)
		}
	})
}

func TestWhatWasGivenBeforeRunIsDelivered(t *testing.T) {
	test(t, func(t *testing.T, b *Box, _ *testlog.Buffer) {
		var a attempts
		b.Deliver(a.item(nil))
		b.Deliver(a.item(nil))
		running(t, b, func() { time.Sleep(time.Second) })
		if n := len(a.times()); n != 2 {
			t.Errorf("%d were delivered", n)
		}
	})
}

func TestUploadsWaitForTheirTurn(t *testing.T) {
	test(t, func(t *testing.T, b *Box, _ *testlog.Buffer) {
		var mu sync.Mutex
		now, most, done := 0, 0, 0
		count := func(n int) {
			mu.Lock()
			defer mu.Unlock()
			now += n
			most = max(most, now)
			if n < 0 {
				done++
			}
		}
		running(t, b, func() {
			for range 7 {
				b.Deliver(Item{Try: func(ctx context.Context) error {
					return b.Upload(ctx, func() error {
						count(1)
						time.Sleep(10 * time.Second)
						count(-1)
						return nil
					})
				}})
			}
			// One that is no upload does not wait for those.
			if err := b.Deliver(Item{Try: func(context.Context) error { return nil }}).Wait(t.Context()); err != nil {
				t.Error(err)
			}
			time.Sleep(45 * time.Second)
		})
		if most != 2 || done != 7 {
			t.Errorf("%d at once, %d in all", most, done)
		}
	})
}

func TestEndOfRun(t *testing.T) {
	t.Run("what was given just before is tried once", func(t *testing.T) {
		test(t, func(t *testing.T, b *Box, _ *testlog.Buffer) {
			var a attempts
			took := running(t, b, func() {
				time.Sleep(time.Minute)
				b.Deliver(a.item(errAway, nil))
			})
			if n := len(a.times()); n != 1 || took != 0 {
				t.Errorf("tried %d times in %s", n, took)
			}
		})
	})
	t.Run("an attempt under way may end", func(t *testing.T) {
		test(t, func(t *testing.T, b *Box, _ *testlog.Buffer) {
			var ended error
			took := running(t, b, func() {
				b.Deliver(Item{Try: func(ctx context.Context) error {
					time.Sleep(4 * time.Second)
					ended = ctx.Err()
					return nil
				}})
				time.Sleep(time.Second)
			})
			if took != 3*time.Second || ended != nil {
				t.Errorf("it took %s: %v", took, ended)
			}
		})
	})
	t.Run("but not for longer than the timeout, nor may one that waits for its turn", func(t *testing.T) {
		test(t, func(t *testing.T, b *Box, _ *testlog.Buffer) {
			var waited []error
			var mu sync.Mutex
			took := running(t, b, func() {
				for range 4 {
					b.Deliver(Item{Try: func(ctx context.Context) error {
						err := b.Upload(ctx, func() error {
							<-ctx.Done()
							return context.Cause(ctx)
						})
						mu.Lock()
						waited = append(waited, err)
						mu.Unlock()
						return err
					}})
				}
				time.Sleep(time.Minute)
			})
			if took != 5*time.Second || len(waited) != 4 {
				t.Errorf("it took %s: %v", took, waited)
			}
			for _, err := range waited {
				if !errors.Is(err, errEnding) {
					t.Errorf("ended with %v", err)
				}
			}
		})
	})
	t.Run("a pause ends at once", func(t *testing.T) {
		test(t, func(t *testing.T, b *Box, _ *testlog.Buffer) {
			var a attempts
			took := running(t, b, func() {
				b.Deliver(a.item(&RetryError{Err: errors.New("later"), After: time.Hour}))
				time.Sleep(time.Minute)
			})
			if n := len(a.times()); n != 1 || took != 0 {
				t.Errorf("tried %d times in %s", n, took)
			}
		})
	})
}

func TestBesideBeginsWhenTheDeliveryHasTakenSoLong(t *testing.T) {
	for attempts, want := range map[int]time.Duration{1: 0, 10: time.Minute} {
		test(t, func(t *testing.T, b *Box, _ *testlog.Buffer) {
			began, left := time.Now(), attempts
			var after time.Duration
			item := Item{After: time.Minute, Try: func(context.Context) error {
				if left--; left > 0 {
					return errAway
				}
				return nil
			}, Beside: func(context.Context) { after = time.Since(began) }}
			running(t, b, func() {
				b.Deliver(item)
				time.Sleep(time.Hour)
			})
			if after != want {
				t.Errorf("with %d attempts it began after %s, want %s; 0 is never", attempts, after, want)
			}
		})
	}
}

func TestBesideRunsAsLongAsTheDelivery(t *testing.T) {
	test(t, func(t *testing.T, b *Box, _ *testlog.Buffer) {
		var a attempts
		beats := 0
		item := a.item(errAway, errAway, errAway, nil)
		item.Beside = func(ctx context.Context) {
			for ; ctx.Err() == nil; beats++ {
				select {
				case <-ctx.Done():
				case <-time.After(time.Second / 10):
				}
			}
		}
		var during int
		running(t, b, func() {
			b.Deliver(item)
			time.Sleep(time.Hour)
			synctest.Wait()
			during = beats
		})
		at := a.times()
		if last := at[len(at)-1]; during != beats || beats < int(last/(time.Second/10)) || beats > int(last/(time.Second/10))+2 {
			t.Errorf("%d beats, %d later, for a delivery of %s", during, beats, last)
		}
	})
}

func TestSweepGoesOnBesideTheDeliveries(t *testing.T) {
	test(t, func(t *testing.T, b *Box, _ *testlog.Buffer) {
		b.KeepFor = -100 * 365 * 24 * time.Hour // fake time is long before the disk's
		running(t, b, func() {
			time.Sleep(time.Minute)
			if _, err := b.KeepAside("dead", "x", nil); err != nil {
				t.Error(err)
			}
			time.Sleep(2 * time.Hour)
		})
		want(t, "kept aside", names(t, b, "dead"))
	})
}
