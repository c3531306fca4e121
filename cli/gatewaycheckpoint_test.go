package cli

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/gateway/wire"
)

// TestK11AJobOfAGatewayGoesOnAtItsCheckpointOnAnotherWorker has a first worker that never comes back.
func TestK11AJobOfAGatewayGoesOnAtItsCheckpointOnAnotherWorker(t *testing.T) {
	t.Parallel()
	g := newTestGateway(t)
	addr, storage := freeAddr(t), t.TempDir()
	script := g.write("halves.sh", `#!/bin/sh
[ ! -e "$1/half" ] || { echo "went on from $(cat "$1/half")" >"$BATCHFLEET_OUTPUT/out"; exit 0; }
echo "half of attempt $BATCHFLEET_ATTEMPT" >"$1/half"
exit 75
`)
	if err := os.Chmod(script, 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	file := g.write("kinds.toml", "[halves]\ncommand = [\"./halves.sh\", \"{checkpoint}\"]\nbackoff = \"1h\"\ncheckpoint_max = \"1MiB\"\n")
	g.startGateway(addr, g.withKinds(file, storage)...)
	url := "http://" + addr
	first := g.startAgent("a", url, g.enrolled("a"), "KINDS_FILE="+file)
	id := g.submitKind(url, "halves", map[string]any{})
	var j wire.JobResponse
	until(t, time.Minute, "the first attempt has failed", func() bool {
		g.call(http.MethodGet, url+"/calc/halves/jobs/"+id, "", nil, &j)
		return j.Status == "queued" && j.RetryCount == 1
	})
	first.kill()
	kept := filepath.Join(storage, "storage", "gateway", "checkpoints", id)
	if objects, err := os.ReadDir(kept); err != nil || len(objects) != 1 {
		t.Errorf("the gateway keeps the checkpoints %v, %v; want one", objects, err)
	}
	g.startAgent("b", url, g.enrolled("b"), "KINDS_FILE="+file)
	if err := g.hastenRetries(); err != nil {
		t.Fatal(err)
	}
	g.untilFinished(url, "halves", id)
	r, err := g.request(http.MethodGet, url+"/calc/halves/jobs/"+id+"/artifacts/out", "", nil)
	if want := "went on from half of attempt 1\n"; err != nil || string(r.body) != want {
		t.Errorf("it has made %q, %v; want %q", r.body, err, want)
	}
	if objects, err := os.ReadDir(kept); !os.IsNotExist(err) {
		t.Errorf("the gateway still keeps %v, %v", objects, err)
	}
}
