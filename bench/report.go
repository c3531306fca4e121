package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"text/tabwriter"
	"time"
)

// A report is the table of one section.
type report struct {
	name, about string
	dir         string // for files made on the way; removed after the section
	rows        []row
}

type row struct {
	what  string
	value float64
	unit  string
	bar   bar
}

// A bar is what a value should reach. The zero bar is always met.
type bar struct {
	limit float64
	most  bool // the value should not be above limit, instead of not below
}

func atLeast(limit float64) bar { return bar{limit: limit} }
func atMost(limit float64) bar  { return bar{limit: limit, most: true} }

func (b bar) met(value float64) bool {
	switch {
	case b == bar{}:
		return true
	case b.most:
		return value <= b.limit
	default:
		return value >= b.limit
	}
}

func (b bar) String() string {
	switch {
	case b == bar{}:
		return ""
	case b.most:
		return "at most " + number(b.limit)
	default:
		return "at least " + number(b.limit)
	}
}

func (r *report) add(what string, value float64, unit string, b bar) {
	r.rows = append(r.rows, row{what, value, unit, b})
}

// missed returns what did not meet its bar.
func (r *report) missed() []string {
	var names []string
	for _, row := range r.rows {
		if !row.bar.met(row.value) {
			names = append(names, row.what)
		}
	}
	return names
}

func (r *report) print(w io.Writer) error {
	if _, err := fmt.Fprintf(w, "%s: %s\n", r.name, r.about); err != nil {
		return fmt.Errorf("print report: %w", err)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range r.rows {
		verdict := ""
		switch {
		case row.bar == bar{}:
		case row.bar.met(row.value):
			verdict = "ok"
		default:
			verdict = "MISSED"
		}
		// A tabwriter keeps its errors for Flush.
		_, _ = fmt.Fprintf(t, "  %s\t%s\t%s\t%s\t%s\n", row.what, number(row.value), row.unit, row.bar, verdict)
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("print report: %w", err)
	}
	return nil
}

// number writes three or four digits that matter.
func number(v float64) string {
	switch {
	case math.Abs(v) >= 100:
		return fmt.Sprintf("%.0f", v)
	case math.Abs(v) >= 10:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.3g", v)
	}
}

// quantile returns the value below which a part q of values lies, 0 for none.
func quantile[T float64 | time.Duration](values []T, q float64) T {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

func median(values []float64) float64 { return quantile(values, 0.5) }
