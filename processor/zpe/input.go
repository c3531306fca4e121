package zpe

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// input is a qe_input while it is being read.
type input struct {
	System
	lines  []string
	next   int // index of the next line
	values map[string]float64
	celldm [7]float64
	cards  map[string]bool
	// What can be converted only when all of the text has been read.
	cell      [3][3]float64
	cellUnit  string
	posUnit   string
	positions []rawAtom
}

type rawAtom struct {
	line     int
	label    string
	position [3]float64
	fixed    bool
}

// parseInput reads an input of pw.x into what is to be computed. The text may be
// hostile: what is not on the list of what is allowed is refused, and nothing of
// it is passed on but numbers, words from a list, and names that match a pattern.
func parseInput(text string) (System, error) {
	in := &input{
		System: System{ConvThr: defaultConvThr, Options: map[string][]Option{}},
		lines:  strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n"),
		values: map[string]float64{}, cards: map[string]bool{},
	}
	for {
		line, ok := in.line()
		if !ok {
			break
		}
		var err error
		if name, isNamelist := strings.CutPrefix(line, "&"); isNamelist {
			err = in.namelist(name)
		} else {
			err = in.card(line)
		}
		if err != nil {
			return System{}, err
		}
	}
	if err := in.finish(); err != nil {
		return System{}, err
	}
	return in.System, in.check("qe_input")
}

// line returns the next line that is not empty and no comment.
func (in *input) line() (string, bool) {
	for in.next < len(in.lines) {
		line := strings.TrimSpace(in.lines[in.next])
		in.next++
		if i := strings.IndexAny(line, "!#"); i >= 0 && !strings.HasPrefix(line, "&") {
			line = strings.TrimSpace(line[:i])
		}
		if line != "" {
			return line, true
		}
	}
	return "", false
}

// errorf returns an error at the line read last.
func (in *input) errorf(format string, args ...any) error {
	return inputError(in.next, format, args...)
}

func (in *input) namelist(head string) error {
	name, rest, _ := strings.Cut(head, " ")
	name = strings.ToLower(strings.TrimSpace(name))
	if allowed[name] == nil {
		return in.errorf("namelist &%s is not allowed: only &control, &system, &electrons and &ions are", shorten(name))
	}
	if in.cards["&"+name] {
		return in.errorf("namelist &%s is given twice", name)
	}
	in.cards["&"+name] = true
	var all []assignment
	for {
		var ended bool
		var err error
		if all, ended, err = readAssignments(rest, in.next, all); err != nil {
			return err
		}
		if ended {
			break
		}
		if in.next == len(in.lines) {
			return in.errorf("namelist &%s has no / at its end", name)
		}
		rest = in.lines[in.next]
		in.next++
	}
	seen := map[string]bool{}
	for _, a := range all {
		value, x, err := a.checked(name)
		if err != nil {
			return err
		}
		if seen[a.String()] {
			return inputError(a.line, "&%s %s is given twice", name, a)
		}
		seen[a.String()] = true
		switch s := allowed[name][a.name]; {
		case s.ourself && a.index > 0:
			in.celldm[a.index] = x
		case s.ourself:
			in.values[a.name] = x
		case !s.ignored:
			in.set(name, a.String(), value)
		}
	}
	return nil
}

func (in *input) card(line string) error {
	name, unit := line, ""
	if i := strings.IndexAny(line, " \t({"); i >= 0 {
		name, unit = line[:i], strings.ToLower(strings.Trim(line[i:], " \t(){}"))
	}
	name = strings.ToUpper(name)
	read := map[string]func(unit string) error{
		"ATOMIC_SPECIES": in.readSpecies, "ATOMIC_POSITIONS": in.readPositions,
		"K_POINTS": in.readKPoints, "CELL_PARAMETERS": in.readCell,
	}[name]
	if read == nil {
		return in.errorf("card %s is not allowed: only ATOMIC_SPECIES, ATOMIC_POSITIONS, K_POINTS and CELL_PARAMETERS are", shorten(name))
	}
	if in.cards[name] {
		return in.errorf("card %s is given twice", name)
	}
	in.cards[name] = true
	return read(unit)
}

// row returns the fields of the next line of a card, which must have low to high
// fields.
func (in *input) row(card string, low, high int) ([]string, error) {
	line, ok := in.line()
	f := strings.Fields(line)
	if !ok || len(f) < low || len(f) > high {
		return nil, in.errorf("card %s has a line of %d fields where %d are needed", card, len(f), low)
	}
	return f, nil
}

// count returns a whole number that &system must have given before a card.
func (in *input) count(card, name string) (int, error) {
	n := int(in.values[name])
	if n == 0 {
		return 0, in.errorf("card %s needs %s in &system before it", card, name)
	}
	return n, nil
}

func (in *input) vector(fields []string) (v [3]float64, err error) {
	for i := range v {
		if v[i], err = parseFortran(fields[i]); err == nil {
			err = within(v[i], -1e5, 1e5)
		}
		if err != nil {
			return v, in.errorf("a number %w", err)
		}
	}
	return v, nil
}

func (in *input) readSpecies(string) error {
	n, err := in.count("ATOMIC_SPECIES", "ntyp")
	if err != nil {
		return err
	}
	for range n {
		f, err := in.row("ATOMIC_SPECIES", 3, 3)
		if err != nil {
			return err
		}
		sp := Species{Label: f[0], Pseudo: f[2]}
		if elementOf(sp.Label) == "" || !labelName().MatchString(sp.Label) {
			return in.errorf("species %s: its name must be that of an element, with at most a digit, or _ or - and one letter or digit", shorten(sp.Label))
		}
		if in.species(sp.Label) >= 0 {
			return in.errorf("species %s is given twice", sp.Label)
		}
		if sp.Mass, err = parseFortran(f[1]); err == nil {
			err = within(sp.Mass, minMass, maxMass)
		}
		if err != nil {
			return in.errorf("the mass of species %s %w", sp.Label, err)
		}
		if !pseudoName().MatchString(sp.Pseudo) {
			return in.errorf("the pseudopotential of species %s is %s, which is not the name of a file: letters, digits and . _ + - only", sp.Label, shorten(sp.Pseudo))
		}
		in.Species = append(in.Species, sp)
	}
	return nil
}

func (in *input) species(label string) int {
	return slices.IndexFunc(in.Species, func(sp Species) bool { return sp.Label == label })
}

func (in *input) readPositions(unit string) error {
	if !slices.Contains([]string{"angstrom", "bohr", "crystal", "alat"}, unit) {
		return in.errorf("ATOMIC_POSITIONS needs a unit: angstrom, bohr, crystal or alat")
	}
	in.posUnit = unit
	n, err := in.count("ATOMIC_POSITIONS", "nat")
	if err != nil {
		return err
	}
	for range n {
		f, err := in.row("ATOMIC_POSITIONS", 4, 7)
		if err != nil {
			return err
		}
		a := rawAtom{line: in.next, label: f[0]}
		if a.position, err = in.vector(f[1:]); err != nil {
			return err
		}
		switch strings.Join(f[4:], " ") {
		case "", "1 1 1":
		case "0 0 0":
			a.fixed = true
		default:
			return in.errorf("an atom must be fixed as a whole (0 0 0) or not at all (1 1 1)")
		}
		in.positions = append(in.positions, a)
	}
	return nil
}

func (in *input) readKPoints(unit string) error {
	if unit == "gamma" {
		return nil
	}
	if unit != "automatic" {
		return in.errorf("K_POINTS must be gamma or automatic")
	}
	f, err := in.row("K_POINTS", 6, 6)
	if err != nil {
		return err
	}
	for i := range f {
		n, err := strconv.Atoi(f[i])
		if err != nil {
			return in.errorf("K_POINTS: %s is not a whole number", shorten(f[i]))
		}
		if i < 3 {
			in.KPoints.Mesh[i] = n
		} else {
			in.KPoints.Shift[i-3] = n
		}
	}
	if err := in.KPoints.check(); err != nil {
		return in.errorf("K_POINTS %w", err)
	}
	return nil
}

func (in *input) readCell(unit string) error {
	if !slices.Contains([]string{"angstrom", "bohr", "alat"}, unit) {
		return in.errorf("CELL_PARAMETERS needs a unit: angstrom, bohr or alat")
	}
	in.cellUnit = unit
	for i := range in.cell {
		f, err := in.row("CELL_PARAMETERS", 3, 3)
		if err != nil {
			return err
		}
		if in.cell[i], err = in.vector(f); err != nil {
			return err
		}
	}
	return nil
}

// finish puts together what the text has said in whatever order.
func (in *input) finish() error {
	for _, need := range []string{"&system", "ATOMIC_SPECIES", "ATOMIC_POSITIONS", "K_POINTS"} {
		if !in.cards[need] {
			return fmt.Errorf("qe_input: %s is missing", need)
		}
	}
	var ok bool
	if in.Ecutwfc, ok = in.values["ecutwfc"]; !ok {
		return fmt.Errorf("qe_input: ecutwfc is missing in &system")
	}
	if in.Ecutrho, ok = in.values["ecutrho"]; !ok {
		in.Ecutrho = 4 * in.Ecutwfc // pw.x's default
	}
	if x, ok := in.values["conv_thr"]; ok {
		in.ConvThr = x
	}
	for _, options := range in.Options["system"] {
		if strings.HasPrefix(options.Name, "starting_magnetization(") {
			var n int
			if _, err := fmt.Sscanf(options.Name, "starting_magnetization(%d)", &n); err != nil || n > len(in.Species) {
				return fmt.Errorf("qe_input: &system %s: there are %d species", options.Name, len(in.Species))
			}
		}
	}
	alat, err := in.lattice()
	if err != nil {
		return err
	}
	used := make([]bool, len(in.Species))
	for _, raw := range in.positions {
		a := Atom{Species: in.species(raw.label), Fixed: raw.fixed}
		if a.Species < 0 {
			return inputError(raw.line, "ATOMIC_SPECIES has no %s", shorten(raw.label))
		}
		used[a.Species] = true
		switch in.posUnit {
		case "angstrom":
			a.Position = raw.position
		case "bohr":
			a.Position = scale(bohr, raw.position)
		case "alat":
			a.Position = scale(alat, raw.position)
		case "crystal":
			a.Position = in.cartesian(raw.position)
		}
		for _, x := range a.Position {
			if math.Abs(x) > 10*maxCell {
				return inputError(raw.line, "an atom is %.4g Å from the origin, at most %g are allowed", x, 10*maxCell)
			}
		}
		in.Atoms = append(in.Atoms, a)
	}
	if i := slices.Index(used, false); i >= 0 {
		return fmt.Errorf("qe_input: there is no atom of species %s", in.Species[i].Label)
	}
	return nil
}
