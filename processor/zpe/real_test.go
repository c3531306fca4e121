package zpe_test

import (
	"math"
	"os"
	"os/exec"
	"testing"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/processor/zpe"
)

// espresso is where Debian's package quantum-espresso-data has its
// pseudopotentials.
const espresso = "/usr/share/espresso/pseudo"

// realHandler returns a handler with the real pw.x. Where there is none, the test
// is skipped, but in CI fails.
func realHandler(t *testing.T) *zpe.Handler {
	t.Helper()
	path := tool(t, "pw.x")
	h := newHandler(t, path)
	h.PseudoDir = espresso
	return h
}

func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("%v: install quantum-espresso and quantum-espresso-data", err)
		}
		t.Skipf("%v", err)
	}
	return path
}

func TestZ77RealH2(t *testing.T) {
	h := realHandler(t)
	payload, err := os.ReadFile("testdata/h2.json")
	if err != nil {
		t.Fatal(err)
	}
	job := jobs.Job{ID: "h2", Payload: string(payload)}
	result, err := h.Run(t.Context(), job, func(p jobs.Progress) { _ = p })
	if err != nil {
		t.Fatal(err)
	}
	d := document(t, h, result)
	if math.Abs(d.Result.ZPE-0.2664) > 0.0005 || d.Result.ZPE < 0.26 || d.Result.ZPE > 0.28 {
		t.Errorf("ZPE is %v eV", d.Result.ZPE)
	}
}
