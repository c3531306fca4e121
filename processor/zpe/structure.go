package zpe

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
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
	s.Cell = vital(o, "cell_angstrom", parseCell)
	s.KPoints = field(o, "kpoints", KPoints{}, parseKPoints)
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
		if sp.Label != "H" && (!cutoffs || !density) {
			return System{}, fmt.Errorf("structure.ecutwfc and structure.ecutrho are needed with %s: there are defaults for hydrogen only", sp.Label)
		}
	}
	return s, s.check("structure")
}

func (s *System) set(namelist, name, value string) {
	s.Options[namelist] = append(s.Options[namelist], Option{name, value})
}

// parseCell reads a length, three lengths or three vectors.
func parseCell(v json.RawMessage) (cell [3][3]float64, err error) {
	if l, err := jsonList(v, 3); err == nil && len(l) == 3 && l[0][0] == '[' {
		return jsonThree(v, func(v json.RawMessage) ([3]float64, error) { return jsonVector(v, maxCell) })
	}
	var abc [3]float64
	if v[0] == '[' {
		abc, err = jsonVector(v, maxCell)
	} else {
		abc[0], err = jsonNumber(v, -math.MaxFloat64, math.MaxFloat64)
		abc[1], abc[2] = abc[0], abc[0]
	}
	return [3][3]float64{{abc[0], 0, 0}, {0, abc[1], 0}, {0, 0, abc[2]}}, err
}

// parseKPoints reads "gamma" or a mesh [4,4,1].
func parseKPoints(v json.RawMessage) (k KPoints, err error) {
	if string(v) == `"gamma"` {
		return k, nil
	}
	k.Mesh, err = jsonThree(v, func(v json.RawMessage) (int, error) { return jsonWhole(v, 1, maxMesh) })
	if err == nil {
		err = k.check()
	}
	if err != nil {
		err = fmt.Errorf(`%w; "gamma" or three whole numbers are allowed`, err)
	}
	return k, err
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
		sp := Species{Label: name, Pseudo: one.text("pseudo", "", 80), Mass: one.number("mass", masses[name], minMass, maxMass)}
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
	a.Position = vital(o, "position", func(v json.RawMessage) ([3]float64, error) { return jsonVector(v, 10*maxCell) })
	if err := o.end(); err != nil {
		return err
	}
	a.Species = slices.IndexFunc(s.Species, func(sp Species) bool { return sp.Label == element })
	if a.Species < 0 {
		sp, ok := species[element]
		if !ok {
			sp = Species{Label: element, Mass: masses[element]}
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
