package zpe

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// The defaults for hydrogen. They are measured ones: with lower cutoffs the
// frequency of H2 is off by more than one percent.
const (
	hydrogenPseudo = "H.pbe-kjpaw.UPF"
	defaultEcutwfc = 40
	defaultEcutrho = 200
	defaultConvThr = 1e-8
)

// parseStructure reads the field structure of a payload.
func parseStructure(text json.RawMessage) (System, error) {
	o := readObject("structure", text)
	s := System{Options: map[string][]Option{}}
	if v, ok := o.take("cell_angstrom"); ok {
		var err error
		if s.Cell, err = parseCell(v); err != nil {
			o.fail("cell_angstrom", "%v", err)
		}
	} else {
		o.fail("cell_angstrom", "is missing")
	}
	s.KPoints = o.kpoints("kpoints")
	_, cutoffs := o.fields["ecutwfc"]
	_, density := o.fields["ecutrho"]
	s.Ecutwfc = o.number("ecutwfc", defaultEcutwfc, minEcutwfc, maxEcutwfc)
	s.Ecutrho = o.number("ecutrho", max(defaultEcutrho, 5*s.Ecutwfc), 4*minEcutwfc, maxEcutrho)
	s.ConvThr = o.number("conv_thr", defaultConvThr, minConvThr, maxConvThr)
	if n := o.whole("electron_maxstep", 0, 1, maxElectronSteps); n > 0 {
		s.set("electrons", "electron_maxstep", fmt.Sprint(n))
	}
	if x := o.number("mixing_beta", 0, 0.01, 1); x > 0 {
		s.set("electrons", "mixing_beta", fortran(x))
	}
	species := o.species("species")
	atoms := o.list("atoms", maxAtoms)
	if err := o.end(); err != nil {
		return System{}, err
	}
	if len(atoms) == 0 {
		return System{}, errors.New("structure.atoms is missing or empty")
	}
	for i, v := range atoms {
		if err := s.addAtom(fmt.Sprintf("structure.atoms[%d]", i), v, species); err != nil {
			return System{}, err
		}
	}
	for name := range species {
		if !slices.ContainsFunc(s.Species, func(sp Species) bool { return sp.Label == name }) {
			return System{}, fmt.Errorf("structure.species.%s: there is no such atom", name)
		}
	}
	for _, sp := range s.Species {
		if sp.Element != "H" && (!cutoffs || !density) {
			return System{}, fmt.Errorf("structure.ecutwfc and structure.ecutrho are needed with %s: there are defaults for hydrogen only", sp.Element)
		}
	}
	return s, s.check("structure")
}

func (s *System) set(namelist, name, value string) {
	s.Options[namelist] = append(s.Options[namelist], Option{name, value})
}

// parseCell reads a length, three lengths or three vectors.
func parseCell(v json.RawMessage) (cell [3][3]float64, err error) {
	if v[0] != '[' {
		a, err := jsonNumber(v)
		return [3][3]float64{{a, 0, 0}, {0, a, 0}, {0, 0, a}}, err
	}
	l, err := jsonList(v, 3)
	if err != nil || len(l) != 3 || l[0][0] != '[' {
		abc, err := jsonVector(v, maxCell)
		return [3][3]float64{{abc[0], 0, 0}, {0, abc[1], 0}, {0, 0, abc[2]}}, err
	}
	for i := range l {
		if cell[i], err = jsonVector(l[i], maxCell); err != nil {
			return cell, err
		}
	}
	return cell, nil
}

// kpoints reads "gamma" or a mesh [4,4,1].
func (o *object) kpoints(field string) (k KPoints) {
	v, ok := o.take(field)
	if !ok || string(v) == `"gamma"` {
		return k
	}
	l, err := jsonList(v, 3)
	if err == nil && len(l) != 3 {
		err = fmt.Errorf("has %d elements, 3 are needed", len(l))
	}
	for i := range l {
		if err == nil {
			k.Mesh[i], err = jsonWhole(l[i], 1, maxMesh)
		}
	}
	if err == nil {
		err = k.check()
	}
	if err != nil {
		o.fail(field, `%v; "gamma" or three whole numbers are allowed`, err)
	}
	return k
}

// species reads an object of species by element, each with the fields pseudo and
// mass.
func (o *object) species(field string) map[string]Species {
	v, ok := o.take(field)
	if !ok {
		return nil
	}
	all := readObject("structure.species", v)
	species := map[string]Species{}
	for _, name := range all.order {
		if masses[name] == 0 {
			all.fail(name, "is not an element")
			break
		}
		text, _ := all.take(name)
		one := readObject("structure.species."+name, text)
		sp := Species{Label: name, Element: name, Pseudo: one.text("pseudo", "", 80), Mass: one.number("mass", masses[name], minMass, maxMass)}
		if sp.Pseudo != "" && !pseudoName().MatchString(sp.Pseudo) {
			one.fail("pseudo", "is %s, which is not the name of a file: letters, digits and . _ + - only", shorten(sp.Pseudo))
		}
		if err := one.end(); err != nil {
			o.err = err
			return nil
		}
		species[name] = sp
	}
	if err := all.end(); err != nil && o.err == nil {
		o.err = err
	}
	return species
}

func (s *System) addAtom(where string, v json.RawMessage, species map[string]Species) error {
	o := readObject(where, v)
	element := o.text("element", "", 40)
	if masses[element] == 0 {
		o.fail("element", "is %q, which is not an element", shorten(element))
	}
	a := Atom{Fixed: o.flag("fixed", false)}
	if p, ok := o.take("position"); ok {
		var err error
		if a.Position, err = jsonVector(p, 10*maxCell); err != nil {
			o.fail("position", "%v", err)
		}
	} else {
		o.fail("position", "is missing")
	}
	if err := o.end(); err != nil {
		return err
	}
	a.Species = slices.IndexFunc(s.Species, func(sp Species) bool { return sp.Label == element })
	if a.Species < 0 {
		sp, ok := species[element]
		if !ok {
			sp = Species{Label: element, Element: element, Mass: masses[element]}
		}
		if sp.Pseudo == "" && element == "H" {
			sp.Pseudo = hydrogenPseudo
		}
		if sp.Pseudo == "" {
			return fmt.Errorf("structure.species.%s.pseudo is missing: there is a default pseudopotential for hydrogen only", element)
		}
		if len(s.Species) == maxSpecies {
			return fmt.Errorf("structure.atoms has more than %d elements", maxSpecies)
		}
		a.Species = len(s.Species)
		s.Species = append(s.Species, sp)
	}
	s.Atoms = append(s.Atoms, a)
	return nil
}
