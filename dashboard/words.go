package dashboard

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/dashboard/markup"
	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
)

// words are the functions of the templates.
var words = map[string]markup.Func{
	"ago":    ofTime(func(t time.Time) string { return ago(t, time.Now()) }),
	"stamp":  ofTime(func(t time.Time) string { return t.UTC().Format(time.RFC3339) }),
	"full":   ofTime(func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }),
	"clock":  ofTime(func(t time.Time) string { return t.UTC().Format("15:04:05") }),
	"ms":     ofNumber(func(n int64) string { return lasting(time.Duration(n) * time.Millisecond) }),
	"num":    ofNumber(grouped),
	"bytes":  ofNumber(sized),
	"glyph":  ofText(func(s string) string { return glyphs[s] }),
	"short":  ofText(func(s string) string { _, kind, ok := strings.Cut(s, "."); return pick(ok, kind, s) }),
	"pretty": ofText(pretty),
	"clip":   clip,
	"took":   took,
	"joburl": func(args ...any) (any, error) {
		if len(args) != 2 {
			return nil, errArgs
		}
		scope, ok := args[0].(string)
		id, second := args[1].(string)
		if !ok || !second {
			return nil, errArgs
		}
		return "/jobs/" + pathOf(scope, id), nil
	},
}

func pick[T any](ok bool, a, b T) T {
	if ok {
		return a
	}
	return b
}

// glyphs are shapes for states, so that colour is never the only sign.
var glyphs = map[string]string{
	"queued": "○", "running": "◐", "succeeded": "✓", "failed": "✕", "canceled": "⊘", "pending": "○", "skipped": "↷",
	"working": "◐", "idle": "○", "draining": "◌", "unready": "△", "silent": "✕",
}

var errArgs = errors.New("it has other arguments")

func ofTime(show func(time.Time) string) markup.Func {
	return func(args ...any) (any, error) {
		if len(args) != 1 {
			return nil, errArgs
		}
		t, ok := args[0].(jobapi.Time)
		if !ok {
			return nil, fmt.Errorf("%w than a time", errArgs)
		}
		if t.IsZero() {
			return "", nil
		}
		return show(t.Time), nil
	}
}

func ofNumber(show func(int64) string) markup.Func {
	return func(args ...any) (any, error) {
		if len(args) != 1 {
			return nil, errArgs
		}
		v := reflect.ValueOf(args[0])
		if v.Kind() == reflect.Pointer && !v.IsNil() {
			v = v.Elem()
		}
		if !v.CanInt() {
			return nil, fmt.Errorf("%w than a number", errArgs)
		}
		return show(v.Int()), nil
	}
}

func ofText(show func(string) string) markup.Func {
	return func(args ...any) (any, error) {
		if len(args) != 1 {
			return nil, errArgs
		}
		switch s := args[0].(type) {
		case string:
			return show(s), nil
		case json.RawMessage:
			return show(string(s)), nil
		case fmt.Stringer:
			return show(s.String()), nil
		}
		return nil, fmt.Errorf("%w than a text", errArgs)
	}
}

// clip cuts a text to a number of bytes.
func clip(args ...any) (any, error) {
	if len(args) == 2 {
		s, ok := args[0].(string)
		n, number := args[1].(int)
		if ok && number {
			return jobs.Clip(s, n, "…"), nil
		}
	}
	return nil, errArgs
}

// took returns how long something lasted, or lasts until now if it has no end.
func took(args ...any) (any, error) {
	if len(args) == 2 {
		from, ok := args[0].(jobapi.Time)
		to, second := args[1].(jobapi.Time)
		if ok && second {
			if from.IsZero() {
				return "", nil
			}
			end := to.Time
			if end.IsZero() {
				end = time.Now()
			}
			return lasting(max(0, end.Sub(from.Time))), nil
		}
	}
	return nil, errArgs
}

// ago says how far a time is from now, as the script of the page does.
func ago(t, now time.Time) string {
	d := now.Sub(t)
	if d < 0 {
		return "in " + about(-d)
	}
	if d < time.Second {
		return "now"
	}
	return about(d) + " ago"
}

// about returns a duration in its largest unit.
func about(d time.Duration) string {
	switch {
	case d < time.Minute:
		return strconv.Itoa(int(d/time.Second)) + " s"
	case d < time.Hour:
		return strconv.Itoa(int(d/time.Minute)) + " min"
	case d < 48*time.Hour:
		return strconv.Itoa(int(d/time.Hour)) + " h"
	default:
		return strconv.Itoa(int(d/(24*time.Hour))) + " d"
	}
}

// lasting returns a duration in its two largest units.
func lasting(d time.Duration) string {
	switch {
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + " ms"
	case d < 10*time.Second:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
	case d < time.Minute:
		return strconv.Itoa(int(d/time.Second)) + " s"
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", d/time.Minute, d%time.Minute/time.Second)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d min", d/time.Hour, d%time.Hour/time.Minute)
	default:
		return fmt.Sprintf("%d d %d h", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
	}
}

// grouped returns a number with narrow blanks between groups of three digits.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "\u202f" + s[i:]
	}
	return s
}

// sized returns a number of bytes.
func sized(n int64) string {
	const units = "kMGTPE"
	if n < 1000 {
		return strconv.FormatInt(n, 10) + " B"
	}
	f := float64(n)
	i := -1
	for ; f >= 1000 && i+1 < len(units); i++ {
		f /= 1000
	}
	return strconv.FormatFloat(f, 'g', 3, 64) + " " + units[i:i+1] + "B"
}

// pretty returns JSON with a line for each member; what is no JSON stays as it is.
func pretty(s string) string {
	var b bytes.Buffer
	if json.Indent(&b, []byte(s), "", "  ") != nil {
		return s
	}
	return b.String()
}
