package zpe

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// springs returns the mass-weighted Hessian of atoms joined by springs of 1
// Ry/bohr² along the lines between them, each at rest: what it has besides
// vibrations is exactly zero.
func springs(at [][3]float64, mass []float64) [][]float64 {
	n := 3 * len(at)
	h := make([][]float64, n)
	for i := range h {
		h[i] = make([]float64, n)
	}
	for i := range at {
		for j := range i {
			d := sub(at[i], at[j])
			d = scale(1/norm(d), d)
			for a := range 3 {
				for b := range 3 {
					k := d[a] * d[b]
					h[3*i+a][3*i+b] += k
					h[3*j+a][3*j+b] += k
					h[3*i+a][3*j+b] -= k
					h[3*j+a][3*i+b] -= k
				}
			}
		}
	}
	var weight []float64
	for _, m := range mass {
		weight = append(weight, m, m, m)
	}
	return massWeighted(h, weight)
}

func TestZpeMotionsOfTheWhole(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		at   [][3]float64
		want int
	}{
		{"one atom", [][3]float64{{1, 2, 3}}, 3},
		{"two atoms", [][3]float64{{0, 0, 0}, {0.4, 0.4, 0.4}}, 5},
		{"three on a line", [][3]float64{{0, 0, -1}, {0, 0, 0}, {0, 0, 1.2}}, 5},
		{"three nearly on a line", [][3]float64{{0, 1e-4, -1}, {0, 0, 0}, {1e-4, 0, 1.2}}, 5},
		{"water", [][3]float64{{0, 0.76, -0.48}, {0, 0, 0.12}, {0, -0.76, -0.48}}, 6},
		{"tetrahedron", [][3]float64{{1, 1, 1}, {1, -1, -1}, {-1, 1, -1}, {-1, -1, 1}, {0, 0, 0}}, 6},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			mass := []float64{1, 16, 2, 12, 35}[:len(tt.at)]
			whole := motions(tt.at, mass, true)
			if len(whole) != tt.want {
				t.Fatalf("%d motions, want %d", len(whole), tt.want)
			}
			if n := len(motions(tt.at, mass, false)); n != 3 {
				t.Errorf("%d translations, want 3", n)
			}
			left := modes(springs(tt.at, mass), whole)
			if len(left) != 3*len(tt.at)-tt.want {
				t.Errorf("%d modes are left, want %d", len(left), 3*len(tt.at)-tt.want)
			}
		})
	}
}

// Projection takes nothing from the vibrations, and all from what the motions of
// the whole are charged with, as they are by images and grids.
func TestZpeProjectionLeavesTheVibrations(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 6).Draw(t, "atoms")
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		at, mass := make([][3]float64, n), make([]float64, n)
		for i := range at {
			for a := range 3 {
				at[i][a] = 4 * random.Float64()
			}
			mass[i] = 1 + 30*random.Float64()
		}
		whole := motions(at, mass, true)
		w := springs(at, mass)
		want := modes(w, nil)[len(whole):]
		for _, v := range whole {
			charge := 0.3 * random.NormFloat64()
			for i := range w {
				for j := range w {
					w[i][j] += charge * v[i] * v[j]
				}
			}
		}
		got := modes(w, whole)
		for i := range want {
			if math.Abs(got[i]-want[i]) > 1e-4*(1+want[len(want)-1]) {
				t.Fatalf("mode %d is %.4f, want %.4f; all %v, want %v", i, got[i], want[i], got, want)
			}
		}
	})
}

func TestZpeEigenvalues(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 30).Draw(t, "n")
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		want := make([]float64, n)
		vectors := make([][]float64, n)
		for i := range want {
			want[i] = math.Round(10*random.NormFloat64()) / 3 // some of them equal
			vectors[i] = make([]float64, n)
			for j := range vectors[i] {
				vectors[i][j] = random.NormFloat64()
			}
		}
		vectors = orthonormal(vectors, 1e-8)
		if len(vectors) < n {
			t.Skip("dependent vectors")
		}
		a := make([][]float64, n)
		for i := range a {
			a[i] = make([]float64, n)
			for j := range a[i] {
				for k := range n {
					a[i][j] += want[k] * vectors[k][i] * vectors[k][j]
				}
			}
		}
		got, of := eigen(a)
		for i, v := range of {
			for j := range n {
				length := 0.0
				if i == j {
					length = 1
				}
				if math.Abs(inner(a[j], v)-got[i]*v[j]) > 1e-9 || math.Abs(inner(v, of[j])-length) > 1e-9 {
					t.Fatalf("%v is no eigenvector of %v, or not orthonormal", v, got[i])
				}
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		for i := range want {
			if math.Abs(got[i]-want[i]) > 1e-9 {
				t.Fatalf("got %v, want %v", got, want)
			}
		}
	})
}

func TestZpeProjectionIsChosenByTheSurroundings(t *testing.T) {
	t.Parallel()
	atoms := func(fixed bool, at ...[3]float64) []Atom {
		var all []Atom
		for i, p := range at {
			all = append(all, Atom{Position: p, Fixed: fixed && i == 0})
		}
		return all
	}
	cube := func(a float64) [3][3]float64 { return [3][3]float64{{a, 0, 0}, {0, a, 0}, {0, 0, a}} }
	tests := []struct {
		name  string
		cell  [3][3]float64
		atoms []Atom
		want  Projection
		n     int
	}{
		{"molecule in a box", cube(6.5), atoms(false, [3]float64{1, 1, 1}, [3]float64{1, 1, 1.75}), ProjectMolecule, 5},
		{"molecule across the edge of the box", cube(6.5), atoms(false, [3]float64{0, 0, 0.3}, [3]float64{6.5, 0, 6.05}), ProjectMolecule, 5},
		{"water across the edges", cube(9), atoms(false, [3]float64{0, 0.76, 8.52}, [3]float64{0, 0, 0.12}, [3]float64{9, 8.24, -0.48}), ProjectMolecule, 6},
		{"box that is too small", cube(4), atoms(false, [3]float64{1, 1, 1}, [3]float64{1, 1, 1.75}), ProjectTranslations, 3},
		{"gap as wide as that to the images", cube(8), atoms(false, [3]float64{0, 0, 0}, [3]float64{0, 0, 4}), ProjectTranslations, 3},
		{"images not 1.5 times as far as the gap", cube(9.9), atoms(false, [3]float64{0, 0, 0}, [3]float64{0, 0, 4}), ProjectTranslations, 3},
		{"images just 1.5 times as far as the gap", cube(10.1), atoms(false, [3]float64{0, 0, 0}, [3]float64{0, 0, 4}), ProjectMolecule, 5},
		{"crystal", cube(4.05), atoms(false, [3]float64{0, 0, 0}, [3]float64{0, 2.025, 2.025}, [3]float64{2.025, 0, 2.025}, [3]float64{2.025, 2.025, 0}), ProjectTranslations, 3},
		{"fixed atom", cube(6.5), atoms(true, [3]float64{1, 1, 1}, [3]float64{1, 1, 1.75}), ProjectNone, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := &System{Cell: tt.cell, Atoms: tt.atoms, Species: []Species{{Mass: 1}}}
			got, whole := s.projection(ProjectAuto, s.positions())
			if got != tt.want || len(whole) != tt.n {
				t.Errorf("got %s with %d motions, want %s with %d", got, len(whole), tt.want, tt.n)
			}
		})
	}
}

// A gateway checks what strangers submit: for all pairs of atoms it makes the
// images of the cell once.
func TestZpeCheckOfManyAtomsAllocatesLittle(t *testing.T) {
	s := &System{Cell: [3][3]float64{{20, 0, 0}, {0, 20, 0}, {0, 0, 20}}, Ecutwfc: 40, Ecutrho: 200}
	for i := range maxAtoms {
		s.Atoms = append(s.Atoms, Atom{Position: [3]float64{float64(i % 6), float64(i / 6 % 6), float64(i / 36)}})
	}
	for what, do := range map[string]func(){
		"check":  func() { _ = s.check("structure") },
		"gather": func() { s.gather(s.positions()) },
	} {
		if n := testing.AllocsPerRun(1, do); n > 20 {
			t.Errorf("%s makes %v allocations, want at most 20", what, n)
		}
	}
	if err := s.check("structure"); err != nil {
		t.Error(err)
	}
}

func TestZpeEntropy(t *testing.T) {
	t.Parallel()
	// 1000 cm-1 at 1438.7769 K is x = 1: R (1/(e-1) - ln(1-1/e)).
	want := 8.314462618 * (1/(math.E-1) - math.Log(1-1/math.E))
	if got := entropy(1000, 1438.776877); math.Abs(got-want) > 1e-5 {
		t.Errorf("entropy is %v, want %v", got, want)
	}
	for _, temperature := range []float64{0, 1e-9, 1} {
		if got := entropy(4300, temperature); !(0 <= got && got <= 1e-300) { // also for NaN
			t.Errorf("entropy at %v K is %v", temperature, got)
		}
	}
}

// What is written of a system is read as the same system: the two ends agree on
// every unit and form.
func TestZpeWrittenInputIsReadAgain(t *testing.T) {
	t.Parallel()
	for _, k := range []KPoints{{}, {Mesh: [3]int{4, 3, 1}, Shift: [3]int{1, 0, 0}}} {
		s := System{
			Cell:    [3][3]float64{{5, 0.1, 0}, {0, 6, 0.2}, {0.3, 0, 7}},
			Species: []Species{{"H1", 2.014, "H.UPF"}, {"O", 15.9994, "O_x-1.UPF"}},
			Atoms:   []Atom{{0, [3]float64{1.123456789, 2, 3}, true}, {1, [3]float64{1, 2, 4.0000000001}, false}},
			KPoints: k, Ecutwfc: 41.5, Ecutrho: 333, ConvThr: 1e-9,
			Options: map[string][]Option{
				"system":    {{"occupations", "'smearing'"}, {"smearing", "'mv'"}, {"degauss", "0.01"}, {"starting_magnetization(2)", "0.5"}},
				"electrons": {{"mixing_beta", "0.3"}},
			},
		}
		text := s.write(s.positions(), true)
		for _, ours := range []string{"  prefix = 'pw'\n", "  outdir = './out'\n", "  pseudo_dir = './pseudo'\n", "  disk_io = 'nowf'\n"} {
			i := len(text)
			text = strings.Replace(text, ours, "", 1)
			if len(text) == i {
				t.Fatalf("there is no %q in %s", ours, text)
			}
		}
		got, err := parseInput(text)
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		got.ConvThr = s.ConvThr // a relaxation has a tighter one
		if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", s) {
			t.Errorf("read\n%+v, wrote\n%+v", got, s)
		}
	}
}
