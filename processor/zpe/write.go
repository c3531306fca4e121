package zpe

import (
	"fmt"
	"strings"
)

// The thresholds of a relaxation. The force left over shifts the frequencies of
// hindered rotations, so it is a hundredth of pw.x's default.
const (
	relaxConvThr  = 1e-10
	relaxForceThr = 1e-5 // Ry/bohr
	relaxTotalThr = 1e-8 // Ry
	relaxSteps    = 100
)

// The places of a run's files, below the directory it runs in, so that an input
// is the same on every machine.
const (
	inputFile = "pw.in"
	outDir    = "out"
	pseudoDir = "pseudo"
)

// write returns the input of pw.x for one run, with the atoms at the given
// positions.
func (s *System) write(positions [][3]float64, relax bool) string {
	var b strings.Builder
	calculation, convThr := "scf", s.ConvThr
	if relax {
		calculation, convThr = "relax", min(s.ConvThr, relaxConvThr)
	}
	fmt.Fprintf(&b, "&control\n  calculation = '%s'\n  prefix = 'pw'\n  outdir = './%s'\n  pseudo_dir = './%s'\n", calculation, outDir, pseudoDir)
	fmt.Fprintf(&b, "  disk_io = 'nowf'\n  tprnfor = .true.\n")
	if relax {
		fmt.Fprintf(&b, "  nstep = %d\n  forc_conv_thr = %s\n  etot_conv_thr = %s\n", relaxSteps, fortran(relaxForceThr), fortran(relaxTotalThr))
	}
	fmt.Fprintf(&b, "/\n&system\n  ibrav = 0\n  nat = %d\n  ntyp = %d\n  ecutwfc = %s\n  ecutrho = %s\n", len(s.Atoms), len(s.Species), fortran(s.Ecutwfc), fortran(s.Ecutrho))
	writeOptions(&b, s.Options["system"])
	fmt.Fprintf(&b, "/\n&electrons\n  conv_thr = %s\n", fortran(convThr))
	writeOptions(&b, s.Options["electrons"])
	b.WriteString("/\n")
	if relax {
		b.WriteString("&ions\n  ion_dynamics = 'bfgs'\n/\n")
	}
	b.WriteString("CELL_PARAMETERS angstrom\n")
	for _, v := range s.Cell {
		fmt.Fprintf(&b, "  %.12f %.12f %.12f\n", v[0], v[1], v[2])
	}
	b.WriteString("ATOMIC_SPECIES\n")
	for _, sp := range s.Species {
		fmt.Fprintf(&b, "  %s %s %s\n", sp.Label, fortran(sp.Mass), sp.Pseudo)
	}
	b.WriteString("ATOMIC_POSITIONS angstrom\n")
	for i, a := range s.Atoms {
		p := positions[i]
		fmt.Fprintf(&b, "  %s %.10f %.10f %.10f", s.Species[a.Species].Label, p[0], p[1], p[2])
		if relax && a.Fixed {
			b.WriteString(" 0 0 0")
		}
		b.WriteByte('\n')
	}
	if s.KPoints.Mesh == [3]int{} {
		b.WriteString("K_POINTS gamma\n")
	} else {
		fmt.Fprintf(&b, "K_POINTS automatic\n  %s\n", s.KPoints)
	}
	return b.String()
}

func writeOptions(b *strings.Builder, options []Option) {
	for _, o := range options {
		fmt.Fprintf(b, "  %s = %s\n", o.Name, o.Value)
	}
}

// positions returns where the atoms are.
func (s *System) positions() [][3]float64 {
	all := make([][3]float64, len(s.Atoms))
	for i, a := range s.Atoms {
		all[i] = a.Position
	}
	return all
}
