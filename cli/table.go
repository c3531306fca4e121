package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/batchfleet/batchfleet/jobapi"
)

// table prints cells in columns that line up, each on one line and safe for a terminal.
type table struct {
	w   *tabwriter.Writer
	err error
}

func newTable(out io.Writer) *table {
	return &table{w: tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)}
}

func (t *table) row(cells ...any) {
	line := make([]string, len(cells))
	for i, c := range cells {
		line[i] = oneLine(fmt.Sprint(c))
	}
	_, err := fmt.Fprintln(t.w, strings.Join(line, "\t"))
	t.err = errors.Join(t.err, err)
}

// pairs prints names, each with the value behind it, without those whose value is empty.
func (t *table) pairs(namesAndValues ...any) {
	for i := 0; i < len(namesAndValues); i += 2 {
		if fmt.Sprint(namesAndValues[i+1]) != "" {
			t.row(namesAndValues[i : i+2]...)
		}
	}
}

func (t *table) flush() error { return errors.Join(t.err, t.w.Flush()) }

// printRows prints all as a table below its head, if it has one, or as JSON, one object a line.
func printRows[T any](out io.Writer, asJSON bool, all []T, head []any, cells func(T) []any) error {
	t := newTable(out)
	if !asJSON && head != nil {
		t.row(head...)
	}
	for _, one := range all {
		if !asJSON {
			t.row(cells(one)...)
		} else if err := printJSON(out, one); err != nil {
			return err
		}
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

func seconds(from, to jobapi.Time) string {
	if from.IsZero() || to.IsZero() {
		return ""
	}
	return fmt.Sprintf("%.2f", to.Sub(from.Time).Seconds())
}
