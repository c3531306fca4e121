package zpe

import (
	"fmt"
	"math"

	"github.com/batchfleet/batchfleet/jobs"
)

// The limits of what is computed.
const (
	maxAtoms   = 200
	maxMobile  = 50 // 300 displaced runs
	maxSpecies = 10 // pw.x's ntypx
	maxCell    = 100.0
	minGap     = 0.3 // Å between two atoms; pw.x takes less than 1e-3 bohr for an overlap
)

// System is what pw.x is asked to compute: lengths in Å, energies in Ry.
type System struct {
	Cell    [3][3]float64 // lattice vectors
	Species []Species
	Atoms   []Atom
	KPoints KPoints
	// Options are further settings by namelist, of those that are allowed.
	Options map[string][]Option
	Ecutwfc float64
	Ecutrho float64
	ConvThr float64 // of a displaced run
}

// Species is a kind of atom.
type Species struct {
	Label  string
	Mass   float64 // atomic mass units
	Pseudo string  // name of a file
}

// Atom is one atom at a cartesian position.
type Atom struct {
	Species  int // index
	Position [3]float64
	Fixed    bool
}

// KPoints is a mesh of Monkhorst and Pack; the Gamma point alone when Mesh is
// zero.
type KPoints struct {
	Mesh, Shift [3]int
}

// String returns the mesh as the card of pw.x has it: "gamma" or "4 4 1 0 0 0".
func (k KPoints) String() string {
	if k.Mesh == [3]int{} {
		return "gamma"
	}
	return fmt.Sprintf("%d %d %d %d %d %d", k.Mesh[0], k.Mesh[1], k.Mesh[2], k.Shift[0], k.Shift[1], k.Shift[2])
}

// Option is a setting of pw.x in the form it has in a namelist.
type Option struct{ Name, Value string }

// pseudoName is what a file with a pseudopotential may be called. It names a file
// in the directory of the worker, so it has no separators and no leading dot.
var pseudoName = jobs.Form(`^[A-Za-z0-9][A-Za-z0-9._+-]{0,79}$`)

// labelName is what pw.x may be given as the name of a species.
var labelName = jobs.Form(`^[A-Za-z]{1,2}([0-9]|[_-][A-Za-z0-9])?$`)

// check finds what the parsers of single values cannot see. The error names the
// field at fault below where, which is structure or qe_input.
func (s *System) check(where string) error {
	volume := math.Abs(dot(s.Cell[0], cross(s.Cell[1], s.Cell[2])))
	for _, v := range s.Cell {
		if l := norm(v); !(1 <= l && l <= maxCell) {
			return fmt.Errorf("%s: a vector of the cell is %.4g Å long, but must be from 1 to %g Å", where, l, maxCell)
		}
	}
	if volume < 1 {
		return fmt.Errorf("%s: the cell has a volume of %.3g Å³: its vectors lie in one plane", where, volume)
	}
	if s.Ecutrho < 4*s.Ecutwfc*(1-1e-9) {
		return fmt.Errorf("%s: ecutrho is %g Ry, but must be at least four times ecutwfc, %g Ry", where, s.Ecutrho, 4*s.Ecutwfc)
	}
	images := s.neighbors()
	for i := range s.Atoms {
		for j := range i {
			if d := norm(s.nearest(sub(s.Atoms[j].Position, s.Atoms[i].Position), images)); d < minGap {
				return fmt.Errorf("%s: atoms %d and %d are %.3f Å apart, but at least %g Å are needed (atoms count from 0)", where, j, i, d, minGap)
			}
		}
	}
	return nil
}

// nearest returns the shortest of the vectors that differ from v by a vector of
// the lattice. It looks at the neighbors of the cell that v is reduced to, which
// is enough for cells that are not extremely oblique. images are those neighbors, so
// that a caller with many vectors makes them once.
func (s *System) nearest(v [3]float64, images [][3]float64) [3]float64 {
	f := s.fractional(v)
	for i := range f {
		f[i] -= math.Round(f[i])
	}
	reduced := s.cartesian(f)
	best := reduced
	shortest := dot(best, best)
	for _, r := range images {
		w := add(reduced, r)
		if square := dot(w, w); square < shortest {
			best, shortest = w, square
		}
	}
	return best
}

// neighbors returns the 26 vectors of the lattice to the neighbors of a cell.
func (s *System) neighbors() [][3]float64 {
	var all [][3]float64
	for a := -1.0; a <= 1; a++ {
		for b := -1.0; b <= 1; b++ {
			for c := -1.0; c <= 1; c++ {
				if a != 0 || b != 0 || c != 0 {
					all = append(all, s.cartesian([3]float64{a, b, c}))
				}
			}
		}
	}
	return all
}

// cartesian turns multiples of the lattice vectors into Å.
func (s *System) cartesian(f [3]float64) [3]float64 {
	return add(add(scale(f[0], s.Cell[0]), scale(f[1], s.Cell[1])), scale(f[2], s.Cell[2]))
}

// fractional is the inverse of cartesian.
func (s *System) fractional(v [3]float64) [3]float64 {
	bc, ca, ab := cross(s.Cell[1], s.Cell[2]), cross(s.Cell[2], s.Cell[0]), cross(s.Cell[0], s.Cell[1])
	volume := dot(s.Cell[0], bc)
	return [3]float64{dot(v, bc) / volume, dot(v, ca) / volume, dot(v, ab) / volume}
}

// mobile returns the indices of the atoms that are not fixed, and fixed those of
// the others.
func (s *System) mobile() (mobile, fixed []int) {
	mobile, fixed = []int{}, []int{}
	for i, a := range s.Atoms {
		if a.Fixed {
			fixed = append(fixed, i)
		} else {
			mobile = append(mobile, i)
		}
	}
	return mobile, fixed
}

func add(a, b [3]float64) [3]float64 { return [3]float64{a[0] + b[0], a[1] + b[1], a[2] + b[2]} }
func sub(a, b [3]float64) [3]float64 { return add(a, scale(-1, b)) }
func dot(a, b [3]float64) float64    { return a[0]*b[0] + a[1]*b[1] + a[2]*b[2] }
func norm(a [3]float64) float64      { return math.Sqrt(dot(a, a)) }
func scale(k float64, a [3]float64) [3]float64 {
	return [3]float64{k * a[0], k * a[1], k * a[2]}
}

func cross(a, b [3]float64) [3]float64 {
	return [3]float64{a[1]*b[2] - a[2]*b[1], a[2]*b[0] - a[0]*b[2], a[0]*b[1] - a[1]*b[0]}
}
