package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batchfleet/batchfleet/jobs"
)

// hangUp replaces a kinds file and has a process read it again.
func (p *process) hangUp(file, toml string) {
	p.t.Helper()
	if err := os.WriteFile(file, []byte(toml), 0o600); err != nil {
		p.t.Fatal(err)
	}
	if err := p.Process.Signal(syscall.SIGHUP); err != nil {
		p.t.Fatal(err)
	}
}

const (
	rereadLog  = `"msg":"the kinds file was read again"`
	refusedLog = "the kinds stay as they are"
)

// saysFile returns a kinds file and its text, with kinds whose program writes what it is told and, for the text wait, only when
// the file go is there. Each kind is written NAME=TEXT.
func saysFile(t *testing.T) (file, goFile string, toml func(says ...string) string) {
	t.Helper()
	file = kindsFile(t, `if [ "$1" = wait ]; then while [ ! -e "$2" ]; do sleep 0.05; done; fi; echo "$1" >"$BATCHFLEET_OUTPUT/out"`, "")
	goFile = filepath.Join(t.TempDir(), "go")
	return file, goFile, func(says ...string) (text string) {
		for _, s := range says {
			name, what, _ := strings.Cut(s, "=")
			text += fmt.Sprintf("[%s]\ncommand = [\"./k.sh\", %q, %q]\n", name, what, goFile)
		}
		return text
	}
}

func touch(t *testing.T, file string) {
	t.Helper()
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestK01WorkerReadsItsKindsAgainWithoutDisturbingItsJobs(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t)
	file, goFile, toml := saysFile(t)
	if err := os.WriteFile(file, []byte(toml("changed=wait", "gone=gone")), 0o600); err != nil {
		t.Fatal(err)
	}
	p := f.start("KINDS_FILE="+file, "WORKER_SLOTS=2", "HTTP_ADDR=127.0.0.1:0")
	f.send(jobs.Job{ID: "running", Kind: "changed"})
	until(t, time.Minute, "its program runs", func() bool { return len(processesOf("running")) > 0 })

	p.hangUp(file, toml("changed=new text", "new=new"))
	p.untilLogged(rereadLog)
	for _, want := range []string{`"added":["new"]`, `"removed":["gone"]`, `"changed":["changed"]`} {
		if !strings.Contains(p.log.String(), want) {
			t.Errorf("the log has no %s", want)
		}
	}
	for id, kind := range map[jobs.ID]jobs.Kind{"next": "changed", "first": "new", "left": "gone"} {
		f.send(jobs.Job{ID: id, Kind: kind})
	}
	f.untilState(time.Minute, "next", "completed")
	f.untilState(time.Minute, "first", "completed")
	p.untilLogged(`job left to other workers","job":"left"`)
	until(t, time.Minute, "the registry has its kinds", func() bool {
		workers, err := f.status.Workers(t.Context())
		return err == nil && len(workers) == 1 && slices.Equal(workers[0].Kinds, []jobs.Kind{"changed", "mock", "new", "pdf"})
	})
	if got := f.state("running"); got != "processing" {
		t.Errorf("the job that ran is %s, want it to go on", got)
	}

	// A broken file is told with its place, and changes nothing.
	p.hangUp(file, toml("changed=broken")+"retries = \"many\"\n[other]\nslots = 0\ncommand = [\"./missing\"]\n")
	p.untilLogged(refusedLog)
	for _, want := range []string{file + ":3:11: changed.retries", file + ":5:9: other.slots"} {
		if strings.Count(p.log.String(), want) != 1 {
			t.Errorf("the log has not once %s:\n%s", want, p.log)
		}
	}
	f.send(jobs.Job{ID: "after", Kind: "changed"})
	f.untilState(time.Minute, "after", "completed")
	touch(t, goFile)
	f.untilState(time.Minute, "running", "completed")
	for id, want := range map[jobs.ID]string{"running": "wait\n", "next": "new text\n", "first": "new\n", "after": "new text\n"} {
		if got := f.artifact(id, "out"); got != want || f.stored(id).Attempt != 1 {
			t.Errorf("job %s has written %q in attempt %d, want %q in the first", id, got, f.stored(id).Attempt, want)
		}
	}

	// The kind comes back. The job that waits is handed out again within a minute.
	p.hangUp(file, toml("gone=back"))
	until(t, time.Minute, "it is read", func() bool { return strings.Count(p.log.String(), rereadLog) == 2 })
	f.send(jobs.Job{ID: "back", Kind: "gone"})
	f.untilState(time.Minute, "back", "completed")
	if got := f.artifact("back", "out"); got != "back\n" {
		t.Errorf("it has written %q", got)
	}
}

func TestK01DevReadsItsKindsAgain(t *testing.T) {
	t.Parallel()
	file, _, toml := saysFile(t)
	if err := os.WriteFile(file, []byte(toml("one=1")), 0o600); err != nil {
		t.Fatal(err)
	}
	d := startDev(t, "KINDS_FILE="+file)
	d.process.hangUp(file, toml("one=1", "two=2")+"[two.params.dpi]\ntype = \"integer\"\nmax = 9\n")
	d.process.untilLogged(rereadLog)
	d.env = append(d.env, "BATCHFLEET_API="+d.api)
	d.want(2, "params.dpi is 10: must be", "submit", "--kind", "two", "--param", "dpi=10")
	d.want(0, "succeeded", "submit", "--kind", "two", "--param", "dpi=9", "--wait")
	resp, err := http.Get(d.api + "/api/v1/openapi.json") //nolint:noctx // the test ends with it
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, err := io.ReadAll(resp.Body); err != nil || !bytes.Contains(text, []byte("Params_two")) {
		t.Errorf("the description of the API lacks the new kind, %v", err)
	}
	if code, _ := d.process.terminate(); code != 0 {
		t.Errorf("dev ended with code %d\n%s", code, d.process.log)
	}
}

func TestK01GatewayReadsItsKindsAgain(t *testing.T) {
	t.Parallel()
	g := newTestGateway(t)
	addr := freeAddr(t)
	file := g.write("kinds.toml", "[upper]\ncommand = [\"upper\"]\n[blob]\ncommand = [\"blob\"]\n")
	settings := g.withKinds(file, t.TempDir())
	p := g.startGateway(addr, settings...)
	// submit returns the status and the text of the answer.
	submit := func(kind, params string) (int, string) {
		t.Helper()
		r, err := g.request(http.MethodPost, "http://"+addr+"/calc/"+kind+"/jobs", "", map[string]any{"params": json.RawMessage(params)})
		if err != nil {
			t.Fatal(err)
		}
		return r.status, string(r.body)
	}
	if code, text := submit("upper", "{}"); code != http.StatusOK {
		t.Fatalf("answered %d %s", code, text)
	}
	p.hangUp(file, "[blob]\ncommand = [\"blob\"]\n[later]\ncommand = [\"later\"]\nparams.n.type = \"integer\"\n")
	p.untilLogged(rereadLog)
	check := func() {
		t.Helper()
		for _, tt := range []struct {
			kind, params string
			code         int
			text         string
		}{
			{"upper", "{}", http.StatusNotFound, "no such kind"},
			{"blob", "{}", http.StatusOK, ""},
			{"later", `{"n": 1}`, http.StatusOK, ""},
			{"later", `{"n": "x"}`, http.StatusBadRequest, "params.n"},
		} {
			if code, text := submit(tt.kind, tt.params); code != tt.code || !strings.Contains(text, tt.text) {
				t.Errorf("a job of kind %s with params %s was answered %d %s; want %d", tt.kind, tt.params, code, text, tt.code)
			}
		}
		r, err := g.request(http.MethodGet, "http://"+addr+"/api/v1/openapi.json", testAdmin, nil)
		if text := string(r.body); err != nil || !strings.Contains(text, "Params_later") || strings.Contains(text, "Params_upper") {
			t.Errorf("the description of the API has not the kinds of the file: %d, %v", r.status, err)
		}
	}
	check()
	p.hangUp(file, "[blob]\n")
	p.untilLogged(refusedLog)
	if !strings.Contains(p.log.String(), file+":1:2: blob has no command") {
		t.Errorf("the log does not say what is wrong:\n%s", p.log)
	}
	check()
}

func TestK01ProcessWhoseTerminalHasGoneEndsAsWithoutAKindsFile(t *testing.T) {
	t.Parallel()
	file, _, toml := saysFile(t)
	if err := os.WriteFile(file, []byte(toml("one=1")), 0o600); err != nil {
		t.Fatal(err)
	}
	pty, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("there are no terminals: %v", err)
	}
	defer pty.Close()
	n, err := unix.IoctlGetInt(int(pty.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(pty.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	terminal, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	cmd := batchfleet(t, []string{"PATH=" + os.Getenv("PATH"), "KINDS_FILE=" + file}, "dev", "--addr", "127.0.0.1:0", "--redis-addr", "127.0.0.1:0", "--http-addr", "")
	cmd.Stdin, cmd.SysProcAttr = terminal, &syscall.SysProcAttr{Setsid: true, Setctty: true}
	p := launch(t, cmd)
	terminal.Close()
	p.untilLogged("REDIS_PORT")
	p.hangUp(file, toml("two=2")) // who sends it is not the terminal
	p.untilLogged(rereadLog)
	pty.Close()
	p.exitCode(time.Minute)
	if s, ok := p.ProcessState.Sys().(syscall.WaitStatus); !ok || s.Signal() != syscall.SIGHUP {
		t.Errorf("it ended with %v, want SIGHUP", p.ProcessState)
	}
}
