package batchfleet

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
)

// floors says how high each package stands. A package imports only from lower
// floors; parts of one package (pdf/font) may import each other.
var floors = map[string]int{
	"jobs":      0,
	"flock":     0,
	"metrics":   0,
	"redact":    0,
	"retry":     0,
	"safefile":  0,
	"journal":   1,
	"outbox":    1,
	"redisdb":   1,
	"storage":   1,
	"status":    1,
	"emulator":  1,
	"httpd":     1,
	"command":   1,
	"pdf":       1,
	"worker":    2,
	"processor": 2,
	"cmd":       4,
	"gateway":   3,
	"jobapi":    3,
	"bench":     5, // measures all of it, and is part of none of it
}

func TestPackagesImportOnlyFromLowerFloors(t *testing.T) {
	const module = "github.com/batchfleet/batchfleet/"
	out, err := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports", "./...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	checked := 0
	for dec := json.NewDecoder(strings.NewReader(string(out))); dec.More(); {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := dec.Decode(&p); err != nil {
			t.Fatal(err)
		}
		path, ok := strings.CutPrefix(p.ImportPath, module)
		if !ok {
			continue // the module's own root holds only this test
		}
		room, _, _ := strings.Cut(path, "/")
		floor, known := floors[room]
		if !known {
			t.Errorf("package %s has no floor: give it one here and in docs/architecture.md", path)
		}
		checked++
		for _, imp := range p.Imports {
			other, ours := strings.CutPrefix(imp, module)
			below, _, _ := strings.Cut(other, "/")
			if ours && below != room && floors[below] >= floor {
				t.Errorf("%s (floor %d) imports %s (floor %d)", path, floor, other, floors[below])
			}
		}
	}
	if checked < 8 {
		t.Errorf("only %d packages were checked", checked)
	}
}
