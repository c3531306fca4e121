package cli

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/cli/own"
	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/kinds"
	"github.com/batchfleet/batchfleet/processor/custom"
)

// withBlob has the kind blob built into the processes of a test.
const withBlob = "TEST_KIND_BLOB"

// upperKind makes capitals of its input.
const upperKind = `
[upper]
command = ["./upper.sh", "{params.suffix}", "{params.fail}"]
max_input = "2KB"
retries = 1
backoff = "1s"
[upper.params.suffix]
type = "string"
default = "!"
[upper.params.fail]
type = "integer"
default = 0
`

const upperScript = `#!/bin/sh
echo "attempt $BATCHFLEET_ATTEMPT of upper" >&2
if [ "$BATCHFLEET_ATTEMPT" -le "$2" ]; then echo "not now" >&2; exit 75; fi
[ -z "$BATCHFLEET_INPUT" ] || find "$BATCHFLEET_INPUT" -type f | sort | xargs cat | tr a-z A-Z >"$BATCHFLEET_OUTPUT/upper.txt"
printf %s "$1" >>"$BATCHFLEET_OUTPUT/upper.txt"
`

// blobKind makes a large file, most of it holes.
func blobKind() own.Kind {
	k := kinds.Own("blob")
	return own.Kind{Kind: k, Do: func(_ context.Context, a *custom.Attempt) error {
		dir, err := a.Dir()
		if err != nil {
			return err
		}
		f, err := os.Create(filepath.Join(dir.Output, "blob.bin"))
		if err != nil {
			return err
		}
		defer f.Close()
		for at := int64(0); at+8 < blobBytes; at += 10_000_019 {
			if _, err := f.WriteAt(binary.LittleEndian.AppendUint64(nil, uint64(at)), at); err != nil { //nolint:gosec // not negative
				return err
			}
		}
		return f.Truncate(blobBytes)
	}}
}

const blobBytes = 2 << 30

func sumOf(r io.Reader) string {
	hash := sha256.New()
	if _, err := io.Copy(hash, r); err != nil {
		return err.Error()
	}
	return hex.EncodeToString(hash.Sum(nil))
}

// upperFile writes a kinds file with the kind upper, and its program beside it.
func (g *testGateway) upperFile() string {
	g.t.Helper()
	if err := os.WriteFile(filepath.Join(g.dir, "upper.sh"), []byte(upperScript), 0o700); err != nil { //nolint:gosec // a program
		g.t.Fatal(err)
	}
	return g.write("kinds.toml", upperKind)
}

// withKinds returns settings of a gateway that has the kinds of a file, with its own files in a
// directory.
func (g *testGateway) withKinds(file, dir string) []string {
	return []string{
		"KINDS_FILE=" + file, "LOCAL_STORAGE_PATH=" + filepath.Join(dir, "storage"), "SPOOL_DIR=" + filepath.Join(dir, "spool"),
		"LEASE_TTL=600s",
	}
}

func (g *testGateway) submitKind(url, kind string, body any) string {
	g.t.Helper()
	var a wire.SubmitResponse
	g.call(http.MethodPost, url+"/calc/"+kind+"/jobs", "", body, &a)
	return a.JobID
}

func (g *testGateway) untilFinished(url, kind, id string) {
	g.t.Helper()
	var a wire.JobResponse
	until(g.t, 5*time.Minute, "job "+id+" finished", func() bool {
		g.call(http.MethodGet, url+"/calc/"+kind+"/jobs/"+id, "", nil, &a)
		return a.Status == "finished"
	})
}

// TestK17WorkersOfAGatewayRunJobsOfAnyKind has one worker run jobs of zpe and of two other kinds, with
// inputs and artifacts, over one registration.
func TestK17WorkersOfAGatewayRunJobsOfAnyKind(t *testing.T) {
	t.Parallel()
	g := newTestGateway(t)
	addr := freeAddr(t)
	file := g.upperFile()
	g.startGateway(addr, g.withKinds(file, t.TempDir())...)
	url := "http://" + addr
	g.startAgent("a", url, g.enrolled("a"), "KINDS_FILE="+file)

	var in wire.InputResponse
	g.call(http.MethodPost, url+"/calc/upper/inputs", "", "some text", &in)
	zpe := g.submit(url, h2Payload)
	plain := g.submitKind(url, "upper", map[string]any{"input": in.Input})
	again := g.submitKind(url, "upper", map[string]any{"params": map[string]any{"fail": 2, "suffix": "?"}})
	g.untilStatus(time.Minute, url, zpe, "finished")
	g.untilFinished(url, "upper", plain)
	g.untilFinished(url, "upper", again)
	for id, want := range map[string]string{plain: "SOME TEXT!", again: "?"} {
		r, err := g.request(http.MethodGet, url+"/calc/upper/jobs/"+id+"/artifacts/upper.txt", "", nil)
		if err != nil || string(r.body) != want {
			t.Errorf("the artifact of %s is %q, %v; want %q", id, r.body, err, want)
		}
	}
	var result struct {
		Result struct {
			Kind      string
			Attempt   int
			Artifacts []wire.Artifact
		}
	}
	g.call(http.MethodGet, url+"/calc/upper/jobs/"+again+"/result", "", nil, &result)
	if r := result.Result; r.Kind != "upper" || r.Attempt != 3 || len(r.Artifacts) != 1 {
		t.Errorf("the result is %+v, want that of the third attempt", result)
	}
	// People see them as jobs of the gateway.
	command := func(args ...string) string {
		t.Helper()
		code, stdout, stderr := g.runCommand(g.environment("BATCHFLEET_API="+url, "BATCHFLEET_TOKEN_FILE="+filepath.Join(g.dir, "admin.token")), args...)
		if code != 0 {
			t.Errorf("%v: code %d: %s", args, code, stderr)
		}
		return stdout
	}
	if got := command("list", "--scope", "gateway"); !strings.Contains(got, plain) || !strings.Contains(got, again) || strings.Contains(got, zpe) {
		t.Errorf("list of scope gateway: %s", got)
	}
	if got := command("list"); !strings.Contains(got, plain) || !strings.Contains(got, zpe) {
		t.Errorf("list: %s", got)
	}
	if got := command("get", plain); !strings.Contains(got, "upper") || !strings.Contains(got, "succeeded") {
		t.Errorf("get: %s", got)
	}
	if got := command("list", "--kind", "gateway.upper"); !strings.Contains(got, plain) {
		t.Errorf("list of its kind: %s", got)
	}
	dir := t.TempDir()
	command("result", "-o", dir, plain)
	if text, err := os.ReadFile(filepath.Join(dir, "upper.txt")); err != nil || string(text) != "SOME TEXT!" {
		t.Errorf("result: %q, %v", text, err)
	}
	// What the program has written in each attempt is in the log, and why the first two have failed.
	logged := command("logs", again)
	if n := strings.Count(logged, "\nnot now\n"); n != 2 { // it is of another pipe, and may come before or after
		t.Errorf("what failing attempts write to stderr is there %d times, want 2:\n%s", n, logged)
	}
	for _, want := range []string{
		"attempt 1 of upper", "attempt 1 failed: exit 75: not now", "attempt 2 of upper", "attempt 2 failed: exit 75: not now",
		"attempt 3: leased by a", "attempt 3 of upper", "finished",
	} {
		_, after, found := strings.Cut(logged, want)
		if !found {
			t.Errorf("%q is not where it should be in the logs:\n%s", want, command("logs", again))
		}
		logged = after
	}
	// Nothing of these jobs is left with the worker.
	until(t, time.Minute, "the worker has forgotten its jobs", func() bool {
		var left []string
		for _, dir := range []string{"inputs", "results"} {
			_ = filepath.WalkDir(filepath.Join(g.dir, "agents", "a", "store", dir), func(path string, d os.DirEntry, err error) error {
				if err == nil && !d.IsDir() {
					left = append(left, path)
				}
				return nil
			})
		}
		return !slices.ContainsFunc(left, func(path string) bool { return !strings.Contains(path, zpe) })
	})
}

// TestK17AWorkerThatLeasesFromRedisRunsJobsOfAnyKind has a worker beside the gateway, with its Redis and its storage.
func TestK17AWorkerThatLeasesFromRedisRunsJobsOfAnyKind(t *testing.T) {
	t.Parallel()
	g := newTestGateway(t)
	addr := freeAddr(t)
	settings := g.withKinds(g.upperFile(), t.TempDir())
	g.startGateway(addr, settings...)
	url := "http://" + addr
	source := fmt.Sprintf("SOURCE=redis://%s:%d/0", g.redis.Host, g.redis.Port)
	g.startProcess(g.environment(append(settings, source, "WORKER_NAME=inside", "AGENT_DIR="+filepath.Join(g.dir, "inside"), "PROCESSOR=none")...), "worker")

	var in wire.InputResponse
	g.call(http.MethodPost, url+"/calc/upper/inputs", "", "some text", &in)
	id := g.submitKind(url, "upper", map[string]any{"input": in.Input, "params": map[string]any{"fail": 1}})
	g.untilFinished(url, "upper", id)
	r, err := g.request(http.MethodGet, url+"/calc/upper/jobs/"+id+"/artifacts/upper.txt", "", nil)
	if err != nil || string(r.body) != "SOME TEXT!" {
		t.Errorf("the artifact is %q, %v", r.body, err)
	}
	code, logged, stderr := g.runCommand(g.environment("BATCHFLEET_API="+url, "BATCHFLEET_TOKEN_FILE="+filepath.Join(g.dir, "admin.token")), "logs", id)
	if code != 0 || !strings.Contains(logged, "attempt 2 of upper") {
		t.Errorf("its log: code %d, %s%s", code, logged, stderr)
	}
}
