package retry

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

var (
	errAway = errors.New("away")
	errGone = errors.New("gone")
)

func TestDo(t *testing.T) {
	const s = time.Second
	tests := []struct {
		name     string
		policy   Policy
		answers  []error // the last one again and again
		deadline time.Duration
		want     error
		tries    int           // exactly; any when 0
		least    time.Duration // how long it takes
		most     time.Duration
	}{
		{"works at once", Policy{First: s, Max: s}, []error{nil}, time.Hour, nil, 1, 0, 0},
		{"works at the third try", Policy{First: s, Max: 9 * s}, []error{errAway, errAway, nil}, time.Hour, nil, 3, 3 * s / 2, 9 * s / 2},
		{"a permanent error is final", Policy{First: s, Max: s}, []error{errAway, Permanent(errGone)}, time.Hour, errGone, 2, 0, s},
		{"gives up in time", Policy{First: s, Max: 2 * s, For: 30 * s}, []error{errAway}, time.Hour, errAway, 0, 27 * s, 30 * s},
		{"gives up at once when asked to come too late", Policy{First: s, Max: s, For: 30 * s}, []error{After(errAway, 31*s)}, time.Hour, errAway, 1, 0, 0},
		{"waits as long as it is asked to", Policy{First: s, Max: s, For: 30 * s}, []error{After(errAway, 20*s), nil}, time.Hour, nil, 2, 20 * s, 20 * s},
		{"waits no shorter than it would", Policy{First: 9 * s, Max: 90 * s}, []error{After(errAway, 1), nil}, time.Hour, nil, 2, 9 * s / 2, 14 * s},
		{"ends with its context", Policy{First: s, Max: s}, []error{errAway}, 30 * s, context.DeadlineExceeded, 0, 30 * s, 30 * s},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), tt.deadline)
				defer cancel()
				began, tries, told := time.Now(), 0, 0
				tt.policy.Retrying = func(err error, _ time.Duration) {
					if told++; err != errAway { //nolint:errorlint // it is told of the error itself, without a mark
						t.Errorf("told of %v", err)
					}
				}
				err := tt.policy.Do(ctx, func() error {
					tries++
					return tt.answers[min(tries, len(tt.answers))-1]
				})
				took := time.Since(began)
				if err != tt.want { //nolint:errorlint // the error itself, without a mark
					t.Errorf("got %v, want %v", err, tt.want)
				}
				if tt.tries != 0 && tries != tt.tries || told != tries-1 && ctx.Err() == nil {
					t.Errorf("%d tries, told of %d; want %d tries", tries, told, tt.tries)
				}
				if took < tt.least || took > tt.most {
					t.Errorf("took %s, want %s to %s", took, tt.least, tt.most)
				}
			})
		})
	}
}

func TestDelaysGrowToTheLongest(t *testing.T) {
	d := Policy{First: time.Second, Max: 30 * time.Second}.Delays()
	for range 2 {
		for n, planned := range []float64{1, 2, 4, 8, 16, 20, 20, 20} {
			if got := d.Next().Seconds(); got < planned/2 || got > planned*3/2 {
				t.Errorf("wait %d is %gs, want %gs give or take a half", n, got, planned)
			}
		}
		d.Reset()
	}
	d = Policy{First: time.Second, Max: 36 * time.Second, Jitter: 0.2}.Delays()
	for n, planned := range []float64{1, 2, 4, 8, 16, 30, 30, 30} {
		if got := d.Next().Seconds(); got < planned*4/5 || got > planned*6/5 {
			t.Errorf("wait %d is %gs, want %gs give or take a fifth", n, got, planned)
		}
	}
	if got := (Policy{First: time.Minute, Max: time.Second}).Delays().Next(); got > time.Second {
		t.Errorf("a first wait of %s is longer than the longest", got)
	}
}
