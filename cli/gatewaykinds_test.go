package cli

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/gateway"
	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/storage"
	"github.com/batchfleet/batchfleet/worker"
)

// testKindsEnv lets the worker of a test run the kinds of testKindsFile.
const testKindsEnv = "TEST_KINDS_OF_GATEWAY"

const testKindsFile = `
[upper]
command = ["upper"]
retries = 1
backoff = "1s"
[upper.params.suffix]
type = "string"
default = "!"
[upper.params.fail]
type = "integer"
default = 0
[blob]
command = ["blob"]
[blob.params.bytes]
type = "integer"
required = true
`

func testKinds(_ context.Context, store storage.Store, _ *slog.Logger) (map[jobs.Kind]worker.Handler, error) {
	return map[jobs.Kind]worker.Handler{
		"upper": testKind{store, "upper", upper}, "blob": testKind{store, "blob", blob},
	}, nil
}

// testKind runs jobs as a function that returns the artifacts it has stored.
type testKind struct {
	store storage.Store
	kind  jobs.Kind
	run   func(ctx context.Context, store storage.Store, a jobs.Attempt) ([]wire.Artifact, error)
}

func (k testKind) Run(context.Context, jobs.Job, func(jobs.Progress)) (jobs.Result, error) {
	return jobs.Result{}, errors.New("it must be run as an attempt")
}

func (k testKind) RunAttempt(ctx context.Context, a jobs.Attempt) (jobs.Result, error) {
	artifacts, err := k.run(ctx, k.store, a)
	if err != nil {
		return jobs.Result{}, err
	}
	text, err := json.Marshal(map[string]any{
		"job_id": a.Job.ID, "kind": k.kind, "pages": 1, "processed_at": "2026-11-24T00:00:00Z", "processing_time_seconds": 0.5,
		"schema_version": 1, "attempt": a.Number, "artifacts": artifacts,
	})
	if err != nil {
		return jobs.Result{}, err
	}
	name := "results/" + string(a.Job.ID) + "/result.json"
	return jobs.Result{Object: name, Pages: 1}, k.store.Put(ctx, name, bytes.NewReader(text))
}

func (testKind) Earlier(context.Context, jobs.Job) (jobs.Result, bool, error) {
	return jobs.Result{}, false, nil
}

// upper makes capitals of its input.
func upper(ctx context.Context, store storage.Store, a jobs.Attempt) ([]wire.Artifact, error) {
	var params struct {
		Suffix string
		Fail   int
	}
	if err := json.Unmarshal([]byte(a.Job.Payload), &params); err != nil {
		return nil, &jobs.Failure{Code: "INVALID_PARAMS", Final: true, Err: err}
	}
	if a.Failures < params.Fail {
		return nil, &jobs.Failure{Code: "EXIT_75", Retry: true, RetryAfter: time.Second, Err: errors.New("exit 75: not now")}
	}
	var text []byte
	if a.Job.Input != "" {
		in, err := store.Open(ctx, a.Job.Input)
		if err != nil {
			return nil, err
		}
		defer in.Close()
		if text, err = io.ReadAll(in); err != nil {
			return nil, err
		}
	}
	text = append(bytes.ToUpper(text), params.Suffix...)
	artifact := wire.Artifact{Name: "upper.txt", Size: int64(len(text)), SHA256: sumOf(bytes.NewReader(text)), Type: "text/plain; charset=utf-8"}
	return []wire.Artifact{artifact}, store.Put(ctx, gateway.ArtifactObject(a.Job.ID, artifact.Name), bytes.NewReader(text))
}

// blob makes a large artifact, most of it holes in the file.
func blob(ctx context.Context, store storage.Store, a jobs.Attempt) ([]wire.Artifact, error) {
	var params struct{ Bytes int64 }
	if err := json.Unmarshal([]byte(a.Job.Payload), &params); err != nil {
		return nil, err
	}
	object := gateway.ArtifactObject(a.Job.ID, "blob.bin")
	path := filepath.Join(os.Getenv("AGENT_DIR"), "store", filepath.FromSlash(object))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for at := int64(0); at+8 < params.Bytes; at += 10_000_019 {
		if _, err := f.WriteAt(binary.LittleEndian.AppendUint64(nil, uint64(at)), at); err != nil { //nolint:gosec // not negative
			return nil, err
		}
	}
	if err := f.Truncate(params.Bytes); err != nil {
		return nil, err
	}
	in, err := store.Open(ctx, object)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	return []wire.Artifact{{Name: "blob.bin", Size: params.Bytes, SHA256: sumOf(in)}}, nil
}

func sumOf(r io.Reader) string {
	hash := sha256.New()
	if _, err := io.Copy(hash, r); err != nil {
		return err.Error()
	}
	return hex.EncodeToString(hash.Sum(nil))
}

// withKinds returns settings of a gateway that has the test's kinds, with its files in a
// directory.
func (g *testGateway) withKinds(dir string) []string {
	return []string{
		"KINDS_FILE=" + g.write("kinds.toml", testKindsFile), "LOCAL_STORAGE_PATH=" + filepath.Join(dir, "storage"), "SPOOL_DIR=" + filepath.Join(dir, "spool"),
		"LEASE_TTL=600s",
	}
}

func (g *testGateway) submitKind(url, kind string, body any) string {
	g.t.Helper()
	var a wire.SubmitResponse
	g.call(http.MethodPost, url+"/calc/"+kind+"/jobs", "", body, &a)
	return a.JobID
}

func (g *testGateway) untilKind(url, kind, id, want string) {
	g.t.Helper()
	var a wire.JobResponse
	until(g.t, 5*time.Minute, fmt.Sprintf("job %s %s", id, want), func() bool {
		g.call(http.MethodGet, url+"/calc/"+kind+"/jobs/"+id, "", nil, &a)
		return a.Status == want
	})
}

// TestK17WorkersOfAGatewayRunJobsOfAnyKind has one worker run jobs of zpe and of two other kinds, with
// inputs and artifacts, over one registration.
func TestK17WorkersOfAGatewayRunJobsOfAnyKind(t *testing.T) {
	t.Parallel()
	g := newTestGateway(t)
	addr := freeAddr(t)
	g.startGateway(addr, g.withKinds(t.TempDir())...)
	url := "http://" + addr
	g.startAgent("a", url, g.enrolled("a"), testKindsEnv+"=1")

	var in wire.InputResponse
	g.call(http.MethodPost, url+"/calc/upper/inputs", "", "some text", &in)
	zpe := g.submit(url, h2Payload)
	plain := g.submitKind(url, "upper", map[string]any{"input": in.Input})
	again := g.submitKind(url, "upper", map[string]any{"params": map[string]any{"fail": 2, "suffix": "?"}})
	g.untilStatus(time.Minute, url, zpe, "finished")
	g.untilKind(url, "upper", plain, "finished")
	g.untilKind(url, "upper", again, "finished")
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
	if got := command("logs", again); !strings.Contains(got, "attempt 3") {
		t.Errorf("logs: %s", got)
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
