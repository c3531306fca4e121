package zpe

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"
)

// MaxPayload is the longest payload in bytes.
const MaxPayload = 1 << 20

// maxInput is the longest qe_input in bytes.
const maxInput = 256 << 10

// Payload is what a job asks for; SPEC.md describes its JSON.
type Payload struct {
	System      System
	Delta       float64 // Å
	Relax       bool
	Project     Projection
	LowCut      float64       // cm-1
	Temperature float64       // K
	Timeout     time.Duration // for an attempt; 0 for none of its own
}

// Projection is which motions of the whole system are taken out before the
// modes are computed.
type Projection string

// The projections. Auto is the choice among the others, by the fixed atoms and
// the space around the rest.
const (
	ProjectAuto         Projection = "auto"
	ProjectMolecule     Projection = "molecule"     // translations and rotations
	ProjectTranslations Projection = "translations" // of a crystal
	ProjectNone         Projection = "none"
)

// ParsePayload reads the payload of a job. It refuses what is not exactly as
// SPEC.md has it, with one error that names the field. It does no I/O.
func ParsePayload(text []byte) (Payload, error) {
	switch {
	case len(text) > MaxPayload:
		return Payload{}, fmt.Errorf("payload is %d bytes long, at most %d are allowed", len(text), MaxPayload)
	case !utf8.Valid(text):
		return Payload{}, errors.New("payload is not valid UTF-8")
	}
	o := readObject("", text)
	p := Payload{
		Delta:       o.number("delta", 0.01, 0.001, 0.1),
		Relax:       o.flag("relax", true),
		Project:     Projection(o.text("project", string(ProjectAuto), 20)),
		LowCut:      o.number("low_cut_cm", 50, 0, 1000),
		Temperature: o.number("temperature", 298.15, 0, 5000),
		Timeout:     time.Duration(o.whole("timeout_s", 0, 1, 30*24*3600)) * time.Second,
	}
	if !slices.Contains([]Projection{ProjectAuto, ProjectMolecule, ProjectTranslations, ProjectNone}, p.Project) {
		o.fail("project", `must be "auto", "molecule", "translations" or "none"`)
	}
	_, mobileGiven := o.fields["mobile_indices"]
	mobile := o.list("mobile_indices", maxAtoms)
	_, inputGiven := o.fields["qe_input"]
	structure, structureGiven := o.take("structure")
	qe := o.text("qe_input", "", maxInput)
	if err := o.end(); err != nil {
		return Payload{}, err
	}
	var err error
	switch {
	case inputGiven && structureGiven:
		err = errors.New("qe_input and structure are both given, but only one of them may be")
	case inputGiven:
		p.System, err = parseInput(qe)
	case structureGiven:
		p.System, err = parseStructure(structure)
	default:
		err = errors.New("Missing required field: structure. Either structure or qe_input must be given") //nolint:staticcheck // the gateway's wording
	}
	if err == nil && mobileGiven {
		err = p.System.setMobile(mobile, inputGiven)
	}
	if err == nil {
		err = p.check()
	}
	if err != nil {
		return Payload{}, err
	}
	return p, nil
}

// setMobile fixes all atoms but the given ones.
func (s *System) setMobile(list []json.RawMessage, fromInput bool) error {
	mobile := map[int]bool{}
	for i, v := range list {
		n, err := jsonWhole(v, 0, len(s.Atoms)-1)
		if err != nil {
			return fmt.Errorf("mobile_indices[%d] %w (atoms count from 0)", i, err)
		}
		if mobile[n] {
			return fmt.Errorf("mobile_indices[%d] is %d, which is given twice", i, n)
		}
		if s.Atoms[n].Fixed {
			where := "structure.atoms"
			if fromInput {
				where = "qe_input"
			}
			return fmt.Errorf("mobile_indices[%d] is %d, an atom that %s fixes", i, n, where)
		}
		mobile[n] = true
	}
	for i := range s.Atoms {
		s.Atoms[i].Fixed = !mobile[i]
	}
	return nil
}

// check finds what does not go together.
func (p *Payload) check() error {
	mobile, fixed := p.System.mobile()
	switch {
	case len(mobile) == 0:
		return errors.New("mobile_indices: no atom is mobile, so nothing vibrates")
	case len(mobile) > maxMobile:
		return fmt.Errorf("mobile_indices: %d atoms are mobile, at most %d are allowed", len(mobile), maxMobile)
	case len(fixed) > 0 && (p.Project == ProjectMolecule || p.Project == ProjectTranslations):
		return fmt.Errorf("project is %q, but %d atoms are fixed: a fixed atom keeps the others from moving as a whole", p.Project, len(fixed))
	}
	return nil
}
