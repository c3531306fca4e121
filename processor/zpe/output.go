package zpe

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/batchfleet/batchfleet/jobs"
)

// output is what matters of what pw.x prints on stdout. Lines are added one by one, as
// they come.
//
// That pw.x exits with 0 and prints "JOB DONE." does not mean that it has
// computed anything; see missing.
type output struct {
	atoms   int  // in the input
	relax   bool // whether atoms move
	version string
	pseudos []readPseudo

	iteration int    // of the SCF cycle under way, from 1
	shown     string // how far the cycle is, for people; changes once an iteration
	cycles    int    // SCF cycles that have ended

	converged    bool // the last cycle
	notConverged bool // one of them, and pw.x has stopped
	energy       float64
	hasEnergy    bool
	forces       [][3]float64 // of the last cycle, Ry/bohr
	hasForce     []bool
	relaxed      bool // the relaxation has ended as it should
	outOfSteps   bool
	gaveUp       bool         // the relaxation found no way down
	final        [][3]float64 // positions after a relaxation, Å
	done         bool

	said    []string // the last lines with content, maxSaid at most
	message []string // of the block between the lines of %
	bad     string   // the first line that should have had a number and had none

	state outputState
}

// readPseudo is a pseudopotential as pw.x has found it.
type readPseudo struct{ path, md5 string }

type outputState uint8

const (
	anywhere outputState = iota
	pseudoPath
	pseudoMD5
	finalBlock
	finalPositions
	inMessage
)

// maxSaid bounds the last lines of pw.x that are kept: a failure's traceback.
const maxSaid = 20

// maxMessage bounds the lines kept of a message of pw.x.
const maxMessage = 20

// line takes one line. It reports whether it was progress that is worth showing.
func (o *output) line(text []byte) bool {
	s := string(bytes.TrimRight(text, " \t\r"))
	trimmed := strings.TrimSpace(s)
	o.note(trimmed)
	if strings.HasPrefix(trimmed, "%%%%") {
		if o.state == inMessage {
			o.state = anywhere
		} else {
			o.state, o.message = inMessage, o.message[:0]
		}
		return false
	}
	switch o.state {
	case inMessage:
		if len(o.message) < maxMessage {
			o.message = append(o.message, shortLine(trimmed))
		}
		return false
	case pseudoPath:
		o.state = pseudoMD5
		o.pseudos = append(o.pseudos, readPseudo{path: shortLine(trimmed)})
		return false
	case pseudoMD5:
		o.state = anywhere
		if sum, ok := strings.CutPrefix(trimmed, "MD5 check sum:"); ok {
			o.pseudos[len(o.pseudos)-1].md5 = shortLine(strings.TrimSpace(sum))
		}
		return false
	case finalBlock, finalPositions:
		o.finalLine(trimmed)
		return false
	case anywhere:
	}
	return o.plainLine(s, trimmed)
}

// note keeps a line for people, but for what every run ends with: how long its
// routines took, and that it is done.
func (o *output) note(trimmed string) {
	switch {
	case strings.Trim(trimmed, "=-%") == "", strings.Contains(trimmed, " CPU ") && strings.Contains(trimmed, " WALL"),
		strings.HasPrefix(trimmed, "Called by "), trimmed == "General routines", trimmed == "Parallel routines",
		strings.HasPrefix(trimmed, "This run was terminated on"), trimmed == "JOB DONE.":
		return
	}
	if len(o.said) == maxSaid {
		o.said = append(o.said[:0], o.said[1:]...)
	}
	o.said = append(o.said, shortLine(trimmed))
}

// last returns the last lines with content.
func (o *output) last() string { return strings.Join(o.said, "\n") }

// shortLine bounds what is kept of a line.
func shortLine(s string) string { return jobs.Clip(s, 300, "") }

func (o *output) plainLine(s, trimmed string) bool {
	switch {
	case s == "":
	case s[0] == '!':
		o.finalEnergy(trimmed)
	case strings.HasPrefix(trimmed, "Program PWSCF v."):
		o.version, _, _ = strings.Cut(shortLine(trimmed[len("Program PWSCF v."):]), " ")
	case strings.HasPrefix(trimmed, "PseudoPot. #"):
		if len(o.pseudos) < maxSpecies {
			o.state = pseudoPath
		}
	case strings.HasPrefix(trimmed, "iteration #"):
		return o.startIteration(trimmed)
	case strings.HasPrefix(trimmed, "estimated scf accuracy"):
		return o.endIteration(trimmed)
	case strings.HasPrefix(trimmed, "convergence has been achieved"):
		o.converged = true
	case strings.HasPrefix(trimmed, "convergence NOT achieved"):
		o.notConverged = true
	case strings.HasPrefix(trimmed, "Forces acting on atoms"):
		o.forces, o.hasForce = make([][3]float64, o.atoms), make([]bool, o.atoms)
	case strings.HasPrefix(trimmed, "atom ") && strings.Contains(trimmed, "force ="):
		o.force(trimmed)
	case strings.HasPrefix(trimmed, "bfgs converged in"):
		o.relaxed = true
	case strings.HasPrefix(trimmed, "bfgs failed after"):
		o.gaveUp = true
	case strings.HasPrefix(trimmed, "The maximum number of steps has been reached"):
		o.outOfSteps = true
	case strings.HasPrefix(trimmed, "Begin final coordinates"):
		o.state, o.final = finalBlock, nil
	case trimmed == "JOB DONE.":
		o.done = true
	}
	return false
}

// startIteration begins a cycle with its first iteration: whatever was computed
// for the atoms before they moved counts no longer.
func (o *output) startIteration(trimmed string) bool {
	n, _ := numberAfter(trimmed, "#")
	if n == 1 {
		o.converged, o.hasEnergy, o.forces, o.hasForce = false, false, nil, nil
		o.shown = ""
	}
	if n >= 1 && n < 1e6 {
		o.iteration = int(n)
	}
	return true
}

func (o *output) endIteration(trimmed string) bool {
	o.shown = fmt.Sprintf("SCF iteration %d", o.iteration)
	if accuracy, ok := numberAfter(trimmed, "<"); ok {
		o.shown += fmt.Sprintf(", accuracy %.1e Ry", accuracy)
	}
	return true
}

// progress tells how far a run is.
func (o *output) progress() string {
	shown := o.shown
	if shown == "" {
		shown = "SCF iteration 1"
	}
	if o.relax {
		return fmt.Sprintf("step %d, %s", o.cycles+1, shown)
	}
	return shown
}

func (o *output) finalEnergy(trimmed string) {
	if !strings.Contains(trimmed, "total energy") {
		return
	}
	e, ok := numberAfter(trimmed, "=")
	if !ok {
		o.fail(trimmed)
		return
	}
	o.energy, o.hasEnergy = e, true
	o.cycles++
}

func (o *output) force(trimmed string) {
	if len(o.hasForce) == 0 {
		return
	}
	head, tail, _ := strings.Cut(trimmed, "force =")
	f := strings.Fields(tail)
	numbers := strings.Fields(head)
	n, err := strconv.Atoi(numbers[min(1, len(numbers)-1)])
	if err != nil || n < 1 || n > o.atoms || len(f) != 3 {
		o.fail(trimmed)
		return
	}
	if o.hasForce[n-1] { // with verbosity = high, the contributions follow
		return
	}
	for i := range 3 {
		x, ok := finite(f[i])
		if !ok {
			o.fail(trimmed)
			return
		}
		o.forces[n-1][i] = x
	}
	o.hasForce[n-1] = true
}

func (o *output) finalLine(trimmed string) {
	switch {
	case strings.HasPrefix(trimmed, "End final coordinates"):
		o.state = anywhere
	case strings.HasPrefix(trimmed, "ATOMIC_POSITIONS"):
		o.state = finalPositions
		if !strings.Contains(trimmed, "angstrom") {
			o.fail(trimmed)
		}
	case o.state == finalPositions && trimmed != "":
		f := strings.Fields(trimmed)
		var p [3]float64
		for i := range 3 {
			var ok bool
			if len(f) > i+1 {
				p[i], ok = finite(f[i+1])
			}
			if !ok {
				o.fail(trimmed)
				return
			}
		}
		if len(o.final) <= o.atoms {
			o.final = append(o.final, p)
		}
	}
}

func (o *output) fail(line string) {
	if o.bad == "" {
		o.bad = shortLine(line)
	}
}

// missing returns an error for what a run that has exited with 0 did not print; nil if
// nothing is missing.
func (o *output) missing() error {
	switch {
	case o.bad != "":
		return fmt.Errorf("pw.x printed a line that cannot be read: %q", o.bad)
	case !o.hasEnergy:
		return errors.New("pw.x exited with code 0 but printed no final energy")
	case !o.converged:
		return errors.New("pw.x exited with code 0 but did not say that convergence has been achieved")
	case len(o.hasForce) != o.atoms || slices.Contains(o.hasForce, false):
		return fmt.Errorf("pw.x exited with code 0 but did not print the forces of all %d atoms", o.atoms)
	case o.relax && !o.relaxed:
		return errors.New("pw.x exited with code 0 but did not say that the relaxation has converged")
	case o.relax && len(o.final) != o.atoms:
		return fmt.Errorf("pw.x exited with code 0 but printed final positions of %d atoms instead of %d", len(o.final), o.atoms)
	case !o.done:
		return errors.New("pw.x exited with code 0 but did not say JOB DONE")
	}
	return nil
}

// errorText returns the message of the block between the lines of %, without the
// line that names a routine; "" if there is none.
func (o *output) errorText() string {
	if len(o.message) > 1 && strings.HasPrefix(o.message[0], "Error in routine") {
		return strings.Join(o.message[1:], " ")
	}
	return strings.Join(o.message, " ")
}

// numberAfter returns the first number after mark.
func numberAfter(s, mark string) (float64, bool) {
	_, rest, ok := strings.Cut(s, mark)
	f := strings.Fields(rest)
	if !ok || len(f) == 0 {
		return 0, false
	}
	return finite(f[0])
}

func finite(s string) (float64, bool) {
	x, err := strconv.ParseFloat(s, 64)
	return x, err == nil && !math.IsNaN(x) && !math.IsInf(x, 0)
}
