package zpe

import "strings"

// masses are standard atomic weights, in atomic mass units; where IUPAC gives an
// interval, the conventional value or one within it. Hydrogen's is the value that
// the examples of Quantum ESPRESSO use.
var masses = map[string]float64{
	"H": 1.00794, "He": 4.002602,
	"Li": 6.941, "Be": 9.012183, "B": 10.811, "C": 12.0107, "N": 14.0067, "O": 15.9994, "F": 18.998403, "Ne": 20.1797,
	"Na": 22.989769, "Mg": 24.305, "Al": 26.981538, "Si": 28.0855, "P": 30.973762, "S": 32.065, "Cl": 35.453, "Ar": 39.948,
	"K": 39.0983, "Ca": 40.078, "Sc": 44.955908, "Ti": 47.867, "V": 50.9415, "Cr": 51.9961, "Mn": 54.938044, "Fe": 55.845,
	"Co": 58.933194, "Ni": 58.6934, "Cu": 63.546, "Zn": 65.38, "Ga": 69.723, "Ge": 72.63, "As": 74.921595, "Se": 78.971,
	"Br": 79.904, "Kr": 83.798,
	"Rb": 85.4678, "Sr": 87.62, "Y": 88.90584, "Zr": 91.224, "Nb": 92.90637, "Mo": 95.95, "Tc": 98, "Ru": 101.07,
	"Rh": 102.9055, "Pd": 106.42, "Ag": 107.8682, "Cd": 112.414, "In": 114.818, "Sn": 118.71, "Sb": 121.76, "Te": 127.6,
	"I": 126.90447, "Xe": 131.293,
	"Cs": 132.90545, "Ba": 137.327, "La": 138.90547, "Ce": 140.116, "Pr": 140.90766, "Nd": 144.242, "Pm": 145, "Sm": 150.36,
	"Eu": 151.964, "Gd": 157.25, "Tb": 158.92535, "Dy": 162.5, "Ho": 164.93033, "Er": 167.259, "Tm": 168.93422,
	"Yb": 173.045, "Lu": 174.9668, "Hf": 178.49, "Ta": 180.94788, "W": 183.84, "Re": 186.207, "Os": 190.23, "Ir": 192.217,
	"Pt": 195.084, "Au": 196.96657, "Hg": 200.592, "Tl": 204.3833, "Pb": 207.2, "Bi": 208.9804, "Po": 209, "At": 210,
	"Rn": 222,
}

// elementOf returns the element that a label of Quantum ESPRESSO's names: H, H1,
// h2, Fe_up, Fe-a; "" if none.
func elementOf(label string) string {
	letters := label
	if i := strings.IndexAny(label, "0123456789_-"); i >= 0 {
		letters = label[:i]
	}
	if letters == "" || len(letters) > 2 {
		return ""
	}
	element := strings.ToUpper(letters[:1]) + strings.ToLower(letters[1:])
	if masses[element] == 0 {
		return ""
	}
	return element
}
