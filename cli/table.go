package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/mattn/go-runewidth"
	"golang.org/x/term"

	"github.com/batchfleet/batchfleet/jobapi"
)

// table prints cells in columns that line up, each on one line and safe for a terminal. On a
// terminal it is made to fit: the widest columns but the first are cut. In a pipe nothing is
// cut.
type table struct {
	out   io.Writer
	rows  [][]string
	width int // of the terminal; 0 for none
	color bool
}

func newTable(out io.Writer) *table {
	t := &table{out: out}
	if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		t.width, _, _ = term.GetSize(int(f.Fd()))
		t.color = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	}
	return t
}

// isTerminal reports whether what is written to out is looked at by a person.
func isTerminal(out io.Writer) bool {
	f, ok := out.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

func (t *table) row(cells ...any) {
	line := make([]string, len(cells))
	for i, c := range cells {
		line[i] = oneLine(fmt.Sprint(c))
	}
	t.rows = append(t.rows, line)
}

// pairs prints names, each with the value behind it, without those whose value is empty.
func (t *table) pairs(namesAndValues ...any) {
	t.width = 0 // a long value goes on in the next line
	for i := 0; i < len(namesAndValues); i += 2 {
		if fmt.Sprint(namesAndValues[i+1]) != "" {
			t.row(namesAndValues[i : i+2]...)
		}
	}
}

// gap is between two columns.
const gap = "  "

// least is how narrow a column may become.
const least = 6

func (t *table) flush() error {
	var widths []int
	for _, row := range t.rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], runewidth.StringWidth(cell))
		}
	}
	for t.width > 0 && total(widths) > t.width {
		widest := len(widths) - 1
		for i := 1; i < len(widths)-1; i++ {
			if widths[i] > widths[widest] {
				widest = i
			}
		}
		if widest < 1 || widths[widest] <= least {
			break
		}
		widths[widest]--
	}
	var b strings.Builder
	for _, row := range t.rows {
		for i, cell := range row {
			if t.width > 0 {
				cell = runewidth.Truncate(cell, widths[i], "…")
			}
			pad := ""
			if i < len(row)-1 {
				pad = strings.Repeat(" ", widths[i]-runewidth.StringWidth(cell)) + gap
			}
			b.WriteString(t.colored(cell) + pad)
		}
		line := strings.TrimRight(b.String(), " ")
		b.Reset()
		if _, err := fmt.Fprintln(t.out, line); err != nil {
			return err
		}
	}
	return nil
}

func total(widths []int) int {
	sum := (len(widths) - 1) * len(gap)
	for _, w := range widths {
		sum += w
	}
	return sum
}

// stateColors are the colors of states, in which cells are shown that hold nothing else.
var stateColors = map[string]string{"succeeded": "32", "ok": "32", "failed": "31", "FAIL": "31", "running": "36", "working": "36", "canceled": "33", "warn": "33"}

func (t *table) colored(cell string) string {
	if color := stateColors[cell]; t.color && color != "" {
		return "\x1b[" + color + "m" + cell + "\x1b[0m"
	}
	return cell
}

// printRows prints all as a table below its head, if it has one, or as JSON, one object a line.
func printRows[T any](out io.Writer, asJSON bool, all []T, head []any, cells func(T) []any) error {
	if asJSON {
		for _, one := range all {
			if err := printJSON(out, one); err != nil {
				return err
			}
		}
		return nil
	}
	t := newTable(out)
	if head != nil {
		t.row(head...)
	} else {
		t.width = 0 // what is to be copied is whole
	}
	for _, one := range all {
		t.row(cells(one)...)
	}
	return t.flush()
}

// each returns what of makes of all.
func each[T, R any](all []T, of func(T) R) []R {
	made := make([]R, len(all))
	for i, one := range all {
		made[i] = of(one)
	}
	return made
}

// Cells are empty for what is not known: a number, a time, how long something took.
func number(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Format(time.RFC3339)
}

// seconds says how long something took, with three digits or so: 0.42s, 12.3s, 5m12s.
func seconds(from, to jobapi.Time) string {
	if from.IsZero() || to.IsZero() {
		return ""
	}
	d := to.Sub(from.Time)
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.2fs", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return short(d)
}

// age says how long ago something was: 5s, 12m, 3h, 4d.
func age(now time.Time, then jobapi.Time) string {
	if then.IsZero() {
		return ""
	}
	d := max(0, now.Sub(then.Time))
	for _, unit := range []struct {
		is   time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "m"}} {
		if d >= unit.is {
			return fmt.Sprintf("%d%s", d/unit.is, unit.name)
		}
	}
	return fmt.Sprintf("%ds", d/time.Second)
}

// short writes a duration without parts that are zero: 5m12s, 2h5m.
func short(d time.Duration) string {
	if d >= time.Hour {
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	}
	return d.Round(time.Second).String()
}
