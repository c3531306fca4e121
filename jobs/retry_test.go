package jobs

import (
	"strings"
	"testing"
	"time"
)

func TestK10MessageSaysWhyAndWhenTheJobRunsAgain(t *testing.T) {
	for _, tt := range []struct {
		reason string
		after  time.Duration
		want   string
	}{
		{"exit 3: no space", 10 * time.Second, "attempt 2 failed: exit 3: no space; next in 10 s"},
		{"exit 3", 0, "attempt 2 failed: exit 3; next in 0 s"},
		{"exit 3", 90 * time.Second, "attempt 2 failed: exit 3; next in 1 min 30 s"},
		{"exit 3", 2*time.Hour + 600*time.Millisecond, "attempt 2 failed: exit 3; next in 2 h 1 s"},
		{"\x1b[31mred", time.Second, `attempt 2 failed: \x1b[31mred; next in 1 s`},
		{strings.Repeat("x", 100), time.Second, "attempt 2 failed: " + strings.Repeat("x", 46) + " …; next in 1 s"},
	} {
		if got := (Outcome{Reason: tt.reason, RetryAfter: tt.after}).RetryMessage(2, 50); got != tt.want {
			t.Errorf("%q, got\n%q, want\n%q", tt.reason, got, tt.want)
		}
	}
}
