package exec

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/kinds"
)

// kindRig opens a runner that has the kinds of a file, and beside it the program prog, which is a script.
func kindRig(t *testing.T, file, script string, limits Limits, environ ...string) *rig {
	t.Helper()
	r := newRig(t, "echo the exe", limits)
	path := filepath.Join(t.TempDir(), "kinds.toml")
	write(t, filepath.Join(filepath.Dir(path), "prog"), "#!/bin/sh\n"+script, 0o755)
	set, err := kinds.Parse(path, []byte(file))
	if err == nil {
		err = set.Executables("/usr/bin:/bin")
	}
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*Kind{}
	for _, k := range set.Kinds {
		all[string(k.Name)] = &Kind{Kind: k, Environ: append([]string{"PATH=/usr/bin:/bin"}, environ...)}
	}
	r.Kind = func(exec string) *Kind { return all[exec] }
	return r
}

// ofKind is a request to run a kind.
func ofKind(kind string, args ...string) wire.JobRequest {
	q := request(args...)
	q.ExecName = kind
	return q
}

func TestG60KindRunsInJobDirectory(t *testing.T) {
	t.Parallel()
	r := kindRig(t, `
[words]
command = ["./prog", "{input}", "{output}", "{work}", "{checkpoint}", "{params}", "--least={params.least}", "{params.none}", "{job_id}", "{attempt}"]
[words.params.least]
type = "integer"
default = 2
[words.params.none]
type = "string"
`, `pwd; ls -a; for a; do echo "$a"; done; cat; echo; cat "$6"; echo made >"$3/new.txt"`, Limits{})
	q := ofKind("words", "more", "a b")
	q.Files = []wire.InputFile{file("b.txt", "b"), file("a.txt", "a")}
	q.Params = json.RawMessage(`{"least":7}`)
	for range 2 { // the second one may have the directory of the first
		q.JobID = wire.NewGUID()
		got := r.ok(q)
		dir := filepath.Join(r.JobsDir, q.JobID.N())
		checkpoint := filepath.Join(r.JobsDir, "batchfleet-scratch", "checkpoints", q.JobID.String(), "data")
		want := strings.Join([]string{
			dir, ".", "..", ".grid", "a.txt", "b.txt", // no program
			dir + "/b.txt", dir + "/a.txt", dir, dir, checkpoint, dir + "/.grid/params", "--least=7", q.JobID.String(), "1", "more", "a b", `{"least":7}`, `{"least":7}`,
		}, "\n")
		if strings.TrimSpace(got.Stdout) != want {
			t.Errorf("stdout is\n%s\nwant\n%s", got.Stdout, want)
		}
		wantFiles(t, got.OutputArchive, map[string]string{"new.txt": "made\n"})
	}
	// An exec that is no kind is a program still, also in a directory that a kind has left.
	if got := r.ok(request()); got.Stdout != "the exe\n" {
		t.Errorf("calcA wrote %q", got.Stdout)
	}
	if got := r.ok(q); !strings.Contains(got.Stdout, "\n.grid\na.txt\nb.txt\n/") {
		t.Errorf("in a directory of a program before a kind finds %q", got.Stdout)
	}
}

func TestG60KindWinsOverProgramOfSameName(t *testing.T) {
	t.Parallel()
	r := kindRig(t, "[words]\ncommand = [\"./prog\"]\n", "echo the kind", Limits{})
	write(t, filepath.Join(r.ExeDir, "words.exe"), "#!/bin/sh\necho the exe", 0o755)
	if got := r.ok(ofKind("words")); got.Stdout != "the kind\n" {
		t.Errorf("it wrote %q", got.Stdout)
	}
	if n := len(r.idle.all); n != 1 {
		t.Errorf("%d directories are kept for other jobs, want that of the kind", n)
	}
	r.fails(ofKind("others"), wire.ReasonRejected, "no file others.exe in "+r.ExeDir+", and no such kind")
}

func TestG67KindAddsItsVariables(t *testing.T) {
	t.Parallel()
	r := kindRig(t, "[words]\ncommand = [\"./prog\"]\n", `tr '\0' '\n' </proc/$$/environ`, Limits{}, "MODEL=/srv/model")
	q := ofKind("words")
	q.Files = []wire.InputFile{file("in.txt", "")}
	q.Env = map[string]string{"LEVEL": "7", "MODEL": "/tmp/mine", "CUDA_VISIBLE_DEVICES": "0"}
	got := r.ok(q)
	dir := filepath.Join(r.JobsDir, q.JobID.N())
	env := map[string]string{}
	for line := range strings.Lines(got.Stdout) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if _, twice := env[name]; twice {
			t.Errorf("%s is there twice", name)
		}
		env[name] = value
	}
	for name, want := range map[string]string{
		"GRID_JOB_ID": q.JobID.String(), "GRID_CLIENT_ID": "clientA", "GRID_ATTEMPT": "1", "PATH": "/usr/bin:/bin", "HOME": dir, "TMPDIR": dir + "/.grid", "LEVEL": "7",
		"BATCHFLEET_JOB_ID": q.JobID.String(), "BATCHFLEET_KIND": "words", "BATCHFLEET_ATTEMPT": "1", "BATCHFLEET_INPUT": dir + "/in.txt", "BATCHFLEET_OUTPUT": dir,
		"BATCHFLEET_CHECKPOINT": env["GRID_CHECKPOINT_DIR"], "BATCHFLEET_PARAMS": dir + "/.grid/params", "BATCHFLEET_DEADLINE": env["GRID_DEADLINE"],
		"MODEL": "/srv/model", "CUDA_VISIBLE_DEVICES": "", // the kind's, whatever the job says
	} {
		if got, ok := env[name]; !ok || got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

func TestG22KindRejectsBadRequests(t *testing.T) {
	t.Parallel()
	r := kindRig(t, `
[one]
command = ["./prog", "--in={input}", "{params.dpi}"]
[one.params.dpi]
type = "integer"
required = true
[dash]
command = ["./prog"]
allow_dash = true
[held]
command = ["./prog"]
[short]
command = ["./prog"]
timeout = "1m"
[missing]
command = ["./prog"]
outputs = ["*.txt", "*.json"]
`, `echo "$@"; echo x >out.txt; echo x >other.bin`, Limits{})
	held := r.Kind("held")
	held.Unfit = errors.New("it is held")
	for _, tt := range []struct {
		name, kind      string
		args            []string
		files           int
		params          string
		timeout         int64
		reason, message string // none if it runs
	}{
		{"no file", "one", nil, 0, `{"dpi":1}`, 0, wire.ReasonRejected, "kind one needs a file"},
		{"two files", "one", nil, 2, `{"dpi":1}`, 0, wire.ReasonRejected, "kind one is for one file"},
		{"no params", "one", nil, 1, ``, 0, wire.ReasonRejected, "params.dpi is missing"},
		{"wrong params", "one", nil, 1, `{"dpi":"x"}`, 0, wire.ReasonRejected, "params.dpi is the string"},
		{"an option", "one", []string{"a", "--exec=sh"}, 1, `{"dpi":1}`, 0, wire.ReasonRejected, `argument 1 of Args is "--exec=sh": kind one takes none that begins with -`},
		{"an allowed option", "dash", []string{"-n"}, 0, ``, 0, "", ""},
		{"no params for a kind without", "dash", nil, 0, `{"dpi":1}`, 0, wire.ReasonRejected, "params.dpi is unknown"},
		{"null", "dash", nil, 0, `null`, 0, "", ""},
		{"params of a program", "calcA", nil, 0, `{"dpi":1}`, 0, wire.ReasonRejected, "exec calcA is no kind of this worker, so it has no Params"},
		{"an unfit kind", "held", nil, 0, ``, 0, wire.ReasonRejected, "kind held does not run on this worker: it is held"},
		{"more time than the kind gives", "short", nil, 0, ``, 61_000, wire.ReasonRejected, "TimeoutMs is 61000, and this worker allows at most 60000"},
		{"without an output", "missing", nil, 0, ``, 0, wire.ReasonError, "there is no output *.json"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := &rig{r.Runner, t}
			q := ofKind(tt.kind, tt.args...)
			q.Params, q.TimeoutMs = json.RawMessage(tt.params), tt.timeout
			for i := range tt.files {
				q.Files = append(q.Files, file(string(rune('a'+i)), "x"))
			}
			if tt.reason == "" {
				r.ok(q)
				return
			}
			r.fails(q, tt.reason, tt.message)
		})
	}
}

func TestG68KindKeepsOnlyItsOutputs(t *testing.T) {
	t.Parallel()
	r := kindRig(t, "[words]\ncommand = [\"./prog\", \"{input}\"]\noutputs = [\"*.txt\", \"out*\"]\n",
		`mkdir sub; echo a >out.txt; echo b >outer; echo c >other.bin; echo d >sub/d.txt; [ -z "$2" ] || exit 3`, Limits{})
	q := ofKind("words")
	q.Files = []wire.InputFile{file("in.txt", "given")}
	want := map[string]string{"out.txt": "a\n", "outer": "b\n"}
	wantFiles(t, r.ok(q).OutputArchive, want)
	// A program that has failed need not have made them.
	q.JobID, q.Args = wire.NewGUID(), []string{"fail"}
	wantFiles(t, r.fails(q, wire.ReasonExit, "exit status 3").OutputArchive, want)
}

func TestG67SmallerLimitOfKindAndWorkerHolds(t *testing.T) {
	t.Parallel()
	file := `
[words]
command = ["./prog"]
timeout = "2h"
memory = "1GiB"
cpu = "1m"
disk = "3GiB"
max_input = "1MiB"
max_files = 3
`
	for _, tt := range []struct {
		name      string
		is, wants Limits
	}{
		{
			"the kind's", Limits{}, Limits{Timeout: 2 * hour, MaxTimeout: 2 * hour, Memory: 1 << 30, CPU: hour / 60, Disk: 3 << 30, Input: 1 << 20, ArchiveFiles: 3},
		},
		{
			"the worker's",
			Limits{Timeout: 10, MaxTimeout: hour, Memory: 1 << 20, CPU: hour / 3600, Disk: 1 << 20, Input: 100, ArchiveFiles: 2},
			Limits{Timeout: hour, MaxTimeout: hour, Memory: 1 << 20, CPU: hour / 3600, Disk: 1 << 20, Input: 100, ArchiveFiles: 2},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := kindRig(t, file, "", tt.is)
			a := &attempt{Runner: r.Runner, Attempt: Attempt{Request: ofKind("words")}}
			a.useKind()
			got := Limits{
				Timeout: a.Limits.Timeout, MaxTimeout: a.Limits.MaxTimeout, Memory: a.Limits.Memory, CPU: a.Limits.CPU, Disk: a.Limits.Disk,
				Input: a.Limits.Input, ArchiveFiles: a.Limits.ArchiveFiles,
			}
			if got != tt.wants {
				t.Errorf("the limits are %+v, want %+v", got, tt.wants)
			}
		})
	}
	r := kindRig(t, strings.Replace(file, `"3GiB"`, `"1MiB"`, 1), `cat /proc/self/limits; head -c 2000000 /dev/zero >big`, Limits{})
	got := r.fails(ofKind("words"), wire.ReasonExit, "exit status 153") // the file would be larger than disk
	if !strings.Contains(got.Stdout, "Max cpu time              60") {
		t.Errorf("the limits of its processes are\n%s", got.Stdout)
	}
}

const hour = 3600e9
