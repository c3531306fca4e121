package zpe

import (
	"fmt"
	"math"
	"os"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
)

// Document is the content of result.json. Its JSON, in full, is what an agent
// sends to a gateway.
type Document struct {
	Result      Result `json:"result"`
	SummaryText string `json:"summary_text"`
	FreqsCSV    string `json:"freqs_csv"`
	Meta        Meta   `json:"meta"`
}

// Meta is where and when a result was made. It is not part of what makes two
// results the same.
type Meta struct {
	WorkerHostname string  `json:"worker_hostname"`
	Seconds        float64 `json:"computation_time_seconds"` // of the attempt that stored it
	QEVersion      string  `json:"qe_version"`
	Timestamp      string  `json:"timestamp"` // RFC 3339, UTC
}

// Result is what was computed; SPEC.md describes the fields.
type Result struct {
	SchemaVersion     int            `json:"schema_version"`
	InputSHA256       string         `json:"input_sha256"` // of the payload's text
	ZPE               float64        `json:"zpe_ev"`
	Entropy           float64        `json:"s_vib_jmol_k"`
	Temperature       float64        `json:"temperature"`
	Freqs             []float64      `json:"freqs_cm"`
	Counted           int            `json:"modes_counted"`
	Imaginary         []float64      `json:"imaginary_cm"`
	Project           Projection     `json:"project"`
	Projected         int            `json:"projected"`
	LowCut            float64        `json:"low_cut_cm"`
	LowCutApplied     bool           `json:"low_cut_applied"`
	UnprojectedFreqs  []float64      `json:"freqs_unprojected_cm"`
	UnprojectedZPE    float64        `json:"zpe_unprojected_ev"`
	Mobile            []int          `json:"mobile_indices"`
	Fixed             []int          `json:"fixed_indices"`
	Delta             float64        `json:"delta"`
	Relaxed           bool           `json:"relaxed"`
	Energy            *float64       `json:"energy_ry"`
	MaxForce          float64        `json:"max_force_ry_per_bohr"`
	PositionsAngstrom [][3]float64   `json:"positions_angstrom"`
	KPoints           [3]int         `json:"kpoints"`
	Ecutwfc           float64        `json:"ecutwfc"`
	Ecutrho           float64        `json:"ecutrho"`
	QEInput           string         `json:"qe_input"`
	Pseudos           []ResultPseudo `json:"pseudopotentials"`
	Runs              int            `json:"runs"`
	Elapsed           float64        `json:"elapsed_seconds"`
	Warnings          []string       `json:"warnings"`
}

// ResultPseudo is a pseudopotential that was used.
type ResultPseudo struct {
	File string `json:"file"`
	MD5  string `json:"md5"`
}

// largeForce is the force, in Ry/bohr, above which a structure is not taken for
// one at rest: pw.x's own default for a relaxation.
const largeForce = 1e-3

// document makes the result out of all that was computed.
func (a *attempt) document(rest checkpoint, moved []displaced) Document {
	s := &a.System
	mobile, fixed := s.mobile()
	r := Result{
		SchemaVersion: 1, InputSHA256: payloadDigest(a.job), Temperature: a.Temperature, LowCut: a.LowCut,
		Mobile: mobile, Fixed: fixed, Delta: a.Delta, Relaxed: a.Relax, PositionsAngstrom: rest.Positions,
		KPoints: s.KPoints.Mesh, Ecutwfc: s.Ecutwfc, Ecutrho: s.Ecutrho, QEInput: s.write(rest.Positions, false),
		Runs: a.runs, Elapsed: rest.Seconds, Warnings: []string{},
	}
	if r.KPoints == [3]int{} {
		r.KPoints = [3]int{1, 1, 1}
	}
	if a.Relax {
		r.Energy = &rest.Energy
	}
	for _, p := range a.found {
		r.Pseudos = append(r.Pseudos, ResultPseudo{p.name, p.md5})
	}
	var plus, minus [][][3]float64
	for _, m := range moved {
		plus, minus = append(plus, m.plus.Forces), append(minus, m.minus.Forces)
		r.Elapsed += m.plus.Seconds + m.minus.Seconds
	}
	r.Elapsed = round(r.Elapsed, 3)
	r.MaxForce = restForce(mobile, plus, minus)
	if a.Relax {
		r.MaxForce = largest(mobile, rest.Forces)
	}
	r.MaxForce = round(r.MaxForce, 8)
	weights := make([]float64, 0, 3*len(mobile))
	for _, i := range mobile {
		m := s.Species[s.Atoms[i].Species].Mass
		weights = append(weights, m, m, m)
	}
	hessian := massWeighted(rawHessian(mobile, plus, minus, a.Delta), weights)
	project, whole := s.projection(a.Project, rest.Positions)
	r.Project, r.Projected = project, len(whole)
	r.LowCutApplied = project != ProjectMolecule
	r.Freqs, r.UnprojectedFreqs = modes(hessian, whole), modes(hessian, nil)
	r.sum()
	hostname, _ := os.Hostname() // or nothing
	return Document{
		Result: r, SummaryText: r.summary(), FreqsCSV: r.csv(),
		Meta: Meta{
			WorkerHostname: hostname, Seconds: round(time.Since(a.began).Seconds(), 3),
			QEVersion: a.qe, Timestamp: time.Now().UTC().Format(time.RFC3339),
		},
	}
}

// restForce returns the largest component of the force on a mobile atom at rest,
// Ry/bohr. The mean of what a displacement up and one down have yielded is that
// force and a part of second order, so the smallest mean of each component counts.
func restForce(mobile []int, plus, minus [][][3]float64) float64 {
	most := 0.0
	for _, i := range mobile {
		for axis := range 3 {
			least := math.Inf(1)
			for k := range plus {
				least = min(least, math.Abs(plus[k][i][axis]+minus[k][i][axis])/2)
			}
			most = max(most, least)
		}
	}
	return most
}

// largest returns the largest component of the forces on some atoms.
func largest(atoms []int, forces [][3]float64) float64 {
	most := 0.0
	for _, i := range atoms {
		for _, f := range forces[i] {
			most = max(most, math.Abs(f))
		}
	}
	return most
}

// The kinds of modes.
const (
	vibration   = "vibration" // counted
	belowLowCut = "below_low_cut"
	imaginary   = "imaginary"
)

func (r *Result) kind(cm float64) string {
	switch {
	case cm <= 0:
		return imaginary
	case r.LowCutApplied && cm <= r.LowCut:
		return belowLowCut
	}
	return vibration
}

// sum rounds the frequencies and fills in what follows from them. A mode is what
// its rounded frequency makes it, which is all that the result shows.
func (r *Result) sum() {
	r.Imaginary = []float64{}
	for i, cm := range r.Freqs {
		r.Freqs[i] = round(cm, 4)
		switch r.kind(r.Freqs[i]) {
		case vibration:
			r.ZPE += cm * cmToEV / 2
			r.Entropy += entropy(cm, r.Temperature)
			r.Counted++
		case imaginary:
			r.Imaginary = append(r.Imaginary, r.Freqs[i])
		}
	}
	for i, cm := range r.UnprojectedFreqs {
		r.UnprojectedFreqs[i] = round(cm, 4)
		if r.UnprojectedFreqs[i] > r.LowCut {
			r.UnprojectedZPE += cm * cmToEV / 2
		}
	}
	r.ZPE, r.UnprojectedZPE, r.Entropy = round(r.ZPE, 7), round(r.UnprojectedZPE, 7), round(r.Entropy, 5)
	if n := len(r.Imaginary); n > 0 && r.Imaginary[0] < -r.LowCut {
		r.Warnings = append(r.Warnings, fmt.Sprintf("%s %s imaginary and not counted: the structure is not at a minimum", jobs.Count(n, "mode"), jobs.Are(n)))
	}
	if r.MaxForce > largeForce {
		r.Warnings = append(r.Warnings, fmt.Sprintf("a force of %.2g Ry/bohr is left on the structure: the frequencies are not those of one at rest", r.MaxForce))
	}
}

// csv lists the modes.
func (r *Result) csv() string {
	var b strings.Builder
	b.WriteString("mode,frequency_cm,zpe_ev,kind\n")
	for i, cm := range r.Freqs {
		energy := 0.0
		if r.kind(cm) == vibration {
			energy = cm * cmToEV / 2
		}
		fmt.Fprintf(&b, "%d,%.4f,%.7f,%s\n", i+1, cm, energy, r.kind(cm))
	}
	return b.String()
}

// summary is the result for people.
func (r *Result) summary() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Zero-point energy: %.4f eV, from %d of %d modes\n", r.ZPE, r.Counted, len(r.Freqs))
	fmt.Fprintf(&b, "Vibrational entropy at %g K: %.3f J/(mol K)\n", r.Temperature, r.Entropy)
	fmt.Fprintf(&b, "Without projection, modes above %g cm-1: %.4f eV\n", r.LowCut, r.UnprojectedZPE)
	fmt.Fprintf(&b, "Projection: %s, %s taken out\n", r.Project, jobs.Count(r.Projected, "motion"))
	fmt.Fprintf(&b, "Atoms: %d mobile, %d fixed, displaced by %g Angstrom in %s of pw.x\n", len(r.Mobile), len(r.Fixed), r.Delta, jobs.Count(r.Runs, "run"))
	b.WriteString("Frequencies (cm-1):\n")
	for i, cm := range r.Freqs {
		note := ""
		if k := r.kind(cm); k != vibration {
			note = "  " + k
		}
		fmt.Fprintf(&b, "%5d %12.2f%s\n", i+1, cm, note)
	}
	for _, w := range r.Warnings {
		fmt.Fprintf(&b, "Warning: %s\n", w)
	}
	return b.String()
}

func round(x float64, digits int) float64 {
	p := math.Pow10(digits)
	return math.Round(x*p)/p + 0 // no minus zero
}
