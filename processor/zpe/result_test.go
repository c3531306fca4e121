package zpe

import (
	"math"
	"strings"
	"testing"
)

// The sums and the texts agree on every mode, also where rounding moves one across
// a bound.
func TestZpeModesCountAsTheyAreShown(t *testing.T) {
	t.Parallel()
	modes := func() []float64 { return []float64{-0.00003, 0.00003, 50.00003, 100} }
	r := Result{LowCut: 50, LowCutApplied: true, Freqs: modes(), UnprojectedFreqs: modes()}
	r.sum()
	want := 100 * cmToEV / 2
	if r.Counted != 1 || len(r.Imaginary) != 2 || math.Abs(r.ZPE-want) > 1e-7 || math.Abs(r.UnprojectedZPE-want) > 1e-7 {
		t.Errorf("got %+v, want 1 mode counted and 2 imaginary", r)
	}
	csv := r.csv()
	for kind, n := range map[string]int{imaginary: 2, belowLowCut: 1, vibration: 1} {
		if got := strings.Count(csv, ","+kind+"\n"); got != n {
			t.Errorf("%d modes are %s, want %d:\n%s", got, kind, n, csv)
		}
	}
}

func TestZpeLowCutHasASayWhereItApplies(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		applied bool
		counted int
	}{{false, 2}, {true, 1}} {
		r := Result{LowCut: 50, LowCutApplied: tt.applied, Freqs: []float64{-3, 20, 100}}
		r.sum()
		if r.Counted != tt.counted || len(r.Warnings) != 0 {
			t.Errorf("applied %v: %d modes counted, want %d; warnings %q, want none of an imaginary mode within low_cut_cm", tt.applied, r.Counted, tt.counted, r.Warnings)
		}
	}
}
