package zpe

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// checkSystem checks what must hold of every system that was accepted, and of
// what is written of it.
func checkSystem(t *testing.T, s *System) {
	t.Helper()
	if len(s.Atoms) == 0 || len(s.Atoms) > maxAtoms || len(s.Species) > maxSpecies {
		t.Fatalf("%d atoms of %d species", len(s.Atoms), len(s.Species))
	}
	for _, a := range s.Atoms {
		for _, x := range a.Position {
			if math.IsNaN(x) || math.Abs(x) > 10*maxCell {
				t.Fatalf("an atom is at %v", a.Position)
			}
		}
	}
	text := s.write(s.positions(), true)
	for line := range strings.Lines(text) {
		if !harmless.MatchString(line) {
			t.Fatalf("the line %q would go to pw.x", line)
		}
	}
	if strings.Count(text, "outdir") != 1 || strings.Count(text, "pseudo_dir") != 1 || strings.Count(text, "\n/\n") != 4 {
		t.Fatalf("this would go to pw.x:\n%s", text)
	}
	project, whole := s.projection(ProjectAuto, s.positions())
	if project == ProjectAuto || len(whole) > 6 {
		t.Fatalf("projection %s of %d", project, len(whole))
	}
}

// harmless matches the lines of an input: a namelist's head or end, one setting, a
// card, or a row of one.
var harmless = regexp.MustCompile(`^(&[a-z]+|/|  [a-z_0-9]+(\(\d+\))? = ('[A-Za-z0-9_./+-]*'|[-+.a-z0-9]+)|(CELL_PARAMETERS|ATOMIC_POSITIONS) angstrom|ATOMIC_SPECIES|K_POINTS (gamma|automatic)|  [A-Za-z0-9._-]+( [A-Za-z0-9._+-]+){2,6})\n$`)

func FuzzParsePayload(f *testing.F) {
	h2, err := os.ReadFile("testdata/h2.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(h2)
	f.Add([]byte(`{"structure":{"cell_angstrom":[[6,0,0],[0,6,0],[0,0,6]],"atoms":[{"element":"O","position":[0,0,0],"fixed":true},{"element":"H","position":[1,0,0]}],"species":{"O":{"pseudo":"O.UPF","mass":18}},"ecutwfc":50,"ecutrho":400,"kpoints":[2,2,2],"conv_thr":1e-9,"electron_maxstep":50,"mixing_beta":0.3},"mobile_indices":[1],"delta":0.02,"relax":false,"project":"none","low_cut_cm":10,"temperature":0,"timeout_s":9}`))
	f.Add([]byte(`{"qe_input":"&system\nibrav=1,A=7,nat=1,ntyp=1,ecutwfc=40\n/\nATOMIC_SPECIES\nH 1 H.UPF\nATOMIC_POSITIONS bohr\nH 0 0 0\nK_POINTS gamma"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := ParsePayload(text)
		if err != nil {
			if len(err.Error()) > 1000 {
				t.Fatalf("the error has %d bytes", len(err.Error()))
			}
			return
		}
		if mobile, _ := p.System.mobile(); len(mobile) == 0 || len(mobile) > maxMobile {
			t.Fatalf("%d mobile atoms", len(mobile))
		}
		if within(p.Delta, 0.001, 0.1) != nil || within(p.Temperature, 0, 5000) != nil || within(p.LowCut, 0, 1000) != nil {
			t.Fatalf("%+v", p)
		}
		checkSystem(t, &p.System)
	})
}

func FuzzParseInput(f *testing.F) {
	f.Add("&control\n calculation='relax'\n/\n&system\nibrav=0,nat=2,ntyp=1,ecutwfc=40,ecutrho=2d2,nspin=2,starting_magnetization(1)=.5\n/\n&electrons\nmixing_mode='plain'\n/\n&ions\n/\nCELL_PARAMETERS bohr\n9 0 0\n0 9 0\n0 0 9\nATOMIC_SPECIES\nFe1 55.8 Fe.UPF\nATOMIC_POSITIONS (crystal)\nFe1 0 0 0 0 0 0\nFe1 .5 .5 .5\nK_POINTS automatic\n2 2 2 1 1 1\n")
	f.Add("&system\nibrav=4,A=3,C=9,nat=1,ntyp=1,ecutwfc=40\n/\nATOMIC_SPECIES\nH 1 H.UPF\nATOMIC_POSITIONS alat\nH 0 0 0\nK_POINTS {gamma}")
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > maxInput {
			return
		}
		s, err := parseInput(text)
		if err == nil {
			checkSystem(t, &s)
		} else if len(err.Error()) > 1000 {
			t.Fatalf("the error has %d bytes", len(err.Error()))
		}
	})
}

func FuzzOutput(f *testing.F) {
	recorded, err := filepath.Glob("testdata/*.out")
	if err != nil || len(recorded) == 0 {
		f.Fatal("no recorded outputs")
	}
	for _, name := range recorded {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text, true)
	}
	f.Fuzz(func(t *testing.T, text []byte, relax bool) {
		o := &output{atoms: 2, relax: relax}
		for line := range bytes.Lines(text) {
			o.line(bytes.TrimSuffix(line, []byte("\n")))
		}
		if len(o.progress()) > 200 || len(o.errorText()) > 400*maxMessage || len(o.pseudos) > maxSpecies {
			t.Fatalf("too much is kept: %+v", o)
		}
		if o.missing() != nil {
			return
		}
		numbers := []float64{o.energy}
		for _, v := range append(o.forces, o.final...) {
			numbers = append(numbers, v[:]...)
		}
		for _, x := range numbers {
			if math.IsNaN(x) || math.IsInf(x, 0) {
				t.Fatalf("complete, with %v", x)
			}
		}
	})
}
