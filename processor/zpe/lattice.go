package zpe

import (
	"fmt"
	"math"
)

// lattice computes the cell, and the length that pw.x calls alat, in Å.
func (in *input) lattice() (alat float64, err error) {
	ibrav, ok := in.values["ibrav"]
	if !ok {
		return 0, fmt.Errorf("qe_input: ibrav is missing in &system")
	}
	if (ibrav == 0) != in.cards["CELL_PARAMETERS"] {
		return 0, fmt.Errorf("qe_input: CELL_PARAMETERS goes with ibrav = 0, and only with it")
	}
	// Ratios to a as celldm has them, from whichever form was given.
	a, given := in.values["a"]
	if given && in.celldm != [7]float64{} {
		return 0, fmt.Errorf("qe_input: A and celldm are both given in &system")
	}
	b, c := in.values["b"], in.values["c"]
	if !given {
		a = in.celldm[1] * bohr
		b, c = in.celldm[2]*a, in.celldm[3]*a
	}
	if in.celldm[4] != 0 || in.celldm[5] != 0 || in.celldm[6] != 0 {
		return 0, fmt.Errorf("qe_input: celldm(4) to celldm(6) are not allowed: use ibrav = 0")
	}
	need := func(ok bool, what string) error {
		if !ok {
			return fmt.Errorf("qe_input: ibrav = %g needs %s in &system", ibrav, what)
		}
		return nil
	}
	switch ibrav {
	case 0:
		return in.freeLattice(a)
	case 1:
		in.Cell = [3][3]float64{{a, 0, 0}, {0, a, 0}, {0, 0, a}}
		err = need(a > 0, "A or celldm(1)")
	case 2:
		h := a / 2
		in.Cell = [3][3]float64{{-h, 0, h}, {0, h, h}, {-h, h, 0}}
		err = need(a > 0, "A or celldm(1)")
	case 3:
		h := a / 2
		in.Cell = [3][3]float64{{h, h, h}, {-h, h, h}, {-h, -h, h}}
		err = need(a > 0, "A or celldm(1)")
	case 4:
		in.Cell = [3][3]float64{{a, 0, 0}, {-a / 2, a * math.Sqrt(3) / 2, 0}, {0, 0, c}}
		err = need(a > 0 && c > 0, "A and C, or celldm(1) and celldm(3)")
	case 6:
		in.Cell = [3][3]float64{{a, 0, 0}, {0, a, 0}, {0, 0, c}}
		err = need(a > 0 && c > 0, "A and C, or celldm(1) and celldm(3)")
	case 8:
		in.Cell = [3][3]float64{{a, 0, 0}, {0, b, 0}, {0, 0, c}}
		err = need(a > 0 && b > 0 && c > 0, "A, B and C, or celldm(1) to celldm(3)")
	default:
		err = fmt.Errorf("qe_input: ibrav = %g is not allowed: use 0, 1, 2, 3, 4, 6 or 8", ibrav)
	}
	return a, err
}

// freeLattice takes the cell from CELL_PARAMETERS; alat is a, or the length of
// the first vector.
func (in *input) freeLattice(a float64) (alat float64, err error) {
	unit := map[string]float64{"angstrom": 1, "bohr": bohr, "alat": a}[in.cellUnit]
	if unit == 0 {
		return 0, fmt.Errorf("qe_input: CELL_PARAMETERS alat needs A or celldm(1) in &system")
	}
	if in.cellUnit != "alat" && a > 0 {
		return 0, fmt.Errorf("qe_input: A and celldm(1) do not go with CELL_PARAMETERS %s", in.cellUnit)
	}
	for i := range in.cell {
		in.Cell[i] = scale(unit, in.cell[i])
	}
	if in.cellUnit == "alat" {
		return a, nil
	}
	return norm(in.Cell[0]), nil
}
