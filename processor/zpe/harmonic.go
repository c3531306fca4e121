package zpe

import (
	"math"
	"slices"
)

// rawHessian returns the matrix of force constants of the mobile atoms in
// Ry/bohr², rows and columns atom by atom, x y z, as the mean of itself and its
// transpose. plus[k] and minus[k] are the forces on all atoms, in Ry/bohr, with
// coordinate k displaced by delta Å up and down.
func rawHessian(mobile []int, plus, minus [][][3]float64, delta float64) [][]float64 {
	n := 3 * len(mobile)
	h := make([][]float64, n)
	for a := range n {
		h[a] = make([]float64, n)
		for b := range n {
			atom, axis := mobile[b/3], b%3
			h[a][b] = -(plus[a][atom][axis] - minus[a][atom][axis]) / (2 * delta / bohr)
		}
	}
	for a := range n {
		for b := range a {
			h[a][b] = (h[a][b] + h[b][a]) / 2
			h[b][a] = h[a][b]
		}
	}
	return h
}

// massWeighted divides a Hessian by the square roots of the masses.
func massWeighted(h [][]float64, weight []float64) [][]float64 {
	w := make([][]float64, len(h))
	for a := range h {
		w[a] = make([]float64, len(h))
		for b := range h {
			w[a][b] = h[a][b] / math.Sqrt(weight[a]*weight[b])
		}
	}
	return w
}

// wavenumbers returns the frequencies of a mass-weighted Hessian in cm-1,
// ascending; imaginary ones as negative numbers.
func wavenumbers(w [][]float64) []float64 {
	const unit = rydberg / (bohr * bohr * 1e-20) / amu // s-2
	freqs, _ := eigen(w)
	for i, v := range freqs {
		nu := math.Sqrt(math.Abs(v)*unit) / (2 * math.Pi * lightCm)
		freqs[i] = math.Copysign(nu, v)
	}
	slices.Sort(freqs)
	return freqs
}

// linearTolerance is the part of a molecule's extent by which its atoms may be
// off a line.
const linearTolerance = 1e-2

// motions returns the mass-weighted motions of a system as a whole, without
// rotations or with: orthonormal, 3 to 6 of them. positions are those of an
// undivided molecule, and masses are in any unit.
func motions(positions [][3]float64, mass []float64, rotations bool) [][]float64 {
	var center [3]float64
	total := 0.0
	for i, p := range positions {
		center = add(center, scale(mass[i], p))
		total += mass[i]
	}
	center = scale(1/total, center)
	var all [][]float64
	for axis := range 3 {
		v := make([]float64, 3*len(positions))
		for i := range positions {
			v[3*i+axis] = math.Sqrt(mass[i])
		}
		all = append(all, v)
	}
	all = orthonormal(all, 0)
	if !rotations {
		return all
	}
	// About the axes of inertia. The axis of a linear molecule must be told from the
	// others: a rotation about it moves nothing.
	var turns [][]float64
	longest := 0.0
	for _, axis := range principalAxes(positions, mass, center) {
		v := make([]float64, 3*len(positions))
		for i, p := range positions {
			turn := scale(math.Sqrt(mass[i]), cross([3]float64(axis), sub(p, center)))
			copy(v[3*i:], turn[:])
		}
		turns = append(turns, v)
		longest = max(longest, math.Sqrt(inner(v, v)))
	}
	for _, v := range turns {
		if math.Sqrt(inner(v, v)) > linearTolerance*longest {
			all = append(all, v)
		}
	}
	return orthonormal(all, 1e-6)
}

// principalAxes returns the axes of inertia.
func principalAxes(positions [][3]float64, mass []float64, center [3]float64) [][]float64 {
	m := [][]float64{make([]float64, 3), make([]float64, 3), make([]float64, 3)}
	for i, p := range positions {
		r := sub(p, center)
		for a := range 3 {
			for b := range 3 {
				m[a][b] -= mass[i] * r[a] * r[b]
			}
			m[a][a] += mass[i] * dot(r, r)
		}
	}
	_, axes := eigen(m)
	return axes
}

// modes returns the wavenumbers without those of the given motions.
func modes(w, motions [][]float64) []float64 {
	if len(motions) > 0 {
		w = inBasis(w, complement(motions, len(w)))
	}
	return wavenumbers(w)
}

// gather returns the positions of the atoms moved by vectors of the lattice so
// that they form one piece, and the longest step between neighbors in it, in Å.
func (s *System) gather(positions [][3]float64) (whole [][3]float64, longest float64) {
	n := len(positions)
	whole = make([][3]float64, n)
	from := make([]int, n)
	step := make([][3]float64, n)
	in := make([]bool, n)
	in[0], whole[0] = true, positions[0]
	images := s.neighbors()
	for i := 1; i < n; i++ {
		step[i] = s.nearest(sub(positions[i], positions[0]), images)
	}
	for range n - 1 {
		next := -1
		for i := range n {
			if !in[i] && (next < 0 || norm(step[i]) < norm(step[next])) {
				next = i
			}
		}
		in[next], whole[next] = true, add(whole[from[next]], step[next])
		longest = max(longest, norm(step[next]))
		for i := range n {
			if in[i] {
				continue
			}
			if d := s.nearest(sub(positions[i], positions[next]), images); norm(d) < norm(step[i]) {
				from[i], step[i] = next, d
			}
		}
	}
	return whole, longest
}

// minVacuum is how far, in Å, a molecule must be from its images to count as one.
const minVacuum = 3.5

// isolated reports whether the atoms, in one piece, are a molecule in a box: far
// from its images, and farther than its atoms are from one another.
func (s *System) isolated(whole [][3]float64, longest float64) bool {
	gap := math.Inf(1)
	for _, r := range s.neighbors() {
		for i := range whole {
			for j := range whole {
				gap = min(gap, norm(add(sub(whole[j], whole[i]), r)))
			}
		}
	}
	return gap >= minVacuum && gap > 1.5*longest
}

// projection decides which motions of the whole are taken out, and returns them.
func (s *System) projection(wish Projection, positions [][3]float64) (Projection, [][]float64) {
	whole, longest := s.gather(positions)
	if wish == ProjectAuto {
		_, fixed := s.mobile()
		switch {
		case len(fixed) > 0:
			wish = ProjectNone
		case s.isolated(whole, longest):
			wish = ProjectMolecule
		default:
			wish = ProjectTranslations
		}
	}
	if wish == ProjectNone {
		return wish, nil
	}
	mass := make([]float64, len(s.Atoms))
	for i, a := range s.Atoms {
		mass[i] = s.Species[a.Species].Mass
	}
	return wish, motions(whole, mass, wish == ProjectMolecule)
}

// entropy returns what a harmonic mode contributes to the entropy, J/(mol K).
func entropy(cm, temperature float64) float64 {
	x := planck * lightCm * cm / (boltzmann * temperature)
	if x > 700 { // exp would overflow; nothing is left of it long before, and at 0 K x is infinite
		return 0
	}
	return gasR * (x/math.Expm1(x) - math.Log(-math.Expm1(-x)))
}
