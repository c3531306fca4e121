package cli

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/cli/pdfchild"
)

// What takes long to initialise comes after the child has begun to read, so that
// it never comes.
func TestF77ChildStartsBeforeTheFleetIsInitialised(t *testing.T) {
	t.Parallel()
	inits := func(args ...string) []string {
		cmd := batchfleet(t, []string{"GODEBUG=inittrace=1"}, args...)
		var said bytes.Buffer
		cmd.Stdin, cmd.Stderr = strings.NewReader(""), &said
		if err := cmd.Run(); err != nil {
			t.Fatalf("run %q: %v: %s", args, err, said.String())
		}
		var names []string
		for line := range strings.Lines(said.String()) {
			if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "init" {
				names = append(names, fields[1])
			}
		}
		return names
	}
	child, command := inits(pdfchild.Argument), inits("version")
	const ours = "github.com/batchfleet/batchfleet/"
	for _, name := range []string{
		"google.golang.org/grpc", "cloud.google.com/go/storage", "github.com/prometheus/client_golang/prometheus",
		ours + "status", ours + "pubsub", ours + "gateway", ours + "gateway/queue", ours + "jobapi", ours + "jobapi/engine",
	} {
		if slices.Contains(child, name) || !slices.Contains(command, name) {
			t.Errorf("%s: initialised in the child %t, in a command %t; want only there", name, slices.Contains(child, name), slices.Contains(command, name))
		}
	}
	if len(child) > len(command)*3/4 {
		t.Errorf("the child initialises %d packages, a command %d", len(child), len(command))
	}
}
