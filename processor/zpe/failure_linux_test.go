package zpe_test

import (
	"strings"
	"testing"
)

// Every row of the table of ends in SPEC.md, as Debian's pw.x 6.7 has printed it.
func TestZpeRecordedEnds(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		o      orders
		code   string
		final  bool
		text   string
		detail string
	}{
		{
			"SCF cycle that does not converge",
			orders{Replay: "noconv.out", Exit: 2},
			"QE_NOT_CONVERGED", true, "mixing_beta", "convergence NOT achieved after   3 iterations: stopping",
		},
		{
			"relaxation that does not converge",
			orders{Replay: "nstep.out", Exit: 3},
			"QE_NOT_CONVERGED", true, "relax", "The maximum number of steps has been reached.",
		},
		{"out of time by its own clock", orders{Replay: "maxsec.out", Exit: 255}, "QE_RUNTIME_ERROR", false, "pw.x exited with code 255", ""},
		{"asked to stop by a file", orders{Replay: "exit.out", Exit: 255}, "QE_RUNTIME_ERROR", false, "pw.x exited with code 255", ""},
		{
			"missing pseudopotential",
			orders{Replay: "nopseudo.out", Stderr: "mpiabort.stderr", Crash: "nopseudo.crash", Exit: 1},
			"QE_INPUT_ERROR", true, "file /usr/share/espresso/pseudo/H.nope.UPF not found", "from readpp : error #         1",
		},
		{
			"unknown keyword",
			orders{Replay: "badkey.out", Stderr: "mpiabort.stderr", Exit: 1},
			"QE_INPUT_ERROR", true, `bad line in namelist &system: "  ecutfwc=40"`, "MPI_ABORT was invoked",
		},
		{"missing atom", orders{Replay: "noatom.out", Exit: 1}, "QE_INPUT_ERROR", true, "pw.x refused the input: ", ""},
		{"empty input", orders{Replay: "empty.out", Exit: 1}, "QE_INPUT_ERROR", true, "could not find namelist &control", ""},
		{"overlapping atoms", orders{Replay: "overlap.out", Exit: 1}, "QE_INPUT_ERROR", true, "pw.x refused the input: ", ""},
		{"out directory that cannot be made", orders{Replay: "unwritable.out", Exit: 1}, "QE_RUNTIME_ERROR", false, "temporary directory", ""},
		{"memory refused", orders{Replay: "memory.out", Stderr: "memory.stderr", Exit: 1}, "QE_OUT_OF_MEMORY", false, "memory", "Error allocating"},
		{"exit code without a word", orders{Exit: 1}, "QE_RUNTIME_ERROR", false, "pw.x exited with code 1", ""},
		{"relaxation that gives up", orders{Do: "bfgs-failed"}, "QE_NOT_CONVERGED", true, "relax", ""},
		{"killed", orders{Do: "kill"}, "QE_RUNTIME_ERROR", false, "pw.x was ended by signal 9 (killed)", ""},
		{"line without end", orders{Do: "flood"}, "QE_RUNTIME_ERROR", false, "pw.x wrote more than", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := fakeHandler(t, tt.o)
			message, detail := mustFail(t, h, h2, tt.code, tt.final, tt.text)
			if !strings.Contains(detail, tt.detail) || !strings.Contains(detail, "relaxation") {
				t.Errorf("detail is %q, want the run and %q in it", detail, tt.detail)
			}
			if (strings.HasPrefix(tt.text, "pw.x exited") || strings.HasPrefix(tt.text, "pw.x was ended")) && message != tt.text {
				t.Errorf("message is %q, want exactly %q", message, tt.text)
			}
			wantEmpty(t, h.WorkDir)
		})
	}
}

// Whatever pw.x has left as CRASH, the slot goes on and no other file is sent.
func TestZ82CrashThatIsNoRegularFileIsNotRead(t *testing.T) {
	t.Parallel()
	for _, do := range []string{"crash-pipe", "crash-link"} {
		t.Run(do, func(t *testing.T) {
			h := fakeHandler(t, orders{Do: do, Replay: "empty.out", Crash: "nopseudo.crash", Exit: 1})
			_, detail := mustFail(t, h, h2, "QE_INPUT_ERROR", true, "could not find namelist &control")
			if strings.Contains(detail, "readpp") || !strings.Contains(detail, "namelist") {
				t.Errorf("detail is %q, want the last lines of pw.x", detail)
			}
		})
	}
}

// Exit code 0 is not success, and neither is JOB DONE.
func TestZ82ExitWithoutResultIsIncomplete(t *testing.T) {
	t.Parallel()
	for do, text := range map[string]string{
		"no-done":        "did not say JOB DONE",
		"no-energy":      "no final energy",
		"no-convergence": "convergence",
		"no-forces":      "forces of all 2 atoms",
		"stars":          "**************",
		"nan":            "NaN",
		"lost-atom":      "final positions of 1 atoms instead of 2",
	} {
		t.Run(do, func(t *testing.T) {
			h := fakeHandler(t, orders{Do: do})
			mustFail(t, h, h2, "QE_INCOMPLETE", false, text)
		})
	}
}

func TestZpeOtherPseudopotentialIsNoticed(t *testing.T) {
	t.Parallel()
	h := fakeHandler(t, orders{Do: "other-pseudo"})
	mustFail(t, h, h2, "PSEUDO_MISSING", false, "another pseudopotential H.pbe-kjpaw.UPF")
}
