package cli

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
)

// later says when a job may start.
type later struct {
	in span
	at string
}

func (l *later) flags(flags *pflag.FlagSet) {
	flags.Var(&l.in, "in", "start the jobs so much later, such as 90s, 12h or 3d: at most 6d")
	flags.StringVar(&l.at, "at", "", "start the jobs at a time, such as 2026-12-24T18:00:00Z, or \"2026-12-24 18:00\" by this machine's clock: within 6 days")
}

// localTime is a time by this machine's clock.
const localTime = "2006-01-02 15:04"

// notBefore returns when the jobs may start; zero for at once.
func (l *later) notBefore(now time.Time) (at jobapi.Time, err error) {
	switch {
	case l.at != "" && l.in != 0:
		return at, errors.New("--in and --at say the same: give one of them")
	case l.in != 0:
		at = jobapi.At(now.Add(l.in.D()))
	case l.at != "":
		t, err := time.Parse(time.RFC3339, l.at)
		if err != nil {
			t, err = time.ParseInLocation(localTime, l.at, time.Local)
		}
		if err != nil {
			return at, fmt.Errorf("--at is %.40q: want a time such as 2026-12-24T18:00:00Z, or \"2026-12-24 18:00\" by this machine's clock", l.at)
		}
		at = jobapi.At(t)
		if t.Before(now) {
			return at, fmt.Errorf("--at is %s, which is over", t.Format(time.RFC3339))
		}
	}
	if at.Sub(now) > jobs.MaxDelay {
		return at, fmt.Errorf("the jobs would start on %s: it must be within 6 days", at.Format(time.RFC3339))
	}
	return at, nil
}
