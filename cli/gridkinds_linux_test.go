package cli

import (
	"os"
	"strings"
	"testing"
	"time"
)

const gridKindsFile = `
[words]
description = "how often each word is in a text"
command = ["./words.sh", "{input}", "{output}", "{params.least}"]
outputs = ["words.txt"]
env = ["TOKEN"]
[words.params.least]
type = "integer"
default = 2
min = 1
[single]
command = ["true"]
slots = 1
[gpu]
command = ["true"]
gpus = 1
`

// kindsGrid is a grid with a kinds file.
func kindsGrid(t *testing.T) (g *testGrid, file string) {
	t.Helper()
	g = newTestGrid(t)
	script := `#!/bin/sh
tr -cs '[:alpha:]' '\n' <"$1" | sort | uniq -c | sort -rn | awk -v least="$3" '$1 >= least {print $2, $1}' >"$2/words.txt"
shift 3
echo "$BATCHFLEET_KIND of $GRID_CLIENT_ID with $TOKEN: $*"
`
	file = g.path("kinds.toml")
	for name, text := range map[string]string{file: gridKindsFile + "[words.env_]\n", g.path("words.sh"): script, g.path("input.txt"): "a b a c b a\n"} {
		if err := os.WriteFile(name, []byte(strings.TrimSuffix(text, "[words.env_]\n")), 0o700); err != nil { //nolint:gosec // one is a program
			t.Fatal(err)
		}
	}
	return g, file
}

func TestG60KindsAreExecsOfAGrid(t *testing.T) {
	t.Parallel()
	g, file := kindsGrid(t)
	g.env = append(g.env, "WORKER_MAX_PAR=2", "TOKEN=t")
	l := g.leader("0")
	w := g.worker(l.host, l.port, "--kinds", file)
	submit := func(code int, want string, args ...string) {
		t.Helper()
		g.run(code, want, append([]string{"submit", "--leader", l.addr, "--client", "clientA", "--wait"}, args...)...)
	}
	submit(0, "words of clientA with t: x y\n", "--file", "input.txt", "-o", "out", "words", "x", "y")
	if text, err := os.ReadFile(g.path("out", "words.txt")); err != nil || string(text) != "a 3\nb 2\n" {
		t.Errorf("the words are %q (%v)", text, err)
	}
	submit(0, "words of clientA", "--kinds", file, "--param", "least=3", "--file", "input.txt", "-o", "out3", "words")
	if text, err := os.ReadFile(g.path("out3", "words.txt")); err != nil || string(text) != "a 3\n" {
		t.Errorf("the words that are there three times are %q (%v)", text, err)
	}
	// What is wrong is told by the command if it knows the kind, and else by the worker.
	submit(2, "params.least is 0: must be at least 1", "--kinds", file, "--param", "least=0", "words")
	submit(1, "rejected.*params.least is 0: must be at least 1", "--param", "least=0", "--file", "input.txt", "words")
	submit(1, "rejected.*kind words needs a file", "words")
	submit(1, "rejected.*kind gpu does not run on this worker: it holds GPUs", "gpu")
	submit(1, "rejected.*kind single does not run on this worker: no more than 1 of its jobs .*set WORKER_MAX_PAR=1", "single")
	submit(1, "rejected.*no file later.exe in .*, and no such kind", "later")
	submit(0, "", "calcA", "1") // programs run as before
	w.untilLogged(`"msg":"jobs of a kind do not run on this worker","kind":"gpu"`)

	w.hangUp(file, gridKindsFile+"[later]\ncommand = [\"./words.sh\", \"{input}\", \"{output}\", \"1\"]\n")
	w.untilLogged(rereadLog)
	submit(0, "later of clientA", "--file", "input.txt", "later")
	w.hangUp(file, "[broken]\n")
	w.untilLogged(refusedLog)
	submit(0, "later of clientA", "--file", "input.txt", "later")
	w.stop()
}

func TestG60AKindsFileWithMistakesEndsAWorker(t *testing.T) {
	t.Parallel()
	g, file := kindsGrid(t)
	g.run(2, "missing.toml: no such file", "worker", "127.0.0.1", "5000", "--kinds", "missing.toml", "--jobs-dir", "jobs")
	if err := os.WriteFile(file, []byte("[words]\ncomand = [\"true\"]\n[other]\ncommand = [\"./missing\"]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	g.env = append(g.env, "KINDS_FILE="+file)
	g.run(2, "kinds.toml:2:1: words.comand is no key of a kind", "worker", "127.0.0.1", "5000", "--jobs-dir", "jobs")
	g.run(2, "words.comand is no key of a kind", "submit", "--client", "me", "words")
	if err := os.WriteFile(file, []byte("[other]\ncommand = [\"./missing\"]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	g.run(2, "kinds.toml:2:12: other.command has .*/missing\", which is not there", "worker", "127.0.0.1", "5000", "--jobs-dir", "jobs")
	g.run(1, "FAIL +kinds +./missing: .*which is not there", "doctor", "worker", "127.0.0.1", "1", "--jobs-dir", "jobs")
	if _, err := os.Stat(g.path("jobs")); err == nil {
		t.Error("jobs was made")
	}
}

func TestG69DoctorLooksAtTheKindsOfAWorker(t *testing.T) {
	t.Parallel()
	g, file := kindsGrid(t)
	g.script("words", "echo hidden")
	l := g.leader("0")
	doctor := func(code int, want string, args ...string) {
		t.Helper()
		g.run(code, want, append([]string{"doctor", "worker", l.host, l.port, "--jobs-dir", "jobs", "--kinds", file}, args...)...)
	}
	doctor(1, "ok +kinds +[^ ]*kinds.toml: 3 kinds, no mistakes.*ok +kinds +words: it runs, and not exe/words.exe.*"+
		"FAIL +kinds +single: no more than 1 of its jobs.*FAIL +kinds +gpu: it holds GPUs.*2 of .* checks failed", "--exe-dir", "exe")
	doctor(0, "ok +programs +none: 0 programs", "job.assign.words", "--exe-dir", "none") // the others are not for it
}

func TestG69DevRunsAGridWithKinds(t *testing.T) {
	t.Parallel()
	g, file := kindsGrid(t)
	cmd := batchfleet(t, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + g.dir, "TOKEN=t"}, "dev", "--grid", "--kinds", file)
	cmd.Dir = g.dir
	dev := launch(t, cmd)
	until(t, time.Minute, "three results are shown", func() bool { return strings.Count(dev.log.String(), " OK stdout=") == 3 })
	leader := ""
	for line := range strings.Lines(dev.log.String()) {
		if words := strings.Fields(line); len(words) == 2 && words[0] == "Leader" {
			leader = words[1]
		}
	}
	g.run(0, "words of me with t: \n", "submit", "--leader", leader, "--client", "me", "--wait", "--file", "input.txt", "words")
	if !strings.Contains(dev.log.String(), "Kinds      of "+file) {
		t.Errorf("dev says nothing of the kinds:\n%s", dev.log)
	}
	if code, _ := dev.terminate(); code != 0 {
		t.Errorf("exit code %d after SIGTERM:\n%s", code, dev.log)
	}
}
