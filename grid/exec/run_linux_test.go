package exec

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/grid/wire"
)

func TestG60ProgramRunsInItsDirectory(t *testing.T) {
	t.Parallel()
	r := newRig(t, `pwd; ls -a; stat -c %a .; cat input.txt; echo "$1" > out.txt; echo err >&2`, Limits{})
	q := request("a b")
	q.Files = []wire.InputFile{file("input.txt", "hello\n")}
	got := r.ok(q)
	dir := filepath.Join(r.JobsDir, q.JobID.N())
	if want := dir + "\n.\n..\n.grid\ncalcA.exe\ninput.txt\n700\nhello\n"; got.Stdout != want || got.Stderr != "err\n" {
		t.Errorf("stdout %q and stderr %q, want %q", got.Stdout, got.Stderr, want)
	}
	wantFiles(t, got.OutputArchive, map[string]string{"out.txt": "a b\n"})
	if got.JobID != q.JobID || got.ClientID != q.ClientID || got.ExecName != q.ExecName || got.Attempt != 1 || got.Worker != "here" {
		t.Errorf("the result is of %+v", got)
	}
}

func TestG22ResultHasExitCodeOrSignal(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, script, reason, message, signal string
		code                                  int
	}{
		{"exit", "echo bad >&2; exit 3", wire.ReasonExit, "exit status 3", "", 3},
		{"signal", "kill -SEGV $$", wire.ReasonExit, "ended by signal 11 (segmentation fault)", "SIGSEGV", -1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, "echo out > kept.txt; "+tt.script, Limits{})
			got := r.fails(request(), tt.reason, tt.message)
			switch {
			case got.Signal != tt.signal:
				t.Errorf("signal %q, want %q", got.Signal, tt.signal)
			case tt.code < 0 && got.ExitCode != nil, tt.code >= 0 && (got.ExitCode == nil || *got.ExitCode != tt.code):
				t.Errorf("exit code %v, want %d", got.ExitCode, tt.code)
			case tt.code >= 0 && got.Stderr != "bad\n":
				t.Errorf("stderr %q, want what the program wrote", got.Stderr)
			}
			wantFiles(t, got.OutputArchive, map[string]string{"kept.txt": "out\n"})
		})
	}
}

func TestG22InvalidRequestsAreRejected(t *testing.T) {
	t.Parallel()
	r := newRig(t, "", Limits{})
	write(t, filepath.Join(r.ExeDir, "text.exe"), "#!/bin/sh\n", 0o644)
	write(t, filepath.Join(r.ExeDir, "odd.exe"), "\x7fELF odd", 0o755)
	write(t, filepath.Join(r.ExeDir, "lost.exe"), "#!/no/such/shell\n", 0o755)
	if err := os.Symlink("/bin/true", filepath.Join(r.ExeDir, "link.exe")); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ exec, reason, message string }{
		{"calcB", wire.ReasonRejected, "exec calcB: no file calcB.exe in " + r.ExeDir},
		{"text", wire.ReasonRejected, "exec text: text.exe in " + r.ExeDir + " cannot be used: it must be a regular file that may be executed (chmod +x)"},
		{"link", wire.ReasonRejected, "exec link: link.exe in " + r.ExeDir + " cannot be used: path escapes from parent"},
		{"odd", wire.ReasonError, "exec odd cannot be started: exec format error"},
		{"lost", wire.ReasonError, "exec lost cannot be started: no such file"},
	} {
		q := request()
		q.ExecName = tt.exec
		if got := r.fails(q, tt.reason, tt.message); got.Stderr != got.Message {
			t.Errorf("%s: stderr %q, want the message, for clients that know only that", tt.exec, got.Stderr)
		}
	}
}

func TestG67ProgramEnvironment(t *testing.T) {
	t.Setenv("SECRET", "x")
	r := newRig(t, `env | sort; cat; ulimit -n; ulimit -c; ulimit -f; nice; test -d "$TMPDIR" && test -d "$GRID_CHECKPOINT_DIR" && echo there`, Limits{OpenFiles: 100, Disk: 1 << 20, Nice: 19})
	q := request()
	q.TimeoutMs = 60_000
	q.Env = map[string]string{"LEVEL": "7"}
	index, array := int64(3), wire.NewGUID()
	q.Index, q.ArrayID, q.Trace = &index, &array, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	began := time.Now()
	got := r.ok(q)
	env := map[string]string{}
	for line := range strings.SplitSeq(got.Stdout, "\n") {
		if name, value, ok := strings.Cut(line, "="); ok {
			env[name] = value
		}
	}
	for _, file := range []string{"../SPEC.md", "../../docs/grid.md"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for name := range env {
			ofShell := slices.Contains([]string{"LEVEL", "PWD", "_", "SHLVL", "OLDPWD"}, name)
			if !ofShell && !strings.Contains(string(text), "`"+name+"`") {
				t.Errorf("%s does not tell of %s", file, name)
			}
		}
	}
	dir := filepath.Join(r.JobsDir, q.JobID.N())
	for name, want := range map[string]string{
		"GRID_JOB_ID": q.JobID.String(), "GRID_ATTEMPT": "1", "GRID_CLIENT_ID": "clientA", "LEVEL": "7",
		"PATH": "/usr/bin:/bin", "HOME": dir, "TMPDIR": dir + "/.grid", "LANG": "C.UTF-8", "GRID_INDEX": "3", "TRACEPARENT": q.Trace,
	} {
		if env[name] != want {
			t.Errorf("%s is %q, want %q", name, env[name], want)
		}
		delete(env, name)
	}
	deadline, err := time.Parse(time.RFC3339, env["GRID_DEADLINE"])
	if err != nil || deadline.Before(began.Add(59*time.Second)) || deadline.After(time.Now().Add(time.Minute)) {
		t.Errorf("GRID_DEADLINE is %q, %v; want a minute after the start", env["GRID_DEADLINE"], err)
	}
	for _, name := range []string{"GRID_DEADLINE", "GRID_CHECKPOINT_DIR", "BATCHFLEET_RUN", "PWD", "_", "SHLVL", "OLDPWD"} {
		delete(env, name)
	}
	if len(env) > 0 {
		t.Errorf("there are other variables: %q", env)
	}
	if !strings.HasSuffix(got.Stdout, "\n100\n0\n2048\n19\nthere\n") { // a file is counted in blocks of 512 bytes
		t.Errorf("stdout ends in %q, want 100 open files, no core, files of 1 MiB, the lowest priority, and directories that are there", got.Stdout[max(0, len(got.Stdout)-40):])
	}
}

func TestG76IndexInArgsAndEnvironment(t *testing.T) {
	t.Parallel()
	r := newRig(t, `echo "$GRID_INDEX" "$@"`, Limits{})
	q := request("--part={i}", "{i}-{i}", "x")
	if got := r.ok(q); got.Stdout != " --part={i} {i}-{i} x\n" || got.Index != nil {
		t.Errorf("a job that is of no array wrote %q, index %v", got.Stdout, got.Index)
	}
	index, array := int64(41), wire.NewGUID()
	q.Index, q.ArrayID = &index, &array
	if got := r.ok(q); got.Stdout != "41 --part=41 41-41 x\n" || got.Index == nil || *got.Index != 41 || *got.ArrayID != array {
		t.Errorf("it wrote %q, index %v, array %v", got.Stdout, got.Index, got.ArrayID)
	}
}
