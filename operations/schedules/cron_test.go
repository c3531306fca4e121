package schedules_test

import (
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/operations/schedules"
)

func TestD35AMonthOfASchedule(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, cron, zone string
		from             time.Time // a month begins here
		want             int
		first, last      string
	}{
		{"each day", "30 6 * * *", "UTC", month(11), 30, "2026-11-01T06:30:00Z", "2026-11-30T06:30:00Z"},
		{"on working days in New York", "0 18 * * mon-fri", "America/New_York", month(11), 21, "2026-11-02T23:00:00Z", "2026-11-30T23:00:00Z"},
		{"a time that summer time leaves out", "30 2 * * *", "Europe/Berlin", month(3), 30, "2026-03-01T01:30:00Z", "2026-03-31T00:30:00Z"},
		{"a time that comes twice", "30 2 * * *", "Europe/Berlin", month(10), 31, "2026-10-01T00:30:00Z", "2026-10-31T01:30:00Z"},
		{"each hour when summer time begins", "0 * * * *", "Europe/Berlin", month(3), 31 * 24, "2026-03-01T00:00:00Z", "2026-03-31T23:00:00Z"},
		{"each half hour when it ends", "*/30 * * * *", "Europe/Berlin", month(10), 31 * 48, "2026-10-01T00:00:00Z", "2026-10-31T23:30:00Z"},
		{"monthly", "@monthly", "Asia/Kolkata", month(11), 1, "2026-11-30T18:30:00Z", "2026-11-30T18:30:00Z"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			zone, err := time.LoadLocation(tt.zone)
			if err != nil {
				t.Fatal(err)
			}
			end := tt.from.AddDate(0, 1, 0)
			var runs []time.Time
			for at := tt.from.Add(-time.Second); ; {
				if at, err = schedules.NextRun(tt.cron, zone, at); err != nil {
					t.Fatal(err)
				}
				if !at.Before(end) {
					break
				}
				runs = append(runs, at)
			}
			if len(runs) != tt.want {
				t.Fatalf("it came %d times, want %d: %v", len(runs), tt.want, runs)
			}
			if first, last := runs[0].Format(time.RFC3339), runs[len(runs)-1].Format(time.RFC3339); first != tt.first || last != tt.last {
				t.Errorf("from %s to %s, want %s to %s", first, last, tt.first, tt.last)
			}
		})
	}
}

// month is the first day of a month of 2026.
func month(m time.Month) time.Time { return time.Date(2026, m, 1, 0, 0, 0, 0, time.UTC) }

func TestD35MissedRunsAreMadeUpForAsTheScheduleSays(t *testing.T) {
	t.Parallel()
	first := month(11)
	for _, tt := range []struct {
		name, cron, catchUp string
		late                time.Duration
		runs                int
		oldest, next        time.Duration // after first
	}{
		{"in time", "0 * * * *", "none", 2 * time.Second, 1, 0, time.Hour},
		{"none", "0 * * * *", "none", 5*time.Hour + 10*time.Minute, 0, 0, 6 * time.Hour},
		{"the newest", "0 * * * *", "one", 5*time.Hour + 10*time.Minute, 1, 5 * time.Hour, 6 * time.Hour},
		{"all", "0 * * * *", "all", 5*time.Hour + 10*time.Minute, 6, 0, 6 * time.Hour},
		{"the newest 100 of all", "* * * * *", "all", 10 * time.Hour, 100, 10*time.Hour - 99*time.Minute, 10*time.Hour + time.Minute},
		{"nothing of years ago", "0 0 1 1 *", "all", 5 * 365 * 24 * time.Hour, 0, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			runs, next, err := schedules.Due(tt.cron, time.UTC, tt.catchUp, first, first.Add(tt.late))
			if err != nil || len(runs) != tt.runs {
				t.Fatalf("%d runs, want %d: %v, %v", len(runs), tt.runs, runs, err)
			}
			if len(runs) > 0 && !runs[0].Equal(first.Add(tt.oldest)) {
				t.Errorf("the oldest run is of %s, want %s", runs[0], first.Add(tt.oldest))
			}
			if !next.After(first.Add(tt.late)) || tt.next > 0 && !next.Equal(first.Add(tt.next)) {
				t.Errorf("it comes next at %s, want %s", next, first.Add(tt.next))
			}
		})
	}
}

func TestD35WrongCronIsRefused(t *testing.T) {
	t.Parallel()
	for _, cron := range []string{"", "* * * *", "* * * * * *", "61 * * * *", "0 0 31 2 *", "@reboot", "@everysecond", "@always", "a b c d e", "0 0 * * * 2030", "\x00 * * * *"} {
		if err := schedules.CheckCron(cron); err == nil {
			t.Errorf("%q is taken", cron)
		}
	}
	for _, cron := range []string{"* * * * *", "*/5 9-17 * * mon-fri", "0 0 1,15 * *", "@hourly", "@daily", "@weekly", "@monthly", "@yearly"} {
		if err := schedules.CheckCron(cron); err != nil {
			t.Errorf("%q: %v", cron, err)
		}
	}
}

func FuzzCron(f *testing.F) {
	for _, seed := range []string{"* * * * *", "*/5 9-17 * * mon-fri", "0 0 L * *", "0 0 * * 5#2", "@daily", "0 0 31 2 *", "*/0 * * * *", "1-0 * * * *"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, cron string) {
		if len(cron) > 200 || schedules.CheckCron(cron) != nil {
			return
		}
		now := month(11)
		next, err := schedules.NextRun(cron, time.UTC, now)
		if err == nil && !next.After(now) {
			t.Errorf("%q comes next at %s, which is not after %s", cron, next, now)
		}
	})
}
