package zpe

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/batchfleet/batchfleet/jobs"
)

// The limits of the settings of pw.x.
const (
	minEcutwfc, maxEcutwfc = 5.0, 300.0
	maxEcutrho             = 3000.0
	// A looser threshold would drown the differences of the forces.
	minConvThr, maxConvThr = 1e-14, 1e-6
	maxElectronSteps       = 1000
	maxMesh                = 32
	maxMeshPoints          = 4096
	minMass, maxMass       = 0.5, 400.0
	maxBands               = 5000
)

// setting is what a setting of a namelist may be. Exactly one of its fields
// words, whole, real and flag is set, or none for a setting that is read elsewhere.
type setting struct {
	words   []string // one of these
	real    *[2]float64
	whole   *[2]int
	flag    bool
	indices int  // has an index from 1 to this; 0: it has none
	ignored bool // may be given, but we decide
	ourself bool // read by parseInput, and not passed on as it is
}

func reals(low, high float64) *[2]float64 { return &[2]float64{low, high} }
func wholes(low, high int) *[2]int        { return &[2]int{low, high} }

// allowed lists the settings that may be given in a qe_input. Whatever names a
// file or a directory, or has pw.x compute something else, is not among them.
var allowed = map[string]map[string]setting{
	"control": {
		"calculation":   {words: []string{"scf", "relax"}, ignored: true},
		"restart_mode":  {words: []string{"from_scratch"}, ignored: true},
		"verbosity":     {words: []string{"low", "high", "default", "minimal", "medium"}, ignored: true},
		"tprnfor":       {flag: true, ignored: true},
		"etot_conv_thr": {real: reals(1e-12, 1), ignored: true},
		"forc_conv_thr": {real: reals(1e-12, 1), ignored: true},
		"nstep":         {whole: wholes(1, 10000), ignored: true},
	},
	"system": {
		"ibrav":                  {whole: wholes(0, 14), ourself: true},
		"a":                      {real: reals(0.1, maxCell), ourself: true},
		"b":                      {real: reals(0.1, maxCell), ourself: true},
		"c":                      {real: reals(0.1, maxCell), ourself: true},
		"celldm":                 {real: reals(-1, maxCell/bohr), ourself: true, indices: 6},
		"nat":                    {whole: wholes(1, maxAtoms), ourself: true},
		"ntyp":                   {whole: wholes(1, maxSpecies), ourself: true},
		"ecutwfc":                {real: reals(minEcutwfc, maxEcutwfc), ourself: true},
		"ecutrho":                {real: reals(4*minEcutwfc, maxEcutrho), ourself: true},
		"nbnd":                   {whole: wholes(1, maxBands)},
		"tot_charge":             {real: reals(-20, 20)},
		"tot_magnetization":      {real: reals(0, 1000)},
		"nspin":                  {whole: wholes(1, 2)},
		"starting_magnetization": {real: reals(-1, 1), indices: maxSpecies},
		"occupations":            {words: []string{"fixed", "smearing"}},
		"smearing":               {words: []string{"gaussian", "gauss", "methfessel-paxton", "m-p", "mp", "marzari-vanderbilt", "cold", "m-v", "mv", "fermi-dirac", "f-d", "fd"}},
		"degauss":                {real: reals(0, 1)},
		"nosym":                  {flag: true},
		"noinv":                  {flag: true},
		"vdw_corr":               {words: []string{"none", "grimme-d2", "dft-d", "grimme-d3", "dft-d3"}},
		"dftd3_version":          {whole: wholes(2, 6)},
		"assume_isolated":        {words: []string{"none", "martyna-tuckerman", "m-t", "mt", "makov-payne", "m-p", "mp"}},
	},
	"electrons": {
		"conv_thr":         {real: reals(minConvThr, maxConvThr), ourself: true},
		"electron_maxstep": {whole: wholes(1, maxElectronSteps)},
		"mixing_beta":      {real: reals(0.01, 1)},
		"mixing_mode":      {words: []string{"plain", "TF", "local-TF"}},
		"mixing_ndim":      {whole: wholes(1, 50)},
		"diagonalization":  {words: []string{"david", "cg"}},
		"startingwfc":      {words: []string{"atomic", "atomic+random", "random"}},
		"startingpot":      {words: []string{"atomic"}},
	},
	"ions": {
		"ion_dynamics": {words: []string{"bfgs"}, ignored: true},
	},
}

// why tells what to do about settings that many inputs have.
var why = map[string]string{
	"outdir": "the worker decides where files are; remove it", "wfcdir": "the worker decides where files are; remove it",
	"pseudo_dir": "the worker decides where files are; remove it", "prefix": "the worker decides where files are; remove it",
	"wf_collect": "the worker decides what is kept; remove it", "disk_io": "the worker decides what is kept; remove it",
	"title": "it has no effect; remove it", "max_seconds": "use the payload's timeout_s",
}

// assignment is name = value or name(index) = value in a namelist.
type assignment struct {
	line  int
	name  string // lower case
	index int    // 0 if there is none
	value string // without quotes
	quote bool
}

func (a assignment) String() string {
	if a.index > 0 {
		return fmt.Sprintf("%s(%d)", a.name, a.index)
	}
	return a.name
}

var assigned = jobs.Form(`^\s*([A-Za-z][A-Za-z0-9_]{0,40})\s*(?:\(\s*([0-9]{1,3})\s*\)\s*)?=\s*('[^']*'|"[^"]*"|[^\s,'"!=/]+)\s*(,?)`)

// readAssignments reads one line of a namelist and reports whether the namelist
// ends on it.
func readAssignments(text string, line int, out []assignment) ([]assignment, bool, error) {
	for {
		text = strings.TrimSpace(text)
		switch {
		case text == "" || text[0] == '!':
			return out, false, nil
		case text[0] == '/':
			rest := strings.TrimSpace(text[1:])
			if rest != "" && rest[0] != '!' {
				return nil, false, inputError(line, "%s follows the / that ends the namelist", shorten(rest))
			}
			return out, true, nil
		}
		m := assigned().FindStringSubmatch(text)
		if m == nil {
			return nil, false, inputError(line, "%s is not of the form name = value", shorten(text))
		}
		a := assignment{line: line, name: strings.ToLower(m[1]), value: m[3]}
		if m[2] != "" {
			a.index, _ = strconv.Atoi(m[2]) // digits
			if a.index == 0 {
				return nil, false, inputError(line, "%s(0): indices count from 1", a.name)
			}
		}
		if a.value[0] == '\'' || a.value[0] == '"' {
			a.quote, a.value = true, strings.TrimSpace(a.value[1:len(a.value)-1])
		}
		out = append(out, a)
		text = text[len(m[0]):]
	}
}

func inputError(line int, format string, args ...any) error {
	return fmt.Errorf("qe_input: line %d: %w", line, fmt.Errorf(format, args...))
}

// checked returns the value in the form in which it is passed on to pw.x, if it is
// allowed, and as a number if it is one.
func (a assignment) checked(namelist string) (string, float64, error) {
	where := "&" + namelist + " " + a.String()
	s, ok := allowed[namelist][a.name]
	if !ok {
		reason := "only the settings listed in SPEC.md are"
		if w := why[a.name]; w != "" {
			reason = w
		}
		return "", 0, inputError(a.line, "%s is not allowed: %s", where, reason)
	}
	switch {
	case s.indices == 0 && a.index > 0:
		return "", 0, inputError(a.line, "%s: %s has no index", where, a.name)
	case s.indices > 0 && (a.index == 0 || a.index > s.indices):
		return "", 0, inputError(a.line, "%s needs an index from 1 to %d", where, s.indices)
	}
	text, x, err := s.checked(a.value, a.quote)
	if err != nil {
		return "", 0, inputError(a.line, "%s %w", where, err)
	}
	return text, x, nil
}

func (s setting) checked(value string, quoted bool) (text string, x float64, err error) {
	if (s.words != nil) != quoted {
		return "", 0, fmt.Errorf("is %s, which has quotes where there must be none, or none where there must be", shorten(value))
	}
	switch {
	case s.words != nil:
		i := slices.IndexFunc(s.words, func(w string) bool { return strings.EqualFold(w, value) })
		if i < 0 {
			return "", 0, fmt.Errorf("is %s, but must be one of %s", shorten(value), strings.Join(s.words, ", "))
		}
		return "'" + s.words[i] + "'", 0, nil
	case s.flag:
		switch strings.ToLower(value) {
		case ".true.", "t", ".t.", "true":
			return ".true.", 1, nil
		case ".false.", "f", ".f.", "false":
			return ".false.", 0, nil
		}
		return "", 0, fmt.Errorf("is %s, but only .true. and .false. are allowed", shorten(value))
	case s.whole != nil:
		n, err := strconv.Atoi(value)
		if err != nil {
			return "", 0, fmt.Errorf("is %s, but must be a whole number", shorten(value))
		}
		return strconv.Itoa(n), float64(n), within(float64(n), float64(s.whole[0]), float64(s.whole[1]))
	default:
		x, err := parseFortran(value)
		if err != nil {
			return "", 0, err
		}
		return fortran(x), x, within(x, s.real[0], s.real[1])
	}
}

var fortranNumber = jobs.Form(`^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eEdD][+-]?[0-9]{1,3})?$`)

// parseFortran reads a number as Fortran writes it, with e or d.
func parseFortran(s string) (float64, error) {
	if len(s) > 60 || !fortranNumber().MatchString(s) {
		return 0, fmt.Errorf("is %s, which is not a number", shorten(s))
	}
	x, err := strconv.ParseFloat(strings.NewReplacer("d", "e", "D", "e").Replace(s), 64)
	if err != nil || math.IsInf(x, 0) {
		return 0, fmt.Errorf("is %s, which is too large a number", shorten(s))
	}
	return x, nil
}

// fortran writes a number so that pw.x reads the same one.
func fortran(x float64) string {
	s := strconv.FormatFloat(x, 'g', -1, 64)
	if !strings.ContainsAny(s, ".e") {
		s += ".0"
	}
	return strings.Replace(s, "e", "d", 1)
}

func (k KPoints) check() error {
	for i := range 3 {
		if k.Mesh[i] < 1 || k.Mesh[i] > maxMesh {
			return fmt.Errorf("has %d points on an axis, but must have from 1 to %d", k.Mesh[i], maxMesh)
		}
		if k.Shift[i] != 0 && k.Shift[i] != 1 {
			return fmt.Errorf("has a shift of %d, but must have 0 or 1", k.Shift[i])
		}
	}
	if n := k.Mesh[0] * k.Mesh[1] * k.Mesh[2]; n > maxMeshPoints {
		return fmt.Errorf("has %d points, at most %d are allowed", n, maxMeshPoints)
	}
	return nil
}
