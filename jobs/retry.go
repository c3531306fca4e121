package jobs

import (
	"fmt"
	"strings"
	"time"
)

// RetryMessage says that an attempt has failed and when the next one begins: "attempt 1
// failed: exit 3; next in 10 s". Of the reason it has at most limit bytes.
func (o Outcome) RetryMessage(attempt, limit int) string {
	return fmt.Sprintf("attempt %d failed: %s; next in %s", attempt, Clip(Visible(o.Reason), limit, " …"), Span(o.RetryAfter))
}

// Span writes a time as people say it, to the second: 10 s, 2 min, 1 h 30 min.
func Span(d time.Duration) string {
	d = d.Round(time.Second)
	var parts []string
	for _, unit := range []struct {
		size time.Duration
		name string
	}{{time.Hour, "h"}, {time.Minute, "min"}, {time.Second, "s"}} {
		if n := d / unit.size; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, unit.name))
		}
		d %= unit.size
	}
	if len(parts) == 0 {
		return "0 s"
	}
	return strings.Join(parts, " ")
}
