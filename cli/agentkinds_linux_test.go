package cli

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/internal/testrun"
	"github.com/batchfleet/batchfleet/jobs"
)

// someExamples copies the examples, and returns a kinds file that has some of their kinds only.
func someExamples(t *testing.T, kinds ...string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../examples")); err != nil {
		t.Fatal(err)
	}
	all, err := os.ReadFile("../examples/kinds.toml")
	if err != nil {
		t.Fatal(err)
	}
	var some strings.Builder
	for part := range strings.SplitSeq(string(all), "\n[") {
		name, _, _ := strings.Cut(part, "]")
		name, _, _ = strings.Cut(name, ".")
		if slices.Contains(kinds, name) {
			some.WriteString("[" + part + "\n")
		}
	}
	file := filepath.Join(dir, "some.toml")
	if err := os.WriteFile(file, []byte(some.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// theExamples are three kinds of the examples that run on workers of different kinds.
var theExamples = []struct {
	kind, file string
	worker     string // that has the kind
	artifact   string
	check      func(t *testing.T, dir string)
}{
	{"thumbnail", "../examples/thumbnail/sample.pdf", "pictures", "page-1.png", picture("page-1.png", 250, 167)},
	{"panorama", "../examples/panorama/scene.pov", "pictures", "panorama.png", picture("panorama.png", 400, 200)},
	{"ocr", "../examples/ocr/scanned.pdf", "words", "text.txt", scanned},
}

// upload gives a file to the gateway, as the input of a job of a kind.
func (g *testGateway) upload(url, kind, file string) (input string) {
	g.t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		g.t.Fatal(err)
	}
	var in wire.InputResponse
	g.call(http.MethodPost, url+"/calc/"+kind+"/inputs", "", string(content), &in)
	return in.Input
}

// TestK17AgentsOfDifferentKindsRunTheExamples has two agents, each with a kinds file of its own, run the
// examples. Each runs its own kinds only.
func TestK17AgentsOfDifferentKindsRunTheExamples(t *testing.T) {
	examples(t)
	t.Parallel()
	g := newTestGateway(t)
	addr := freeAddr(t)
	url := "http://" + addr
	g.startGateway(addr, g.withKinds(someExamples(t, "thumbnail", "panorama", "ocr"), t.TempDir())...)
	g.startAgent("pictures", url, g.enrolled("pictures"), "PROCESSOR=none", "KINDS_FILE="+someExamples(t, "thumbnail", "panorama"))
	g.startAgent("words", url, g.enrolled("words"), "PROCESSOR=none", "KINDS_FILE="+someExamples(t, "ocr"))
	ids := make([]string, len(theExamples))
	for i, e := range theExamples {
		ids[i] = g.submitKind(url, e.kind, map[string]any{"input": g.upload(url, e.kind, e.file)})
	}
	for i, e := range theExamples {
		g.untilFinished(url, e.kind, ids[i])
		job := url + "/calc/" + e.kind + "/jobs/" + ids[i]
		var a wire.JobResponse
		g.call(http.MethodGet, job, "", nil, &a)
		if a.WorkerName != e.worker || a.RetryCount != 0 {
			t.Errorf("%s: it ran on %s after %d retries, want %s and none", e.kind, a.WorkerName, a.RetryCount, e.worker)
		}
		r, err := g.request(http.MethodGet, job+"/artifacts/"+e.artifact, "", nil)
		if err != nil || r.status != http.StatusOK {
			t.Fatalf("%s: artifact %s: %d %v", e.kind, e.artifact, r.status, err)
		}
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, e.artifact), r.body, 0o600); err != nil {
			t.Fatal(err)
		}
		e.check(t, dir)
	}
}

// TestK15K17AProgramWithKindsIsAGatewayAndAnAgent without a kinds file.
func TestK15K17AProgramWithKindsIsAGatewayAndAnAgent(t *testing.T) {
	t.Parallel()
	binary := wordcount(t)
	g := newTestGateway(t)
	addr := freeAddr(t)
	url := "http://" + addr
	start := func(env []string, args ...string) {
		c := exec.CommandContext(t.Context(), binary, args...)
		c.Dir, c.Env = t.TempDir(), g.environment(env...)
		launch(t, c)
	}
	start(g.atRedis("LOCAL_STORAGE_PATH="+t.TempDir()), "gateway", "--addr", addr, "--admin-token-file", filepath.Join(g.dir, "admin.token"))
	g.untilReadyz(addr, http.StatusOK)
	start([]string{"SOURCE=" + url, "WORKER_TOKEN_FILE=" + g.enrolled("a"), "PROCESSOR=none"}, "worker")
	id := g.submitKind(url, "wordcount", map[string]any{"input": g.upload(url, "wordcount", "testdata/lines.txt")})
	g.untilFinished(url, "wordcount", id)
	var counts map[string]int
	g.call(http.MethodGet, url+"/calc/wordcount/jobs/"+id+"/artifacts/words.json", "", nil, &counts)
	if counts["line"] != 3 || counts["the"] != 2 {
		t.Errorf("the words are %v", counts)
	}
}

// TestK17AKindThatTheGatewayDoesNotHaveIsNamed and does not keep the others from running. A gateway that is started
// again with the kind has its jobs run.
func TestK17AKindThatTheGatewayDoesNotHaveIsNamed(t *testing.T) {
	t.Parallel()
	g := newTestGateway(t)
	addr := freeAddr(t)
	url := "http://" + addr
	file := g.upperFile()
	g.startGateway(addr, g.withKinds(file, t.TempDir())...)
	more := g.write("more.toml", upperKind+"[another]\ncommand = [\"true\"]\n[slots]\ncommand = [\"true\"]\nslots = 1\n")
	a := g.startAgent("a", url, g.enrolled("a"), "PROCESSOR=none", "KINDS_FILE="+more)
	for _, kind := range []string{"another", "slots"} {
		a.untilLogged(`"the gateway does not have a kind of this worker, so no jobs of it come: add it to the gateway's KINDS_FILE","kind":"` + kind)
	}
	g.untilFinished(url, "upper", g.submitKind(url, "upper", map[string]any{}))
}

// TestK17AnAgentHasGPUsForItsKinds as a worker of the fleet has.
func TestK17AnAgentHasGPUsForItsKinds(t *testing.T) {
	t.Parallel()
	g := newTestGateway(t)
	addr := freeAddr(t)
	url := "http://" + addr
	file := kindsFile(t, `echo "$CUDA_VISIBLE_DEVICES" >"$BATCHFLEET_OUTPUT/gpus"`, "gpus = 2\nslots = 1\n")
	g.startGateway(addr, g.withKinds(file, t.TempDir())...)
	g.startAgent("a", url, g.enrolled("a"), "PROCESSOR=none", "WORKER_GPUS=3,5,7", "KINDS_FILE="+file)
	id := g.submitKind(url, "k", map[string]any{})
	g.untilFinished(url, "k", id)
	r, err := g.request(http.MethodGet, url+"/calc/k/jobs/"+id+"/artifacts/gpus", "", nil)
	if err != nil || string(r.body) != "3,5\n" {
		t.Errorf("it had GPUs %q (%v), want 3,5", r.body, err)
	}
}

// TestK01K17AnAgentReadsItsKindsAgain and takes jobs of a kind that is new.
func TestK01K17AnAgentReadsItsKindsAgain(t *testing.T) {
	t.Parallel()
	g := newTestGateway(t)
	addr := freeAddr(t)
	url := "http://" + addr
	ofGateway, _, toml := saysFile(t)
	file, _, _ := saysFile(t)
	for _, f := range []string{ofGateway, file} {
		if err := os.WriteFile(f, []byte(toml("one=1")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := g.startGateway(addr, g.withKinds(ofGateway, t.TempDir())...)
	a := g.startAgent("a", url, g.enrolled("a"), "PROCESSOR=none", "KINDS_FILE="+file)
	says := func(kind, want string) {
		t.Helper()
		id := g.submitKind(url, kind, map[string]any{})
		g.untilFinished(url, kind, id)
		if r, err := g.request(http.MethodGet, url+"/calc/"+kind+"/jobs/"+id+"/artifacts/out", "", nil); err != nil || string(r.body) != want {
			t.Errorf("kind %s has written %q (%v), want %q", kind, r.body, err, want)
		}
	}
	says("one", "1\n")
	p.hangUp(ofGateway, toml("one=1", "two=2"))
	p.untilLogged(rereadLog)
	a.hangUp(file, toml("one=new", "two=2"))
	a.untilLogged(rereadLog)
	says("one", "new\n")
	says("two", "2\n")
	a.hangUp(file, "[one]\n")
	a.untilLogged(refusedLog)
	says("two", "2\n")
}

// TestK17NothingIsLeftOfAProgramWhoseAgentIsKilled kills an agent in the middle of a job that has a checkpoint. The
// job goes on from it when the agent is back.
func TestK17NothingIsLeftOfAProgramWhoseAgentIsKilled(t *testing.T) {
	t.Parallel()
	testrun.Once(t, kills)
	file := kindsFile(t, counts, "checkpoint_max = \"1MiB\"\n")
	g := newTestGateway(t)
	addr := freeAddr(t)
	url := "http://" + addr
	g.startGateway(addr, g.withKinds(file, t.TempDir())...)
	token := g.enrolled("a")
	start := func() *process { return g.startAgent("a", url, token, "PROCESSOR=none", "KINDS_FILE="+file) }
	killed := start()
	id := g.submitKind(url, "k", map[string]any{})
	scratch := filepath.Join(g.dir, "agents", "a", "batchfleet-scratch")
	n := func() (n int) {
		text, err := os.ReadFile(filepath.Join(scratch, "checkpoints", id, "data", "n"))
		if err == nil {
			_, _ = fmt.Sscan(string(text), &n)
		}
		return n
	}
	until(t, time.Minute, "some progress", func() bool { return n() > 20 })
	left := processesOf(jobs.ID(id))
	if len(left) < 2 {
		t.Fatalf("its processes are %v: the one in a session of its own is not to be found", left)
	}
	killed.kill()
	begun := n()
	start()
	until(t, time.Minute, "what is left of the program is ended", func() bool {
		return !slices.ContainsFunc(processesOf(jobs.ID(id)), func(pid int) bool { return slices.Contains(left, pid) })
	})
	until(t, 2*time.Minute, "the job has ended", func() bool {
		if err := g.hastenRetries(); err != nil {
			t.Fatal(err)
		}
		return g.kindJob(url, "k", id).Status == "finished"
	})
	r, err := g.request(http.MethodGet, url+"/calc/k/jobs/"+id+"/artifacts/began", "", nil)
	began := 0
	if _, err2 := fmt.Sscan(string(r.body), &began); err != nil || err2 != nil || began < begun {
		t.Errorf("the attempt that ended began at step %q (%v), want that of the checkpoint, %d", r.body, err, begun)
	}
	until(t, time.Minute, "nothing is left of the program", func() bool { return len(processesOf(jobs.ID(id))) == 0 })
	until(t, time.Minute, "its disk is cleaned", func() bool {
		attempts, err := filepath.Glob(filepath.Join(scratch, "workers", "*", id+"*"))
		checkpoints, err2 := filepath.Glob(filepath.Join(scratch, "checkpoints", id))
		return err == nil && err2 == nil && len(attempts)+len(checkpoints) == 0
	})
}

// kindJob returns the state of a job of a kind.
func (g *testGateway) kindJob(url, kind, id string) (a wire.JobResponse) {
	g.t.Helper()
	g.call(http.MethodGet, url+"/calc/"+kind+"/jobs/"+id, "", nil, &a)
	return a
}
