package zpe_test

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/internal/testrun"
	"github.com/batchfleet/batchfleet/processor/zpe"
)

// espresso is where Debian's package quantum-espresso-data has its
// pseudopotentials.
const espresso = "/usr/share/espresso/pseudo"

// realHandler returns a handler with the real pw.x. Where there is none, the test
// is skipped, but in CI fails.
func realHandler(t *testing.T) *zpe.Handler {
	t.Helper()
	h := newHandler(t, tool(t, "pw.x"))
	h.PseudoDir = espresso
	h.Limits.Memory = 1 << 30
	return h
}

// tool returns the path of a program.
func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("%v: install quantum-espresso and quantum-espresso-data", err)
		}
		t.Skipf("%v", err)
	}
	return path
}

// The acceptance of the method: H2, computed for real, and held against two other
// ways to the same number.
func TestZ77RealH2(t *testing.T) {
	t.Parallel()
	testrun.Once(t, "the work is done by pw.x")
	testrun.Long(t, "it takes much CPU")
	h := realHandler(t)
	h.Parallel = 2
	payload, err := os.ReadFile("testdata/h2.json")
	if err != nil {
		t.Fatal(err)
	}
	d := mustRun(t, h, string(payload))
	r := d.Result
	if math.Abs(r.ZPE-0.2664) > 0.0005 || r.ZPE < 0.26 || r.ZPE > 0.28 || len(r.Freqs) != 1 || r.Projected != 5 {
		t.Fatalf("ZPE is %v eV of %v, %d motions taken out", r.ZPE, r.Freqs, r.Projected)
	}
	if r.Pseudos[0].MD5 != "a225a3f3a1be5237eb8f6a7e61cbb4ee" || r.MaxForce > 1e-5 || len(r.Warnings) > 0 {
		t.Errorf("got %+v", r)
	}
	t.Run("second differences of the energy", func(t *testing.T) {
		e := func(n int) float64 { return checkpointEnergy(t, h, n) }
		delta := r.Delta / 0.529177210903
		k := (e(5) + e(6) - 2*e(0)) / (delta * delta) // atom 0, along the bond
		nu := math.Sqrt(k*2.1798723611e-18/(5.29177210903e-11*5.29177210903e-11)/(1.00794/2*1.66053906660e-27)) / (2 * math.Pi * 2.99792458e10)
		if math.Abs(nu/r.Freqs[0]-1) > 0.002 {
			t.Errorf("%.1f cm-1 by energies, %.1f by forces", nu, r.Freqs[0])
		}
	})
	t.Run("perturbation theory", func(t *testing.T) {
		for i, nu := range phonons(t, r.QEInput) {
			want := 0.0
			if i == 5 {
				want = r.Freqs[0]
			}
			if math.Abs(nu-want) > 0.002*want+0.01 || math.Abs(nu/4295.5-1) > 0.002 && i == 5 {
				t.Errorf("mode %d is at %.2f cm-1 by dynmat.x, at %.2f by us", i+1, nu, want)
			}
		}
	})
}

func checkpointEnergy(t *testing.T, h *zpe.Handler, n int) float64 {
	t.Helper()
	var c struct {
		Energy float64 `json:"energy_ry"`
	}
	readObject(t, h, fmt.Sprintf("results/job/zpe/%04d.json", n), &c)
	return c.Energy
}

// phonons has ph.x compute the frequencies of an input of ours, and dynmat.x take
// out what is no vibration.
func phonons(t *testing.T, input string) []float64 {
	t.Helper()
	dir := t.TempDir()
	if err := os.Symlink(espresso, filepath.Join(dir, "pseudo")); err != nil {
		t.Fatal(err)
	}
	// ph.x needs the wavefunctions, and refuses the tricks of K_POINTS gamma.
	input = strings.NewReplacer("disk_io = 'nowf'", "disk_io = 'low'", "K_POINTS gamma", "K_POINTS automatic\n1 1 1 0 0 0").Replace(input)
	qe(t, dir, "pw.x", input)
	qe(t, dir, "ph.x", "H2\n&inputph\n prefix='pw', outdir='./out', tr2_ph=1e-14, fildyn='dyn'\n/\n0 0 0\n")
	out := qe(t, dir, "dynmat.x", "&input\n fildyn='dyn', asr='zero-dim'\n/\n")
	var all []float64
	for _, m := range regexp.MustCompile(`(?m)^ +\d+ +(-?\d+\.\d\d) +-?\d+\.\d{4} +\d+\.\d{4}$`).FindAllSubmatch(out, -1) {
		nu, err := strconv.ParseFloat(string(m[1]), 64)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, nu)
	}
	if len(all) != 6 {
		t.Fatalf("dynmat.x printed %d modes:\n%s", len(all), out)
	}
	return all
}

func qe(t *testing.T, dir, program, input string) []byte {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, program+".in"), []byte(input), 0o600); err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), tool(t, program), "-in", program+".in")
	c.Dir = dir
	c.Env = []string{"PATH=/usr/bin:/bin", "TMPDIR=" + dir, "OMP_NUM_THREADS=1", "OMPI_MCA_ess_singleton_isolated=1", "OMPI_MCA_btl=self", "OMPI_MCA_pml=ob1"}
	out, err := c.Output()
	if err != nil || !bytes.Contains(out, []byte("JOB DONE.")) && program != "dynmat.x" {
		t.Fatalf("%s: %v\n%s", program, err, out)
	}
	return out
}

// small is H2 in the cheapest form that is not wrong by much, as an input of pw.x
// with a place for further settings and for what follows the first atom.
const small = `&system
  ibrav = 1, A = 5.3, nat = 2, ntyp = 1, ecutwfc = 25, ecutrho = 120 %s
/
ATOMIC_SPECIES
H 1.00794 %s
ATOMIC_POSITIONS angstrom
H 2.65 2.65 2.28 %s
H 2.65 2.65 3.03
K_POINTS gamma
`

func TestZ77RealH2WithOneAtomFixed(t *testing.T) {
	t.Parallel()
	testrun.Once(t, "the work is done by pw.x")
	testrun.Long(t, "it takes much CPU")
	h := realHandler(t)
	r := mustRun(t, h, fromInput(fmt.Sprintf(small, "", "HUSPBE.RRKJ3", "0 0 0"))).Result
	// All of the stretch is one atom's: its mass counts instead of half of it.
	if want := 4258.5 / math.Sqrt2; len(r.Freqs) != 3 || math.Abs(r.Freqs[2]/want-1) > 0.005 {
		t.Errorf("frequencies are %v, want the last at %.1f", r.Freqs, want)
	}
	if r.Project != zpe.ProjectNone || !r.LowCutApplied || r.ZPE != r.UnprojectedZPE || r.PositionsAngstrom[0] != [3]float64{2.65, 2.65, 2.28} {
		t.Errorf("got %+v", r)
	}
}

func TestZpeRealFailures(t *testing.T) {
	t.Parallel()
	t.Run("no convergence", func(t *testing.T) {
		h := realHandler(t)
		text := fmt.Sprintf(small, "\n/\n&electrons\n electron_maxstep = 2", "HUSPBE.RRKJ3", "")
		mustFail(t, h, fromInput(text), zpe.CodeNotConverged, true, "did not converge in 2 iterations")
		wantEmpty(t, h.WorkDir)
	})
	t.Run("missing pseudopotential", func(t *testing.T) {
		h := realHandler(t)
		mustFail(t, h, fromInput(fmt.Sprintf(small, "", "H.pbe-rrkjus.UPF", "")), zpe.CodePseudo, false, "H.pbe-rrkjus.UPF in "+espresso)
	})
	t.Run("pseudopotential that pw.x would find elsewhere", func(t *testing.T) {
		h := realHandler(t)
		h.PseudoDir = t.TempDir()
		mustFail(t, h, fromInput(fmt.Sprintf(small, "", "HUSPBE.RRKJ3", "")), zpe.CodePseudo, false, "HUSPBE.RRKJ3 in "+h.PseudoDir)
	})
	t.Run("pseudopotential that is none", func(t *testing.T) {
		h := realHandler(t)
		h.PseudoDir = t.TempDir()
		if err := os.WriteFile(filepath.Join(h.PseudoDir, "H.UPF"), []byte("nothing\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		_, detail := mustFail(t, h, fromInput(fmt.Sprintf(small, "", "H.UPF", "")), zpe.CodeInputError, true, "pw.x refused the input: ")
		if !strings.Contains(detail, "%%%%") {
			t.Errorf("detail is %q, want what CRASH says", detail)
		}
	})
	t.Run("more memory than allowed", func(t *testing.T) {
		h := realHandler(t)
		h.Limits.Memory = 300 << 20
		text := strings.Replace(fmt.Sprintf(small, "", "HUSPBE.RRKJ3", ""), "A = 5.3", "A = 40", 1)
		mustFail(t, h, fromInput(text), zpe.CodeOutOfMemory, false, "its limit of 300 MiB")
	})
}

func TestZpeRealProbe(t *testing.T) {
	t.Parallel()
	found, err := realHandler(t).Probe(t.Context())
	if err != nil || !regexp.MustCompile(`^\d+\.\d`).MatchString(found.Version) || found.Pseudos < 5 {
		t.Errorf("found %+v, %v", found, err)
	}
}
