package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/mattn/go-runewidth"

	"github.com/batchfleet/batchfleet/jobapi"
)

func TestTableFitsItsTerminal(t *testing.T) {
	id := "01KDZ3NDEKTSV4RRFFQ69G5FAV"
	for _, tt := range []struct {
		name       string
		width      int
		color      bool
		has, lacks string
	}{
		{"a pipe gets everything", 0, false, "日本語の長い名前.pdf  succeeded", "\x1b"},
		{"80 columns", 80, false, "…", "\x1b"},
		{"80 columns in color", 80, true, "\x1b[32msucceeded\x1b[0m", ""},
		{"200 columns", 200, false, "of-a-worker", "…"},
		{"too narrow for anything", 20, false, id, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var b bytes.Buffer
			table := &table{out: &b, width: tt.width, color: tt.color}
			table.row("JOB", "FILE", "STATE", "TOOK", "WORKER")
			table.row(id, strings.Repeat("x", 40)+"日本語の長い名前.pdf", "succeeded", "1.25s", "the-name-of-a-worker")
			table.row(id, "a.pdf", "failed", "", "w\x1b[31m")
			if err := table.flush(); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(b.String(), tt.has) || tt.lacks != "" && strings.Contains(b.String(), tt.lacks) {
				t.Errorf("want %q and not %q:\n%s", tt.has, tt.lacks, b.String())
			}
			plain := strings.NewReplacer("\x1b[32m", "", "\x1b[31m", "", "\x1b[0m", "").Replace(b.String())
			for line := range strings.Lines(plain) {
				if n := runewidth.StringWidth(strings.TrimSuffix(line, "\n")); tt.width >= 80 && n > tt.width {
					t.Errorf("a line is %d wide:\n%s", n, plain)
				}
				if !strings.HasPrefix(line, id) && !strings.HasPrefix(line, "JOB") {
					t.Errorf("the first column was cut: %s", line)
				}
			}
		})
	}
}

func TestTimesAreShort(t *testing.T) {
	at := func(d time.Duration) jobapi.Time { return jobapi.At(time.Unix(1e9, 0).Add(d)) }
	now := at(0)
	for d, want := range map[time.Duration]string{0: "0.00s", 1250 * time.Millisecond: "1.25s", 12340 * time.Millisecond: "12.3s", 312 * time.Second: "5m12s", 125 * time.Minute: "2h5m", 50 * time.Hour: "50h0m"} {
		if got := seconds(now, at(d)); got != want {
			t.Errorf("%s took %q, want %q", d, got, want)
		}
	}
	for d, want := range map[time.Duration]string{-time.Second: "0s", 59 * time.Second: "59s", time.Minute: "1m", 3*time.Hour + time.Minute: "3h", 49 * time.Hour: "2d"} {
		if got := age(now.Add(d), now); got != want {
			t.Errorf("%s ago is %q, want %q", d, got, want)
		}
	}
	if seconds(jobapi.Time{}, now) != "" || age(now.Time, jobapi.Time{}) != "" {
		t.Error("what is not known is not empty")
	}
}

// TestF63AFailureIsSaidOnce: a code that says no more than the state is left out, and so is one that the
// message begins with.
func TestF63AFailureIsSaidOnce(t *testing.T) {
	for _, tt := range []struct{ code, message, want string }{
		{"FAILED", "input is not a PDF", "input is not a PDF"},
		{"FAILED", "", "FAILED"},
		{"NOT_CONVERGED", "NOT_CONVERGED: ", "NOT_CONVERGED: "},
		{"NOT_CONVERGED", "the SCF cycle", "NOT_CONVERGED: the SCF cycle"},
	} {
		if got := reasonOf(&jobapi.Error{Code: tt.code, Message: tt.message}); got != tt.want {
			t.Errorf("%s and %q: %q, want %q", tt.code, tt.message, got, tt.want)
		}
	}
}
