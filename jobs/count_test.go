package jobs

import "testing"

func TestOneThingIsNotSeveral(t *testing.T) {
	for n, want := range map[int]string{0: "0 jobs are", 1: "1 job is", 2: "2 jobs are"} {
		if got := Count(n, "job") + " " + Are(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}
