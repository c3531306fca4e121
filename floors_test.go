package batchfleet

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
)

const module = "github.com/batchfleet/batchfleet"

// floors lists every package, from the ground up. A package imports from lower floors,
// and on its own floor only parts of the same top-level package that stand before it:
// see docs/architecture.md.
var floors = [][]string{
	0: {"jobs", "flock", "metrics", "safefile", "redact", "retry", "batch", "trace", "internal/disk", "internal/testlog", "internal/pipenet", "internal/testnet", "internal/testrun"},
	1: {"redisdb", "journal", "internal/testtrace"}, // what those share that keep something in Redis, or on disk
	2: {
		"status", "status/redistest", "storage/internal/transfer", "storage", "storage/gcs", "storage/s3", "storage/s3/s3test", "storage/storagetest", "outbox", "outbox/outboxtest", "command", "kinds", "scratch", "httpd", "httpd/client", "httpd/egress",
		"pdf/filter", "pdf/cos", "pdf/font", "pdf/content", "pdf", "pdf/pdftest",
	},
	3: {
		"trace/otlp",
		"worker/memory", "worker", "worker/workertest", "processor/artifact", "processor/output", "processor/custom", "processor/program", "processor", "processor/zpe", "jobapi/access", "jobapi", "jobapi/engine", "jobapi/monitor", "jobapi/client", "jobapi/jobapitest",
		"emulator/filter", "emulator/schema/protofile", "emulator/schema", "emulator", "emulator/clienttest",
	},
	4: {
		"pubsub", "gateway/wire", "gateway", "gateway/queue", "gateway/control", "gateway/provider", "gateway/operator", "pubsub/provider", "relay", "grid/subject", "grid/wire", "grid/link", "grid/access", "grid/door", "grid/blob", "grid/archive", "grid/exec", "grid/member", "grid/schedule", "grid/leader", "grid/client", "grid/router",
		"dashboard/markup", "dashboard", "dashboard/dashboardtest",
	}, // doors, and the pages over them
	5: {"operations/deadletter", "operations/repair", "operations/delayed", "operations/schedules", "operations"},
	6: {"cli/program", "cli/own", "cli/openapi", "cli/pdfchild", "cli/pdfquick", "cli/settings", "cli/agent", "cli", "sim"},
	7: {".", "cmd/batchfleet", "cmd/zpe-worker"},
	8: {"internal/noopkind", "examples/grid/calcA"}, // a program for bench
}

type place struct {
	floor, row int
	room       string // the top-level package it is a part of
}

func TestPackagesImportOnlyFromLowerFloors(t *testing.T) {
	places := map[string]place{}
	for floor, row := range floors {
		for i, path := range row {
			room, _, _ := strings.Cut(path, "/")
			places[path] = place{floor, i, room}
		}
	}
	seen := map[string]bool{}
	for _, p := range list(t, "./...") {
		path, ok := strings.CutPrefix(p.ImportPath, module+"/")
		if !ok {
			if path != module {
				continue
			}
			path = "."
		}
		own, known := places[path]
		if !known {
			t.Errorf("package %s has no floor: give it one here and in docs/architecture.md", path)
			continue
		}
		seen[path] = true
		for _, imp := range p.Imports {
			other, ours := strings.CutPrefix(imp, module+"/")
			below := places[other]
			if ours && below.floor >= own.floor && (below.floor > own.floor || below.room != own.room || below.row >= own.row) {
				t.Errorf("%s (floor %d) imports %s (floor %d)", path, own.floor, other, below.floor)
			}
		}
	}
	for path := range places {
		if !seen[path] {
			t.Errorf("there is no package %s, which has a floor here", path)
		}
	}
}

// listed is what go list tells of a package.
type listed struct {
	ImportPath string
	Imports    []string
	Standard   bool
}

func list(t *testing.T, args ...string) (packages []listed) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", append([]string{"list", "-json=ImportPath,Imports,Standard"}, args...)...).Output()
	if err != nil {
		t.Fatalf("go list %s: %v", args, err)
	}
	for dec := json.NewDecoder(strings.NewReader(string(out))); dec.More(); {
		var p listed
		if err := dec.Decode(&p); err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
	return packages
}
