package batchfleet

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/internal/testrun"
)

// budgets bounds how many packages of others a package links, all that those link
// included. What is beside them is for programs that are more than their door.
var budgets = map[string]int{
	"redact":         0,
	"retry":          1, // backoff
	"storage":        0,
	"jobapi":         90,
	"worker":         80,
	"processor/zpe":  20,
	"gateway":        80,
	"cmd/zpe-worker": 80,
}

// clouds begin the paths of what none of them may link.
var clouds = []string{"google.golang.org/grpc", "google.golang.org/api", "cloud.google.com/", "github.com/redis/"}

func TestPackagesLinkLittle(t *testing.T) {
	for path, budget := range budgets {
		foreign := 0
		for _, p := range list(t, "-deps", "./"+path) {
			if p.Standard || strings.HasPrefix(p.ImportPath, module+"/") {
				continue
			}
			foreign++
			for _, cloud := range clouds {
				if strings.HasPrefix(p.ImportPath, cloud) {
					t.Errorf("%s links %s", path, p.ImportPath)
				}
			}
		}
		t.Logf("%s links %d packages of others, of %d", path, foreign, budget)
		if foreign > budget {
			t.Errorf("%s links %d packages of others, at most %d are allowed", path, foreign, budget)
		}
	}
}

// leftOut are packages that batchfleet does not link, with what it uses in their place. It has
// to keep below 36 MB: see .ci/run.
var leftOut = map[string]string{
	"github.com/bufbuild/protocompile":         "emulator/schema/protofile",
	"github.com/bufbuild/protocompile/linker":  "emulator/schema/protofile",
	"github.com/bufbuild/protocompile/options": "emulator/schema/protofile",
	"github.com/bufbuild/protocompile/parser":  "emulator/schema/protofile",
	"github.com/twmb/avro":                     "the emulator's own reader of definitions",
}

func TestBatchfleetLeavesOutWhatIsLarge(t *testing.T) {
	for _, p := range list(t, "-deps", "./cmd/batchfleet") {
		if instead, ok := leftOut[p.ImportPath]; ok {
			t.Errorf("batchfleet links %s: use %s", p.ImportPath, instead)
		}
	}
}

// maxAgent is the largest size of the program for agents, in bytes: it goes to machines
// behind slow lines.
const maxAgent = 15_000_000

func TestProgramForAgentsIsSmall(t *testing.T) {
	testrun.Once(t, "it is the size of a file")
	binary := filepath.Join(t.TempDir(), "zpe-worker")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", binary, "./cmd/zpe-worker")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	info, err := os.Stat(binary)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("zpe-worker has %d bytes", info.Size())
	if info.Size() > maxAgent {
		t.Errorf("zpe-worker has %d bytes, at most %d are allowed", info.Size(), maxAgent)
	}
}
