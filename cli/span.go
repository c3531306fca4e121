package cli

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/cli/settings"
)

// span is a flag that takes a duration: 3d, 12h, or a number of seconds.
type span time.Duration

// Set implements [pflag.Value].
func (s *span) Set(text string) error {
	d, ok, err := parseDays(text)
	if !ok {
		err = (*settings.Seconds)(&d).Decode(text)
	}
	if err != nil {
		return errors.New("want a duration such as 90s, 10m or 3d, or a number of seconds")
	}
	*s = span(d)
	return nil
}

// String implements [pflag.Value]; it is empty for 0.
func (s *span) String() string {
	if *s == 0 {
		return ""
	}
	return s.D().String()
}

// Type implements [pflag.Value].
func (s *span) Type() string { return "duration" }

// D returns the duration.
func (s *span) D() time.Duration { return time.Duration(*s) }

// parseDays reads a whole number of days, as 90d; ok is false for what does not
// end with a d.
func parseDays(text string) (d time.Duration, ok bool, err error) {
	days, ok := strings.CutSuffix(text, "d")
	if !ok {
		return 0, false, nil
	}
	n, err := strconv.ParseUint(days, 10, 16)
	return time.Duration(n) * 24 * time.Hour, true, err
}
