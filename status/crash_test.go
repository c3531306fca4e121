package status_test

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/status"
)

func TestF23AttemptsGivenUpLateAreTakenOffTheAccount(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *status.Store, rdb *redis.Client) {
		account := func(want int) {
			t.Helper()
			e, err := s.Get(t.Context(), "a")
			if err != nil || e.Detail.Crashes != want {
				t.Errorf("%d crashes, %v; want %d", e.Detail.Crashes, err, want)
			}
		}
		next := func(ack string) jobs.Claim {
			t.Helper()
			wantLapsed(t, s, ack)
			return claimLease(t, s, "a", time.Millisecond, ack+"+")
		}
		first := claimLease(t, s, "a", time.Millisecond, "ack")
		lapsed, _ := wantLapsed(t, s, "ack")
		lapse(t, s, lapsed[0], false, true) // one whose claim was taken
		second := next("ack")
		third := next("ack+")
		account(2)
		for _, c := range []jobs.Claim{first, second} {
			for range 2 { // the second one changes nothing
				if err := s.Release(t.Context(), c, "given up"); !errors.Is(err, jobs.ErrLeaseLost) {
					t.Errorf("late release: %v, want ErrLeaseLost", err)
				}
			}
		}
		account(0)
		if err := s.Report(t.Context(), third, time.Millisecond, nil, jobs.Lines{}); err != nil {
			t.Errorf("the attempt that has the job: %v", err)
		}
		if last := next("ack++"); last.Crashes != 1 || last.Attempt != 4 {
			t.Errorf("attempt %d after %d crashes, want 4 after 1", last.Attempt, last.Crashes)
		}
		wantDocument(t, rdb, "a", "processing", 0, "Processing started...", "", "")
	})
}

func TestF12ClaimAskedForAgainIsInTheLogOnce(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *status.Store, _ *redis.Client) {
		c := claim(t, s, "a", time.Minute, jobs.Granted)
		again, err := s.Claim(t.Context(), jobs.Job{ID: "a", Kind: "mock"}, time.Minute, c)
		if err != nil || again.Verdict != jobs.Granted || again.Attempt != 1 {
			t.Errorf("%+v, %v", again, err)
		}
		if got := texts(t, s, "a"); len(got) != 1 {
			t.Errorf("log %q, want one line", got)
		}
	})
}
