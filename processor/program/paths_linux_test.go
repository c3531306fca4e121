package program_test

import (
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/jobs"
)

func TestK08ReasonNamesNoPathOfTheWorker(t *testing.T) {
	for _, tt := range []struct {
		name, script string
		job          jobs.Job
		want         string
	}{
		{"the input", `echo "cannot read $BATCHFLEET_INPUT:3" >&2; exit 3`, jobs.Job{Input: "in/a"}, "exit 3: cannot read {input}:3"},
		{"one of several inputs", `echo "cannot read $BATCHFLEET_INPUT/b" >&2; exit 3`, jobs.Job{Inputs: []string{"in/a", "in/b"}}, "exit 3: cannot read {input}/b"},
		{"an output", `cat "$BATCHFLEET_OUTPUT/page.png"`, jobs.Job{}, "exit 1: cat: {output}/page.png: No such file or directory"},
		{"the others", `echo "$HOME/a $BATCHFLEET_CHECKPOINT/b $BATCHFLEET_PARAMS" >&2; exit 65`, jobs.Job{}, "exit 65: {work}/a {checkpoint}/b {params}"},
		{"what is beside them", `cd "$HOME/.." && echo "$PWD/x" >&2; exit 65`, jobs.Job{}, "exit 65: x"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := open(t, tt.script, "")
			r.put("in/a", "a")
			r.put("in/b", "b")
			tt.job.ID = "j"
			f := r.fails(tt.job, 1, 0)
			if f.Error() != tt.want || strings.Contains(f.Detail, r.dir) {
				t.Errorf("the reason is %q, want %q; further text %q", f, tt.want, f.Detail)
			}
		})
	}
}
