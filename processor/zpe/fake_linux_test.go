package zpe_test

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// workerEnv makes the test binary run a job, as a worker would, instead of the
// tests. A link to it named pw.x makes it pw.x.
const workerEnv = "ZPE_TEST_WORKER"

func TestMain(m *testing.M) {
	switch {
	case filepath.Base(os.Args[0]) == "pw.x":
		// Not os.Exit, with which the race detector sleeps a second.
		syscall.Exit(fakePwX())
	case os.Getenv(workerEnv) != "":
		testWorker(os.Getenv(workerEnv))
	}
	os.Exit(m.Run())
}

// orders say what the fake pw.x does wrong. They are in the file orders.json
// beside it.
type orders struct {
	At     int    // in which run, from 1; in all if 0 (from which one on: "upgraded")
	Do     string // see fakePwX
	Replay string // prints this file of testdata instead
	Stderr string // and this one
	Crash  string // and leaves this one as CRASH
	Exit   int    // and exits with this
}

// The fake's potential between any two atoms is Morse's, roughly that of H2.
const (
	morseDepth  = 0.34 // Ry
	morseWidth  = 1.02 // 1/bohr
	morseLength = 1.42 // bohr
	fakeBohr    = 0.529177210903
)

// fakePwX prints what pw.x does, of what is parsed.
func fakePwX() int {
	home := filepath.Dir(os.Args[0])
	var o orders
	if text, err := os.ReadFile(filepath.Join(home, "orders.json")); err == nil {
		if err := json.Unmarshal(text, &o); err != nil {
			panic(err)
		}
	}
	text, err := os.ReadFile(os.Args[2])
	if err != nil {
		panic(err)
	}
	run := 0 // that for its version
	if len(text) > 0 {
		run = call(home)
	}
	version := "6.7MaX"
	if o.Do == "upgraded" && run >= o.At {
		version = "7.2"
	}
	if o.Do != "not-pwscf" {
		fmt.Printf("\n     Program PWSCF v.%s starts on 21Nov2026 at  8:59: 9 \n", version)
	}
	if run == 0 {
		return 1
	}
	if o.At != 0 && o.At != run {
		o = orders{}
	}
	if o.Replay != "" {
		return replay(home, o)
	}
	return compute(string(text), o)
}

// call notes that there was a run, and returns which one it is.
func call(home string) int {
	f, err := os.OpenFile(filepath.Join(home, "calls"), os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		panic(err)
	}
	fmt.Fprintln(f, os.Getpid())
	end, err := f.Seek(0, io.SeekCurrent) // of its own line: others may follow already
	if err != nil {
		panic(err)
	}
	text, err := os.ReadFile(f.Name())
	if err != nil {
		panic(err)
	}
	dir, _ := os.Getwd()
	_ = os.WriteFile(filepath.Join(home, "environ"), []byte(dir+"\n"+strings.Join(os.Environ(), "\n")), 0o600)
	return strings.Count(string(text[:end]), "\n")
}

func replay(home string, o orders) int {
	read := func(name string) []byte {
		if name == "" {
			return nil
		}
		text, err := os.ReadFile(filepath.Join(home, "testdata", name))
		if err != nil {
			panic(err)
		}
		return text
	}
	_, _ = os.Stdout.Write(read(o.Replay))
	_, _ = os.Stderr.Write(read(o.Stderr))
	switch {
	case o.Do == "crash-pipe":
		_ = syscall.Mkfifo("CRASH", 0o600)
	case o.Do == "crash-link":
		_ = os.Symlink(filepath.Join(home, "testdata", o.Crash), "CRASH")
	case o.Crash != "":
		_ = os.WriteFile("CRASH", read(o.Crash), 0o600)
	}
	return o.Exit
}

func compute(input string, o orders) int {
	labels, at, fixed := fakeAtoms(input)
	relax := strings.Contains(input, "'relax'")
	sum := "00112233445566778899aabbccddeeff"
	if o.Do != "other-pseudo" {
		sum = fakePseudoMD5
	}
	fmt.Printf("     PseudoPot. # 1 for H  read from file:\n     ./pseudo/H.pbe-kjpaw.UPF\n     MD5 check sum: %s\n", sum)
	for range 100 {
		energy, forces := morse(at)
		most := 0.0
		if o.Do == "saddle" {
			for i := range forces {
				forces[i] = [3]float64{-forces[i][0], -forces[i][1], -forces[i][2]}
			}
		}
		for i := 1; i <= 3; i++ {
			fmt.Printf("     iteration #  %d     ecut=    40.00 Ry     beta= 0.70\n     estimated scf accuracy    <       %.8f Ry\n", i, math.Pow10(-2*i))
			if i == 2 {
				misbehave(o.Do)
			}
		}
		if o.Do != "no-energy" {
			fmt.Printf("!    total energy              =    %14.8f Ry\n", energy-2) // at rest it is not 0
		}
		if o.Do != "no-convergence" {
			fmt.Print("     convergence has been achieved in   3 iterations\n")
		}
		printForces(forces, o.Do)
		for i := range forces {
			for a := range 3 {
				if !fixed[i] {
					most = max(most, math.Abs(forces[i][a]))
				}
			}
		}
		if !relax {
			break
		}
		if o.Do == "bfgs-failed" {
			fmt.Print("     bfgs failed after   4 scf cycles and   3 bfgs steps, convergence not achieved\n")
			break
		}
		if most < 1e-6 {
			fmt.Print("     bfgs converged in   4 scf cycles and   3 bfgs steps\n")
			printFinal(labels, at, o.Do)
			break
		}
		for i := range at {
			for a := range 3 {
				if fixed[i] {
					break
				}
				at[i][a] += forces[i][a] / (4 * morseDepth * morseWidth * morseWidth) * fakeBohr
			}
		}
	}
	_ = os.WriteFile(filepath.Join("out", "rest"), []byte("left behind"), 0o600)
	fmt.Fprintln(os.Stderr, "Note: The following floating-point exceptions are signalling: IEEE_UNDERFLOW_FLAG")
	if o.Do != "no-done" {
		fmt.Print("   JOB DONE.\n")
	}
	return o.Exit
}

func misbehave(how string) {
	switch how {
	case "kill":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	case "hang":
		time.Sleep(time.Hour)
	case "flood":
		for {
			fmt.Println(strings.Repeat("x", 100<<10))
		}
	case "full-disk":
		fmt.Fprintln(os.Stderr, "Fortran runtime error: No space left on device")
		syscall.Exit(2)
	}
}

func printForces(forces [][3]float64, how string) {
	fmt.Print("\n     Forces acting on atoms (cartesian axes, Ry/au):\n\n")
	for i, f := range forces {
		switch {
		case how == "no-forces" && i == 1:
		case how == "stars":
			fmt.Printf("     atom %4d type  1   force =   **************    0.00000000    0.00000000\n", i+1)
		case how == "nan":
			fmt.Printf("     atom %4d type  1   force =              NaN    0.00000000    0.00000000\n", i+1)
		default:
			fmt.Printf("     atom %4d type  1   force = %14.8f%14.8f%14.8f\n", i+1, f[0], f[1], f[2])
		}
	}
}

func printFinal(labels []string, at [][3]float64, how string) {
	fmt.Print("Begin final coordinates\n\nATOMIC_POSITIONS (angstrom)\n")
	for i, p := range at {
		if how != "lost-atom" || i > 0 {
			fmt.Printf("%-4s %20.10f%20.10f%20.10f\n", labels[i], p[0], p[1], p[2])
		}
	}
	fmt.Print("End final coordinates\n")
}

func fakeAtoms(input string) (labels []string, at [][3]float64, fixed []bool) {
	_, rest, _ := strings.Cut(input, "ATOMIC_POSITIONS angstrom\n")
	for line := range strings.Lines(rest) {
		f := strings.Fields(line)
		if len(f) < 4 {
			break
		}
		var p [3]float64
		for a := range 3 {
			x, err := strconv.ParseFloat(f[a+1], 64)
			if err != nil {
				panic(err)
			}
			p[a] = x
		}
		labels, at, fixed = append(labels, f[0]), append(at, p), append(fixed, len(f) == 7)
	}
	return labels, at, fixed
}

// morse returns energy, Ry, and forces, Ry/bohr, of atoms at positions in Å.
func morse(at [][3]float64) (energy float64, forces [][3]float64) {
	forces = make([][3]float64, len(at))
	for i := range at {
		for j := range i {
			var d [3]float64
			r := 0.0
			for a := range 3 {
				d[a] = (at[i][a] - at[j][a]) / fakeBohr
				r += d[a] * d[a]
			}
			r = math.Sqrt(r)
			e := math.Exp(-morseWidth * (r - morseLength))
			energy += morseDepth * (1 - e) * (1 - e)
			slope := 2 * morseDepth * morseWidth * (1 - e) * e
			for a := range 3 {
				forces[i][a] -= slope * d[a] / r
				forces[j][a] += slope * d[a] / r
			}
		}
	}
	return energy, forces
}
