package batch_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchfleet/batchfleet/batch"
)

// recorder answers each number with its text, after a second, and keeps what was sent together.
type recorder struct {
	mu    sync.Mutex
	calls [][]int
}

func (r *recorder) send(ctx context.Context, values []int) []batch.Answer[string] {
	r.mu.Lock()
	r.calls = append(r.calls, slices.Clone(values))
	r.mu.Unlock()
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
	}
	answers := make([]batch.Answer[string], len(values))
	for i, v := range values {
		if ctx.Err() != nil {
			answers[i].Err = context.Cause(ctx)
		} else if v < 0 {
			answers[i].Err = errors.New("negative")
		} else {
			answers[i].Value = fmt.Sprint(v)
		}
	}
	return answers
}

// sizes returns how many values each call had.
func (r *recorder) sizes() []int {
	r.mu.Lock()
	defer r.mu.Unlock()
	var n []int
	for _, c := range r.calls {
		n = append(n, len(c))
	}
	return n
}

func TestALoneValueIsSentAtOnceAndTheRestTogether(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name       string
		max, calls int
		want       []int
		took       time.Duration
	}{
		{"no limit", 0, 1, []int{1, 9}, 2 * time.Second},
		{"four a call", 4, 1, []int{1, 4, 4, 1}, 4 * time.Second},
		{"four a call and two calls at once", 4, 2, []int{1, 1, 4, 4}, 2 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := &recorder{}
				g := &batch.Group[int, string]{Send: r.send, Max: c.max, Calls: c.calls}
				began := time.Now()
				var wg sync.WaitGroup
				for i := range 10 {
					wg.Go(func() {
						if got, err := g.Do(t.Context(), i); err != nil || got != fmt.Sprint(i) {
							t.Errorf("Do(%d) = %q, %v", i, got, err)
						}
					})
					synctest.Wait() // the first is under way before the second comes
				}
				wg.Wait()
				if got := r.sizes(); !slices.Equal(got, c.want) {
					t.Errorf("values a call = %v, want %v", got, c.want)
				}
				if took := time.Since(began); took != c.took {
					t.Errorf("took %s, want %s", took, c.took)
				}
			})
		})
	}
}

// TestK21ValuesOfGoroutinesThatAreReadyShareACall starts ten goroutines at the same moment. Which of them the scheduler lets
// run first is its own affair, so a few tries may fail. Without the pause before a call all of them do.
func TestK21ValuesOfGoroutinesThatAreReadyShareACall(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // with an idle processor the call begins at once
	var sizes []int
	for range 100 {
		r := &recorder{}
		synctest.Test(t, func(t *testing.T) {
			g := &batch.Group[int, string]{Send: r.send}
			var wg sync.WaitGroup
			for i := range 10 {
				wg.Go(func() { _, _ = g.Do(t.Context(), i) })
			}
			wg.Wait()
		})
		if sizes = r.sizes(); len(sizes) == 1 {
			return
		}
	}
	t.Errorf("values a call = %v, want 10", sizes)
}

// Those who were answered together come again at about the same time. One who is alone does not wait.
func TestK18AValueWaitsForThoseThatCameWithItBefore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r recorder
		g := batch.Group[int, string]{Send: r.send, Gather: 10 * time.Millisecond}
		do := func(v int, after time.Duration) {
			time.Sleep(after)
			if _, err := g.Do(t.Context(), v); err != nil {
				t.Error(err)
			}
		}
		alone := func(want time.Duration) {
			t.Helper()
			began := time.Now()
			do(1, 0)
			if took := time.Since(began); took != want {
				t.Errorf("a value alone took %s, want %s", took, want)
			}
		}
		alone(time.Second)
		var callers sync.WaitGroup
		callers.Go(func() { do(0, 0) })
		for v := range 4 { // these go together after that one, and again
			callers.Go(func() { do(v, time.Millisecond); do(v, time.Duration(v)*time.Millisecond) })
		}
		callers.Wait()
		alone(time.Second + g.Gather) // it may have been one of several
		alone(time.Second)
		if got, want := r.sizes(), []int{1, 1, 4, 4, 1, 1}; !slices.Equal(got, want) {
			t.Errorf("calls had %v values, want %v", got, want)
		}
	})
}

func TestEachValueHasItsOwnError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := &batch.Group[int, string]{Send: (&recorder{}).send}
		var wg sync.WaitGroup
		for i := -2; i < 3; i++ {
			wg.Go(func() {
				if _, err := g.Do(t.Context(), i); (err != nil) != (i < 0) {
					t.Errorf("Do(%d): %v", i, err)
				}
			})
		}
		wg.Wait()
	})
}

func TestACallerWhoLeavesDoesNotStopTheOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{}
		g := &batch.Group[int, string]{Send: r.send}
		errLeft := errors.New("left")
		leaving, leave := context.WithCancelCause(t.Context())
		var wg sync.WaitGroup
		do := func(ctx context.Context, v int, want error) {
			wg.Go(func() {
				if _, err := g.Do(ctx, v); !errors.Is(err, want) {
					t.Errorf("Do(%d): %v, want %v", v, err, want)
				}
			})
			synctest.Wait()
		}
		do(t.Context(), 1, nil)
		do(leaving, 2, errLeft) // the first of the next call
		do(t.Context(), 3, nil)
		time.Sleep(1500 * time.Millisecond) // 2 and 3 are under way
		do(leaving, 4, errLeft)             // not sent yet when it leaves
		leave(errLeft)
		wg.Wait()
		do(t.Context(), 5, nil)
		wg.Wait()
		if want := [][]int{{1}, {2, 3}, {5}}; !slices.EqualFunc(r.calls, want, slices.Equal) {
			t.Errorf("sent %v, want %v", r.calls, want)
		}
	})
}

func TestK21AValueThatIsOfNoMoreUseIsNotSent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{}
		g := &batch.Group[int, string]{Send: r.send}
		done := make(chan struct{})
		var wg sync.WaitGroup
		do := func(ctx context.Context, v int, wantErr error, after time.Duration) {
			began := time.Now()
			wg.Go(func() {
				if _, err := g.Do(ctx, v); !errors.Is(err, wantErr) || time.Since(began) != after {
					t.Errorf("Do(%d): %v after %s, want %v after %s", v, err, time.Since(began), wantErr, after)
				}
			})
			synctest.Wait()
		}
		do(batch.Until(t.Context(), done), 1, nil, time.Second) // is under way
		do(batch.Until(t.Context(), done), 2, batch.ErrNotSent, 0)
		do(t.Context(), 3, nil, 2*time.Second)
		close(done)
		wg.Wait()
		if want := [][]int{{1}, {3}}; !reflect.DeepEqual(r.calls, want) {
			t.Errorf("sent %v, want %v", r.calls, want)
		}
	})
}

func TestACallEndsWhenAllItsCallersHaveLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan struct{})
		g := &batch.Group[int, string]{Send: func(ctx context.Context, values []int) []batch.Answer[string] {
			<-ctx.Done()
			close(ended)
			return make([]batch.Answer[string], len(values))
		}}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, cancel)
		if _, err := g.Do(ctx, 1); !errors.Is(err, context.Canceled) {
			t.Errorf("Do: %v", err)
		}
		<-ended
	})
}

func TestTooFewAnswersAreAnError(t *testing.T) {
	t.Parallel()
	g := &batch.Group[int, string]{Send: func(context.Context, []int) []batch.Answer[string] { return nil }}
	if _, err := g.Do(t.Context(), 1); err == nil {
		t.Error("Do: no error")
	}
}

func TestManyGoroutinesAreAllAnswered(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	sent := 0
	g := &batch.Group[int, int]{Max: 7, Calls: 3, Send: func(_ context.Context, values []int) []batch.Answer[int] {
		mu.Lock()
		sent += len(values)
		mu.Unlock()
		answers := make([]batch.Answer[int], len(values))
		for i, v := range values {
			answers[i].Value = -v
		}
		return answers
	}}
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			for j := range 100 {
				if got, err := g.Do(t.Context(), i*100+j); err != nil || got != -(i*100+j) {
					t.Errorf("Do(%d) = %d, %v", i*100+j, got, err)
				}
			}
		})
	}
	wg.Wait()
	if sent != 6400 {
		t.Errorf("sent %d values, want 6400", sent)
	}
}

func TestValuesDoNotWaitLongForACallThatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := &batch.Group[int, int]{Slow: time.Second, Send: func(ctx context.Context, values []int) []batch.Answer[int] {
			if values[0] == 0 {
				<-ctx.Done()
			}
			return make([]batch.Answer[int], len(values))
		}}
		began := time.Now()
		hanging, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = g.Do(hanging, 0) })
		synctest.Wait()
		for i := 1; i < 4; i++ { // the first waits, the others find a free call
			if _, err := g.Do(t.Context(), i); err != nil {
				t.Errorf("Do(%d): %v", i, err)
			}
		}
		if took := time.Since(began); took != time.Second {
			t.Errorf("they took %s, want a second", took)
		}
		wg.Wait()
		if _, err := g.Do(t.Context(), 4); err != nil { // once that has ended, too
			t.Error(err)
		}
	})
}

func TestACallHasTheLatestOfItsDeadlines(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		limits []time.Duration // of callers, 0 for none; a second has passed when they are sent
		want   time.Duration
	}{
		{"all have one", []time.Duration{5 * time.Second, 7 * time.Second, 3 * time.Second}, 6 * time.Second},
		{"one has none", []time.Duration{5 * time.Second, 0, 3 * time.Second}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var got []time.Duration
				g := &batch.Group[int, int]{Send: func(ctx context.Context, values []int) []batch.Answer[int] {
					left := time.Duration(0)
					if end, ok := ctx.Deadline(); ok {
						left = time.Until(end)
					}
					got = append(got, left)
					time.Sleep(time.Second)
					return make([]batch.Answer[int], len(values))
				}}
				var wg sync.WaitGroup
				for _, limit := range append([]time.Duration{0}, c.limits...) { // the first keeps the others waiting
					wg.Go(func() {
						ctx := t.Context()
						if limit > 0 {
							var cancel context.CancelFunc
							ctx, cancel = context.WithTimeout(ctx, limit)
							defer cancel()
						}
						_, _ = g.Do(ctx, 0)
					})
					synctest.Wait()
				}
				wg.Wait()
				if want := []time.Duration{0, c.want}; !slices.Equal(got, want) {
					t.Errorf("calls had %v left, want %v", got, want)
				}
			})
		})
	}
}
