package zpe_test

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/processor/zpe"
)

// h2 is a payload for two atoms of hydrogen, not at rest.
const h2 = `{"structure":{"cell_angstrom":6.5,"atoms":[
	{"element":"H","position":[3.25,3.25,2.875]},{"element":"H","position":[3.25,3.25,3.625]}]}}`

// bohr3 is the cube of a bohr in Å.
const bohr3 = 0.529177210903 * 0.529177210903 * 0.529177210903

// input is a qe_input as people have them.
const input = `&CONTROL
  calculation = 'scf', tprnfor = .true.
/
&system
  ibrav = 1, celldm(1) = 12.283219,
  nat = 2 ! two
  ntyp = 1
  ecutwfc = 4.0d1
  ecutrho = 200
  occupations = "fixed"
/
&electrons
  conv_thr = 1.d-8
  mixing_beta = 0.5
/
ATOMIC_SPECIES
  H 1.00794 H.pbe-kjpaw.UPF
ATOMIC_POSITIONS {angstrom}
  H 3.25 3.25 2.875 0 0 0
  H 3.25 3.25 3.625
K_POINTS automatic
  2 2 1 0 0 0
`

func fromInput(text string) string { return fmt.Sprintf(`{"qe_input":%q}`, text) }

func TestZpeDefaults(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/h2.json")
	if err != nil {
		t.Fatal(err)
	}
	p, err := zpe.ParsePayload(text)
	if err != nil {
		t.Fatal(err)
	}
	s := p.System
	if p.Delta != 0.01 || !p.Relax || p.Project != zpe.ProjectAuto || p.LowCut != 50 || p.Temperature != 298.15 || p.Timeout != 0 {
		t.Errorf("defaults are %+v", p)
	}
	if s.Ecutwfc != 40 || s.Ecutrho != 200 || s.ConvThr != 1e-8 || s.KPoints.String() != "gamma" {
		t.Errorf("defaults are %+v", s)
	}
	if len(s.Species) != 1 || s.Species[0] != (zpe.Species{Label: "H", Mass: 1.00794, Pseudo: "H.pbe-kjpaw.UPF"}) {
		t.Errorf("species are %+v", s.Species)
	}
}

func TestZpeEcutrhoGrowsWithEcutwfc(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]float64{"30": 200, "60": 300} {
		p, err := zpe.ParsePayload([]byte(strings.Replace(h2, `"cell`, `"ecutwfc":`+given+`,"cell`, 1)))
		if err != nil {
			t.Fatal(err)
		}
		if p.System.Ecutrho != want {
			t.Errorf("ecutrho is %v with an ecutwfc of %s, want %v", p.System.Ecutrho, given, want)
		}
	}
}

func TestZpeInputIsRead(t *testing.T) {
	t.Parallel()
	p, err := zpe.ParsePayload([]byte(strings.TrimSuffix(fromInput(input), "}") + `,"delta":0.02,"relax":false,"project":"none","low_cut_cm":0,"temperature":0,"timeout_s":60}`))
	if err != nil {
		t.Fatal(err)
	}
	s := p.System
	if math.Abs(s.Cell[0][0]-6.5) > 1e-5 || s.Cell[1] != [3]float64{0, s.Cell[0][0], 0} {
		t.Errorf("cell is %v", s.Cell)
	}
	if s.Ecutwfc != 40 || s.KPoints.String() != "2 2 1 0 0 0" || !s.Atoms[0].Fixed || s.Atoms[1].Fixed {
		t.Errorf("got %+v", s)
	}
	if got := fmt.Sprint(s.Options); got != "map[electrons:[{mixing_beta 0.5}] system:[{occupations 'fixed'}]]" {
		t.Errorf("options are %s", got)
	}
	if p.Timeout != time.Minute || p.Relax || p.Delta != 0.02 || p.Project != zpe.ProjectNone {
		t.Errorf("got %+v", p)
	}
}

func TestZpeLattices(t *testing.T) {
	t.Parallel()
	positions := map[string]string{"angstrom": "H 0 0 0\nH 0 0 0.75", "bohr": "H 0 0 0\nH 0 0 1.417294598", "crystal": "H 0 0 0\nH 0 0 0.1", "alat": "H 0 0 0\nH 0 0 0.1"}
	for _, tt := range []struct {
		system, card, unit string
		volume, z          float64
	}{
		{"ibrav=1, A=7.5", "", "crystal", 421.875, 0.75},
		{"ibrav=1, A=7.5", "", "alat", 421.875, 0.75},
		{"ibrav=2, A=10", "", "angstrom", 250, 0.75},
		{"ibrav=3, A=10", "", "angstrom", 500, 0.75},
		{"ibrav=4, A=5, C=7.5", "", "crystal", 5 * 5 * 7.5 * math.Sqrt(3) / 2, 0.75},
		{"ibrav=6, celldm(1)=10, celldm(3)=1.5", "", "bohr", 1500 * bohr3, 0.75},
		{"ibrav=8, A=5, B=6, C=7.5", "", "crystal", 225, 0.75},
		{"ibrav=0", "CELL_PARAMETERS angstrom\n5 0 0\n0 6 0\n0 0 7.5", "crystal", 225, 0.75},
		{"ibrav=0", "CELL_PARAMETERS {bohr}\n10 0 0\n0 10 0\n0 0 15", "bohr", 1500 * bohr3, 0.75},
		{"ibrav=0, A=2.5", "CELL_PARAMETERS alat\n2 0 0\n0 2 0\n0 0 3", "crystal", 187.5, 0.75},
	} {
		text := fmt.Sprintf("&system\n%s, nat=2, ntyp=1, ecutwfc=40, ecutrho=200\n/\nATOMIC_SPECIES\nH 1 H.UPF\nATOMIC_POSITIONS (%s)\n%s\nK_POINTS gamma\n%s\n",
			tt.system, tt.unit, positions[tt.unit], tt.card)
		p, err := zpe.ParsePayload([]byte(fromInput(text)))
		if err != nil {
			t.Errorf("%s: %v", tt.system, err)
			continue
		}
		c := p.System.Cell
		volume := math.Abs(c[0][0]*(c[1][1]*c[2][2]-c[1][2]*c[2][1]) - c[0][1]*(c[1][0]*c[2][2]-c[1][2]*c[2][0]) + c[0][2]*(c[1][0]*c[2][1]-c[1][1]*c[2][0]))
		if math.Abs(volume/tt.volume-1) > 1e-6 || math.Abs(p.System.Atoms[1].Position[2]-tt.z) > 1e-6 {
			t.Errorf("%s, %s: volume %.4f, z %.6f; want %.4f, %.6f", tt.system, tt.unit, volume, p.System.Atoms[1].Position[2], tt.volume, tt.z)
		}
	}
}

func TestZpeBadPayloads(t *testing.T) {
	t.Parallel()
	with := func(extra string) string { return strings.TrimSuffix(h2, "}") + "," + extra + "}" }
	in := func(old, replacement string) string {
		if !strings.Contains(h2, old) {
			t.Fatalf("h2 has no %s", old)
		}
		return strings.Replace(h2, old, replacement, 1)
	}
	tests := []struct{ payload, want string }{
		{``, "payload must be a JSON object"},
		{`[]`, "payload must be a JSON object"},
		{`null`, "payload must be a JSON object"},
		{`{}`, "Missing required field: structure. Either structure or qe_input must be given"},
		{`{"structure"`, "structure is not valid JSON"},
		{h2 + "x", "payload is followed by something else"},
		{"{\"structure\":\"\xff\"}", "payload is not valid UTF-8"},
		{strings.Repeat(" ", zpe.MaxPayload+1), "at most 1048576 are allowed"},
		{strings.Repeat("[", zpe.MaxPayload), "payload must be a JSON object"},
		{`{"structure":` + strings.Repeat("[", zpe.MaxPayload-20), "structure is not valid JSON"},
		{with(`"delta":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000)), "delta must be a number"},
		{with(`"qe_input":""`), "qe_input and structure are both given"},
		{with(`"Delta":0.02`), `"Delta" is not a field of payload: it may have delta, relax, project, low_cut_cm, temperature, timeout_s, mobile_indices, structure, qe_input`},
		{with(`"delta":0.02,"delta":0.03`), "delta is given twice"},
		{with(`"delta":"0.02"`), "delta must be a number"},
		{with(`"delta":null`), "delta must be a number"},
		{with(`"delta":0.2`), "delta is 0.2, but must be from 0.001 to 0.1"},
		{with(`"delta":1e999`), "delta is 1e999, which is no number"},
		{with(`"delta":NaN`), "delta is not valid JSON"},
		{with(`"relax":1`), "relax must be true or false"},
		{with(`"project":"all"`), `project must be "auto"`},
		{with(`"timeout_s":0`), "timeout_s is 0, but must be from 1"},
		{with(`"timeout_s":1.5`), "timeout_s is 1.5, but must be a whole number"},
		{with(`"temperature":-1`), "temperature is -1"},
		{with(`"mobile_indices":0`), "mobile_indices must be an array"},
		{with(`"mobile_indices":[]`), "no atom is mobile"},
		{with(`"mobile_indices":[2]`), "mobile_indices[0] is 2, but must be from 0 to 1"},
		{with(`"mobile_indices":[1,1]`), "mobile_indices[1] is 1, which is given twice"},
		{with(`"mobile_indices":[0],"project":"molecule"`), "1 atoms are fixed"},
		{in(`3.625]`, `3.625],"fixed":true`)[:len(in(`3.625]`, `3.625],"fixed":true`))-1] + `,"mobile_indices":[1]}`, "an atom that structure.atoms fixes"},
		{in(`"cell_angstrom":6.5`, `"cell_angstrom":[6.5,6.5]`), "structure.cell_angstrom has 2 elements, 3 are needed"},
		{in(`"cell_angstrom":6.5`, `"cell_angstrom":0.5`), "0.5 Å long"},
		{in(`"cell_angstrom":6.5`, `"cell_angstrom":[[6,0,0],[0,6,0],[6,6,0]]`), "lie in one plane"},
		{in(`"cell_angstrom":6.5`, `"cell":6.5`), "structure.cell_angstrom is missing"},
		{in(`"element":"H"`, `"element":"Xx"`), "structure.atoms[0].element is \"Xx\", which is not an element"},
		{in(`"element":"H"`, `"element":"O"`), "structure.species.O.pseudo is missing"},
		{in(`[3.25,3.25,2.875]`, `[3.25,3.25]`), "structure.atoms[0].position has 2 elements"},
		{in(`[3.25,3.25,2.875]`, `[3.25,3.25,3.6]`), "atoms 0 and 1 are 0.025 Å apart"},
		{in(`[3.25,3.25,2.875]`, `[3.25,3.25,10.125]`), "atoms 0 and 1 are 0.000 Å apart"},
		{in(`"atoms":[`, `"atoms":[7,`), "structure.atoms[0] must be a JSON object"},
		{in(`"cell`, `"species":{"H":{"pseudo":"../H.UPF"}},"cell`), "structure.species.H.pseudo is ../H.UPF, which is not the name of a file"},
		{in(`"cell`, `"species":{"H":{"pseudo":"H.UPF'\n/"}},"cell`), "which is not the name of a file"},
		{in(`"cell`, `"species":{"O":{"pseudo":"O.UPF"}},"cell`), "structure.species.O: there is no such atom"},
		{in(`"cell`, `"ecutwfc":60,"ecutrho":200,"cell`), "ecutrho is 200 Ry, but must be at least four times"},
		{in(`"cell`, `"kpoints":[0,1,1],"cell`), "structure.kpoints is 0"},
		{in(`"cell`, `"kpoints":[32,32,32],"cell`), "structure.kpoints has 32768 points"},
		{in(`"cell`, `"conv_thr":1e-3,"cell`), "structure.conv_thr is 0.001"},
		{`{"structure":{"cell_angstrom":50,"atoms":[` + strings.TrimSuffix(strings.Repeat(`{"element":"H","position":[0,0,0]},`, 201), ",") + `]}}`, "structure.atoms has 201 elements, at most 200"},
		{`{"structure":{"cell_angstrom":90,"atoms":[` + manyAtoms(51) + `]}}`, "51 atoms are mobile, at most 50"},
	}
	for _, tt := range tests {
		_, err := zpe.ParsePayload([]byte(tt.payload))
		if err == nil || !strings.Contains(err.Error(), tt.want) || len(err.Error()) > 400 {
			t.Errorf("%.200s: got %v, want %q", tt.payload, err, tt.want)
		}
	}
}

func manyAtoms(n int) string {
	var atoms []string
	for i := range n {
		atoms = append(atoms, fmt.Sprintf(`{"element":"H","position":[0,0,%d]}`, i))
	}
	return strings.Join(atoms, ",")
}

func TestZpeHostileInputs(t *testing.T) {
	t.Parallel()
	tests := []struct{ old, replacement, want string }{
		{"tprnfor = .true.", "outdir = '/etc'", "line 2: &control outdir is not allowed: the worker decides where files are"},
		{"tprnfor = .true.", "pseudo_dir='/'", "pseudo_dir is not allowed"},
		{"tprnfor = .true.", "prefix='../../x'", "prefix is not allowed"},
		{"tprnfor = .true.", "wf_collect=.true.", "wf_collect is not allowed"},
		{"tprnfor = .true.", "lelfield=.true.", "lelfield is not allowed"},
		{"'scf'", "'vc-relax'", "&control calculation is vc-relax, but must be one of scf, relax"},
		{"'scf'", "scf", "quotes"},
		{"'scf'", "'scf", "line 2: calculation = 'scf, tprnfor = .true. is not of the form"},
		{"ecutwfc = 4.0d1", "ecutwfc = 4.0d999", "too large a number"},
		{"ecutwfc = 4.0d1", "ecutwfc = NaN", "is NaN, which is not a number"},
		{"ecutwfc = 4.0d1", "ecutwfc = 2*40", "which is not a number"},
		{"ecutwfc = 4.0d1", "ecutwfc = 1d4", "but must be from 5 to 300"},
		{"ecutwfc = 4.0d1", "ecutwfc = 40\n ecutwfc = 40", "&system ecutwfc is given twice"},
		{"ecutwfc = 4.0d1", "", "ecutwfc is missing"},
		{"ecutwfc = 4.0d1", "input_dft = 'x'", "input_dft is not allowed"},
		{"ecutwfc = 4.0d1", "starting_magnetization(2) = 1 ecutwfc=40", "starting_magnetization(2): there are 1 species"},
		{"celldm(1)", "celldm(7)", "celldm(7) needs an index from 1 to 6"},
		{"celldm(1)", "celldm(4)", "celldm(4) to celldm(6) are not allowed"},
		{"celldm(1)", "celldm", "&system celldm needs an index from 1 to 6"},
		{"ecutwfc = 4.0d1", "ecutwfc(1) = 40", "&system ecutwfc(1): ecutwfc has no index"},
		{"ecutwfc = 4.0d1", "starting_magnetization = 1", "starting_magnetization needs an index from 1 to 10"},
		{"ecutwfc = 4.0d1", "starting_magnetization(11) = 1", "starting_magnetization(11) needs an index from 1 to 10"},
		{"ibrav = 1", "ibrav = 5", "ibrav = 5 is not allowed"},
		{"ibrav = 1", "ibrav = 0", "CELL_PARAMETERS goes with ibrav = 0"},
		{"ibrav = 1, celldm(1) = 12.283219,", "ibrav = 1,", "ibrav = 1 needs A or celldm(1)"},
		{"nat = 2", "nat = 3", "card ATOMIC_POSITIONS has a line of 2 fields"},
		{"nat = 2", "nat = 1", "line 20: card H is not allowed"},
		{"nat = 2", "nat = 100000", "but must be from 1 to 200"},
		{"nat = 2 ! two", "", "card ATOMIC_POSITIONS needs nat in &system before it"},
		{"&electrons", "&cell", "namelist &cell is not allowed"},
		{"&electrons", "&system", "namelist &system is given twice"},
		{"&electrons", "electrons", "line 12: card ELECTRONS is not allowed"},
		{"mixing_beta = 0.5\n/", "mixing_beta = 0.5", "is not of the form name = value"},
		{"mixing_beta = 0.5\n/", "mixing_beta = 0.5\n/ &ions", "follows the /"},
		{"mixing_beta = 0.5", "startingpot = 'file'", "startingpot is file"},
		{"H 1.00794 H.pbe-kjpaw.UPF", "H 1.00794 /etc/passwd", "which is not the name of a file"},
		{"H 1.00794 H.pbe-kjpaw.UPF", "H 1.00794 ..", "which is not the name of a file"},
		{"H 1.00794 H.pbe-kjpaw.UPF", "Xx 1.00794 H.UPF", "species Xx: its name must be that of an element"},
		{"H 1.00794 H.pbe-kjpaw.UPF", "H1234 1.00794 H.UPF", "its name must be that of an element"},
		{"H 1.00794 H.pbe-kjpaw.UPF", "H -1 H.UPF", "the mass of species H is -1"},
		{"H 3.25 3.25 2.875 0 0 0", "He 3.25 3.25 2.875", "ATOMIC_SPECIES has no He"},
		{"H 3.25 3.25 2.875 0 0 0", "H 3.25 3.25 2.875 0 1 0", "fixed as a whole"},
		{"H 3.25 3.25 2.875 0 0 0", "H 3.25 3.25 1e5*2", "which is not a number"},
		{"{angstrom}", "", "ATOMIC_POSITIONS needs a unit"},
		{"{angstrom}", "crystal_sg", "ATOMIC_POSITIONS needs a unit"},
		{"automatic\n  2 2 1 0 0 0", "tpiba\n1\n0 0 0 1", "K_POINTS must be gamma or automatic"},
		{"2 2 1 0 0 0", "2 2 1 0 0 2", "shift of 2"},
		{"2 2 1 0 0 0", "2 2 1 0 0", "has a line of 5 fields"},
		{"K_POINTS automatic\n  2 2 1 0 0 0", "", "K_POINTS is missing"},
		{"K_POINTS automatic", "ATOMIC_FORCES\nH 1 1 1\nK_POINTS automatic", "card ATOMIC_FORCES is not allowed"},
	}
	for _, tt := range tests {
		if !strings.Contains(input, tt.old) {
			t.Fatalf("input has no %q", tt.old)
		}
		_, err := zpe.ParsePayload([]byte(fromInput(strings.Replace(input, tt.old, tt.replacement, 1))))
		if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "qe_input: ") {
			t.Errorf("%q: got %v, want %q", tt.replacement, err, tt.want)
		}
	}
}
