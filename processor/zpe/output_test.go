package zpe

import (
	"bytes"
	"math"
	"os"
	"strings"
	"testing"
)

func readOutput(t *testing.T, name string, o *output) (shown []string) {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		if o.line(bytes.TrimSuffix(line, []byte("\n"))) {
			shown = append(shown, o.progress())
		}
	}
	return shown
}

func TestZpeReadsRecordedSCF(t *testing.T) {
	t.Parallel()
	o := &output{atoms: 2}
	shown := readOutput(t, "scf.out", o)
	if err := o.missing(); err != nil {
		t.Error(err)
	}
	if o.version != "6.7MaX" || len(o.pseudos) != 1 || o.pseudos[0] != (readPseudo{"./pseudo/H.pbe-kjpaw.UPF", "a225a3f3a1be5237eb8f6a7e61cbb4ee"}) {
		t.Errorf("version %q, pseudopotentials %v", o.version, o.pseudos)
	}
	if math.Abs(o.energy+2.33276171) > 2e-8 || o.forces[0] != [3]float64{0, 0, -o.forces[1][2]} || o.forces[1][2] == 0 {
		t.Errorf("energy %v, forces %v", o.energy, o.forces)
	}
	if len(shown) < 8 || shown[1] != "SCF iteration 1, accuracy 1.1e-01 Ry" {
		t.Errorf("progress was %q", shown)
	}
}

func TestZpeReadsRecordedRelaxation(t *testing.T) {
	t.Parallel()
	o := &output{atoms: 2, relax: true}
	readOutput(t, "relax.out", o)
	if err := o.missing(); err != nil {
		t.Error(err)
	}
	want := [][3]float64{{3.25, 3.25, 3.1990386888}, {3.25, 3.25, 3.9509613112}}
	if len(o.final) != 2 || o.final[0] != want[0] || o.final[1] != want[1] {
		t.Errorf("positions are %v, want %v", o.final, want)
	}
	if o.energy != -2.33276645 || o.cycles != 4 || math.Abs(o.forces[0][2]) > 1e-5 {
		t.Errorf("energy %v after %d cycles, forces %v", o.energy, o.cycles, o.forces)
	}
}

func TestZ82RecordedFailuresAreNotComplete(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"noconv.out", "nstep.out", "maxsec.out", "exit.out", "nopseudo.out", "badkey.out", "empty.out", "memory.out"} {
		o := &output{atoms: 2, relax: name == "nstep.out"}
		readOutput(t, name, o)
		if o.missing() == nil {
			t.Errorf("%s was taken for a success", name)
		}
	}
}

// What a cycle has yielded does not count for the next one.
func TestZ82LaterCycleMustBeCompleteToo(t *testing.T) {
	t.Parallel()
	cycle := "iteration #  1     ecut=    40.00 Ry\n!    total energy              =      -2.3 Ry\nconvergence has been achieved in   7 iterations\n" +
		"Forces acting on atoms\n     atom    1 type  1   force =     0.1  0.2  0.3\n"
	end := "bfgs converged in   1 scf cycles\nBegin final coordinates\nATOMIC_POSITIONS (angstrom)\nH 1 2 3\nEnd final coordinates\nJOB DONE.\n"
	read := func(text string) error {
		o := &output{atoms: 1, relax: true}
		for line := range strings.Lines(text) {
			o.line([]byte(strings.TrimSuffix(line, "\n")))
		}
		return o.missing()
	}
	if err := read(cycle + cycle + end); err != nil {
		t.Error(err)
	}
	for line := range strings.Lines(cycle[strings.Index(cycle, "!"):]) {
		if read(cycle+strings.Replace(cycle, line, "", 1)+end) == nil {
			t.Errorf("a second cycle without %q was taken for complete", line)
		}
	}
}

func TestZpeKeepsTheLastLinesThatSaySomething(t *testing.T) {
	t.Parallel()
	o := &output{atoms: 2}
	readOutput(t, "noconv.out", o)
	last := o.last()
	if n := strings.Count(last, "\n") + 1; n != maxSaid {
		t.Errorf("%d lines are kept, want %d", n, maxSaid)
	}
	if !strings.Contains(last, "convergence NOT achieved after   3 iterations: stopping") || strings.Contains(last, "WALL") || strings.Contains(last, "====") {
		t.Errorf("kept %s", last)
	}
	o.line([]byte(strings.Repeat("x", 10_000)))
	if len(o.last()) > maxSaid*301 {
		t.Errorf("%d bytes are kept", len(o.last()))
	}
}
