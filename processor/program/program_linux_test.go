package program_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/batchfleet/batchfleet/jobs"
)

func TestK02ValuesStayOneArgumentAndReachNoShell(t *testing.T) {
	r := open(t, `for a; do printf '%s\0' "$a"; done >"$BATCHFLEET_OUTPUT/args"`, "[k.params.text]\ntype = \"string\"\n", "{params.text}", "x{params.text}y", "$HOME", "{job_id}-{attempt}")
	for id, text := range map[string]string{
		"quote": `a "b' c`, "shell": "$(touch /tmp/x); `id` && rm -rf *", "lines": "a\nb\n", "glob": "* ?", "empty": "", "braces": "{input} {{x}}", "long": strings.Repeat("é", 2000),
	} {
		payload, _ := json.Marshal(map[string]string{"text": text})
		job := jobs.Job{ID: jobs.ID(id), Payload: string(payload)}
		r.must(job)
		want := strings.Join([]string{text, "x" + text + "y", "$HOME", id + "-1", ""}, "\x00")
		if got := r.read(job.ID, "args"); got != want {
			t.Errorf("%s: the arguments are %q, want %q", id, got, want)
		}
	}
}

func TestK03WorkerChecksParamsAgain(t *testing.T) {
	r := open(t, `echo ran >"$BATCHFLEET_OUTPUT/out"`, "retries = 5\n[k.params.dpi]\ntype = \"integer\"\nmin = 10\n")
	for payload, want := range map[string]string{`{"dpi":9}`: "params.dpi is 9", `{"dpi":"x"}`: "params.dpi", `{"dpj":60}`: "params.dpj", `[]`: "params are", `{"dpi":`: "params"} {
		f := r.fails(jobs.Job{ID: "j", Payload: payload}, 1, 0)
		if f.Code != "INVALID_PARAMS" || !f.Final || f.Retry || !strings.Contains(f.Error(), want) {
			t.Errorf("%s: %+v, want one that says %q and is final", payload, f, want)
		}
	}
	if names := r.objects(); names != nil {
		t.Errorf("a program ran: there is %q", names)
	}
}

func TestK04ProgramHasAWorldOfItsOwn(t *testing.T) {
	t.Setenv("SECRET_OF_THE_WORKER", "x")
	r := open(t, `
env >"$BATCHFLEET_OUTPUT/env"
cat >"$BATCHFLEET_OUTPUT/stdin"
cat "$BATCHFLEET_PARAMS" >"$BATCHFLEET_OUTPUT/params"
pwd >"$BATCHFLEET_OUTPUT/pwd"
ls -A >"$BATCHFLEET_OUTPUT/ls"
cat "$BATCHFLEET_INPUT" >"$BATCHFLEET_OUTPUT/input"
`, "[k.params.dpi]\ntype = \"integer\"\ndefault = 60\n")
	r.put("uploads/j/a b.txt", "the input")
	r.must(jobs.Job{ID: "j", Kind: "k", Input: "uploads/j/a b.txt", Trace: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"})

	env := map[string]string{}
	for line := range strings.Lines(r.read("j", "env")) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		env[name] = value
	}
	work := strings.TrimSpace(r.read("j", "pwd"))
	for name, want := range map[string]string{
		"BATCHFLEET_JOB_ID": "j", "BATCHFLEET_KIND": "k", "BATCHFLEET_ATTEMPT": "1", "BATCHFLEET_DEADLINE": "2031-01-02T03:04:05Z",
		"TRACEPARENT": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "PATH": os.Getenv("PATH"), "HOME": work, "TMPDIR": work, "LANG": "C.UTF-8",
		"CUDA_VISIBLE_DEVICES": "",
	} {
		if got, set := env[name]; got != want || !set {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
		delete(env, name)
	}
	for _, name := range []string{"BATCHFLEET_INPUT", "BATCHFLEET_OUTPUT", "BATCHFLEET_CHECKPOINT", "BATCHFLEET_PARAMS"} {
		if !strings.HasPrefix(env[name], "/") {
			t.Errorf("%s is %q, want an absolute path", name, env[name])
		}
		delete(env, name)
	}
	for _, name := range []string{"PWD", "OLDPWD", "SHLVL", "_", "BATCHFLEET_RUN"} { // of the shell; the marker
		delete(env, name)
	}
	for name := range env {
		t.Errorf("the program has inherited %s", name)
	}
	for name, want := range map[string]string{"stdin": `{"dpi":60}`, "params": `{"dpi":60}`, "ls": "", "input": "the input"} {
		if got := r.read("j", name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if files := r.left(); files != nil {
		t.Errorf("it has left %q", files)
	}
}

func TestK05InputsAreCheckedAndCopied(t *testing.T) {
	r := open(t, `cat "$1" >"$BATCHFLEET_OUTPUT/out"; echo more >>"$1" || echo "input is read-only"`, "max_input = 10\nretries = 3\n", "{input}")
	r.put("in/ten", "0123456789")
	r.put("in/eleven", "0123456789x")
	if res := r.must(jobs.Job{ID: "ten", Input: "in/ten"}); len(res.Inputs) != 1 || res.Inputs[0].Size != 10 || res.Inputs[0].Name != "in/ten" {
		t.Errorf("the result has %+v", res.Inputs)
	}
	for id, want := range map[string]string{"in/eleven": "INPUT_TOO_LARGE", "in/none": "INPUT_MISSING", "../etc/passwd": "INPUT_MISSING"} {
		f := r.fails(jobs.Job{ID: "j", Input: id}, 1, 0)
		if f.Code != want || !f.Final || f.Retry {
			t.Errorf("%s: %s %v (final %t), want %s", id, f.Code, f, f.Final, want)
		}
	}
	f := r.fails(jobs.Job{ID: "j"}, 1, 0)
	if f.Code != "INVALID_PARAMS" || !f.Final {
		t.Errorf("without an input: %s %v", f.Code, f)
	}
}

func TestK06WholeLogIsAnArtifact(t *testing.T) {
	r := open(t, `echo one; echo "::progress 1/2 half"; echo two >&2; printf 'no end'`, "keep_log = true\n")
	res := r.must(jobs.Job{ID: "j"})
	if len(res.Artifacts) != 1 || res.Artifacts[0].Name != "log.txt" {
		t.Fatalf("there is %+v", res.Artifacts)
	}
	got := strings.Split(strings.TrimSpace(r.read("j", "log.txt")), "\n")
	slices.Sort(got) // two streams
	if diff := cmp.Diff([]string{"::progress 1/2 half", "no end", "one", "two"}, got); diff != "" {
		t.Error(diff)
	}
	slices.Sort(r.lines)
	if diff := cmp.Diff([]string{"no end", "one", "two"}, r.lines); diff != "" {
		t.Error(diff)
	}
	shown := slices.ContainsFunc(r.reports, func(p jobs.Progress) bool { return p.Done == 1 && p.Total == 2 && p.Message == "half" })
	if !shown {
		t.Errorf("progress was %+v", r.reports)
	}
}

func TestK08ExitCodesDecide(t *testing.T) {
	for _, tt := range []struct {
		name, script, toml string
		failures           int
		code, reason       string
		final, retry       bool
		after              time.Duration
	}{
		{"a failure is final without retries", "echo first >&2; echo the cause >&2; exit 3", "", 0, "PROGRAM_FAILED", "exit 3: the cause", false, false, 0},
		{"it is made again with retries", "exit 3", "retries = 2", 0, "PROGRAM_FAILED", "exit 3", false, true, 10 * time.Second},
		{"later and later", "exit 3", "retries = 9\nbackoff = \"1s..5s\"", 2, "PROGRAM_FAILED", "exit 3", false, true, 4 * time.Second},
		{"to a limit", "exit 3", "retries = 99\nbackoff = \"1s..5s\"", 50, "PROGRAM_FAILED", "exit 3", false, true, 5 * time.Second},
		{"and not more often than that", "exit 3", "retries = 2", 2, "PROGRAM_FAILED", "exit 3", false, false, 0},
		{"EX_DATAERR is final", "exit 65", "retries = 2", 0, "PROGRAM_FAILED", "exit 65", true, false, 0},
		{"EX_TEMPFAIL is made again", "exit 75", "", 0, "PROGRAM_FAILED", "exit 75", false, true, 10 * time.Second},
		{"ten times", "exit 75", "", 10, "PROGRAM_FAILED", "exit 75", false, false, 0},
		{"codes by kind: final", "exit 4", "retries = 2\nfinal_exit = [4]", 0, "PROGRAM_FAILED", "exit 4", true, false, 0},
		{"codes by kind: again", "exit 4", "retry_exit = [4]", 0, "PROGRAM_FAILED", "exit 4", false, true, 10 * time.Second},
		{"a signal", "kill -SEGV $$", "", 0, "PROGRAM_FAILED", "signal 11", false, false, 0},
		{"a program that cannot be started by its interpreter", "exit 126", "", 0, "PROGRAM_FAILED", "exit 126", false, false, 0},
		{"the processor's time", "while :; do :; done", "cpu = \"1s\"", 0, "LIMIT_EXCEEDED", "", false, false, 0},
		{"too much on disk", "i=0; while :; do i=$((i + 1)); head -c 1000000 /dev/zero >$i; done", "disk = \"8MiB\"", 0, "DISK_LIMIT", "8 MiB", false, false, 0},
		{"an output that is missing", "exit 0", "outputs = [\"*.png\"]", 0, "OUTPUT_MISSING", "*.png", false, false, 0},
		{"an output that is missing, with retries", "exit 0", "outputs = [\"*.png\"]\nretries = 1", 0, "OUTPUT_MISSING", "*.png", false, true, 10 * time.Second},
		{"one of two outputs that is missing", ">\"$BATCHFLEET_OUTPUT/a.png\"", "outputs = [\"*.png\", \"*.txt\"]", 0, "OUTPUT_MISSING", "*.txt", false, false, 0},
		{"an output that cannot be kept", "mkdir \"$BATCHFLEET_OUTPUT/a.png\"", "outputs = [\"*.png\", \"*.txt\"]", 0, "OUTPUT_INVALID", "a.png", false, false, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := open(t, tt.script, tt.toml)
			f := r.fails(jobs.Job{ID: "j"}, 1, tt.failures)
			if f.Code != tt.code || !strings.Contains(f.Error(), tt.reason) || f.Final != tt.final || f.Retry != tt.retry || f.RetryAfter != tt.after {
				t.Errorf("%s %q, final %t, retry %t after %s", f.Code, f, f.Final, f.Retry, f.RetryAfter)
			}
			if names := r.objects(); names != nil {
				t.Errorf("it has stored %q", names)
			}
		})
	}
}

func TestK09OnlyRegularFilesAreOutputs(t *testing.T) {
	outside := t.TempDir() + "/secret"
	write(t, outside, "secret", 0o600)
	for _, tt := range []struct{ name, script, toml, want string }{
		{"a link", `ln -s ` + outside + ` "$1/out"`, "", "output out"},
		{"a FIFO", `mkfifo "$1/out"`, "", "output out"},
		{"a directory", `mkdir "$1/out"`, "", "output out is a directory: pack it into a file, as tar does"},
		{"a link by a pattern", `ln -s ` + outside + ` "$1/out.png"`, `outputs = ["*.png"]`, "output out.png"},
		{"its directory is a link", `rmdir "$1"; ln -s / "$1"`, "", "{output}"},
		{"its directory is gone", `rmdir "$1"`, "", "{output}"},
		{"a hidden file", `echo x >"$1/.out"`, "", ".out"},
		{"a blank", `echo x >"$1/a b"`, "", "a b"},
		{"the name of the result", `echo '{"job_id":"x"}' >"$1/result.json"`, "", "result.json"},
		{"too many files", `for n in 1 2 3; do echo x >"$1/$n"; done`, "max_files = 2", "more than 2 outputs"},
		{"a hundred gigabytes of nothing", `truncate -s 100G "$1/out"`, "disk = \"1GiB\"", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := open(t, tt.script, tt.toml, "{output}")
			f := r.fails(jobs.Job{ID: "j"}, 1, 0)
			if !strings.Contains(f.Error(), tt.want) || strings.Contains(f.Error(), r.dir) {
				t.Errorf("it failed with %q, want %q and no path of this machine", f, tt.want)
			}
			if names := r.objects(); names != nil {
				t.Errorf("it has stored %q", names)
			}
			if files := r.left(); files != nil {
				t.Errorf("it has left %q", files)
			}
		})
	}
}

func TestK09OtherFilesThanThePatternsNameAreNotKept(t *testing.T) {
	r := open(t, `echo a >"$1/a.png"; echo b >"$1/b.tmp"; mkdir "$1/cache"; ln -s /etc/passwd "$1/link"`, `outputs = ["*.png"]`, "{output}")
	if res := r.must(jobs.Job{ID: "j"}); len(res.Artifacts) != 1 || res.Artifacts[0].Name != "a.png" {
		t.Errorf("kept %+v", res.Artifacts)
	}
}

func TestK11CheckpointSurvivesAttempts(t *testing.T) {
	r := open(t, `
n=$(cat "$1/count" 2>/dev/null || echo 0)
echo $((n + 1)) >"$1/.count" && mv "$1/.count" "$1/count"
[ "$n" -ge 2 ] || exit 75
echo "$n" >"$BATCHFLEET_OUTPUT/out"`, "", "{checkpoint}")
	for attempt := 1; attempt < 3; attempt++ {
		if f := r.fails(jobs.Job{ID: "j"}, attempt, attempt-1); !f.Retry {
			t.Fatalf("attempt %d: %v", attempt, f)
		}
	}
	if _, err := r.run(t.Context(), jobs.Job{ID: "j"}, 3, 2); err != nil {
		t.Fatal(err)
	}
	if got := r.read("j", "out"); got != "2\n" {
		t.Errorf("the third attempt has seen %q of those before, want 2", got)
	}
	// The job had ended, so its checkpoint is gone, and another job never had it.
	for _, id := range []jobs.ID{"j", "other"} {
		if f := r.fails(jobs.Job{ID: id}, 1, 0); !f.Retry {
			t.Errorf("%s: %v", id, f)
		}
	}
}

func TestK11CheckpointTravels(t *testing.T) {
	script := `
mkdir -p "$1/sub"
[ ! -e "$1/sub/done" ] || { cat "$1/sub/done" >"$BATCHFLEET_OUTPUT/out"; exit 0; }
echo half >"$1/.new" && mv "$1/.new" "$1/sub/done"; echo unfinished >"$1/.half"
exit 75`
	r := open(t, script, "checkpoint_max = \"1MiB\"", "{checkpoint}")
	if f := r.fails(jobs.Job{ID: "j"}, 1, 0); !f.Retry {
		t.Fatal(f)
	}
	if diff := cmp.Diff([]string{"results/j/checkpoint.tar"}, r.objects()); diff != "" {
		t.Fatal(diff)
	}
	elsewhere := open(t, script, "checkpoint_max = \"1MiB\"", "{checkpoint}")
	elsewhere.handler.Store = r.store
	if _, err := elsewhere.run(t.Context(), jobs.Job{ID: "j"}, 2, 1); err != nil {
		t.Fatal(err)
	}
	if got := r.read("j", "out"); got != "half\n" {
		t.Errorf("it went on from %q", got)
	}
	if diff := cmp.Diff([]string{"results/j/artifacts/out", "results/j/result.json"}, r.objects()); diff != "" {
		t.Error(diff)
	}
}

func TestK11CheckpointIsStoredWhileTheProgramRuns(t *testing.T) {
	r := open(t, `echo saved >"$1/state"; echo up; while [ ! -e "$1/go" ]; do sleep 0.05; done`, "checkpoint_max = \"1MiB\"", "{checkpoint}")
	r.handler.CheckpointEvery = 20 * time.Millisecond
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := r.run(ctx, jobs.Job{ID: "j"}, 1, 0)
		ended <- err
	}()
	for !slices.Contains(r.objects(), "results/j/checkpoint.tar") {
		select {
		case err := <-ended:
			t.Fatalf("it ended with %v", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
	cancel(jobs.ErrDrained)
	if err := <-ended; !errors.Is(err, jobs.ErrDrained) {
		t.Errorf("it ended with %v", err)
	}
	if diff := cmp.Diff([]string{"results/j/checkpoint.tar"}, r.objects()); diff != "" {
		t.Error(diff)
	}
}

func TestK11CheckpointThatIsTooLargeStays(t *testing.T) {
	r := open(t, `head -c 2000000 /dev/zero >"$1/big"; [ "$2" = 2 ] || exit 75; ls "$1" >"$BATCHFLEET_OUTPUT/out"`, "checkpoint_max = \"1MiB\"", "{checkpoint}", "{attempt}")
	if f := r.fails(jobs.Job{ID: "j"}, 1, 0); !f.Retry {
		t.Fatal(f)
	}
	if names := r.objects(); names != nil {
		t.Errorf("it has stored %q", names)
	}
	if _, err := r.run(t.Context(), jobs.Job{ID: "j"}, 2, 1); err != nil {
		t.Fatal(err)
	}
	if got := r.read("j", "out"); got != "big\n" {
		t.Errorf("this machine had %q", got)
	}
}

func TestK12CheckpointCountsForTheDisk(t *testing.T) {
	const fill = `i=0; while :; do i=$((i + 1)); head -c 1000000 /dev/zero >"$1/$i"; sleep 0.01; done`
	for name, script := range map[string]string{
		"a checkpoint alone":          fill,
		"a checkpoint with the files": `head -c 5000000 /dev/zero >big; head -c 5000000 /dev/zero >"$1/big"; while :; do sleep 0.1; done`,
	} {
		t.Run(name, func(t *testing.T) {
			r := open(t, script, "disk = \"8MiB\"", "{checkpoint}")
			f := r.fails(jobs.Job{ID: "j"}, 1, 0)
			if f.Code != "DISK_LIMIT" || !strings.Contains(f.Error(), "8 MiB") {
				t.Errorf("it failed with %s %q", f.Code, f)
			}
			if left, _ := filepath.Glob(filepath.Join(r.dir, "batchfleet-scratch", "checkpoints", "*")); left != nil {
				t.Errorf("the job has ended, and %q is left", left)
			}
		})
	}
	// A file that has a name in both counts once.
	r := open(t, `head -c 5000000 /dev/zero >"$1/big"; ln "$1/big" same; sleep 1.5; echo x >"$BATCHFLEET_OUTPUT/out"`, "disk = \"8MiB\"", "{checkpoint}")
	r.must(jobs.Job{ID: "linked"})
}

func TestCanceledProgramLeavesNothing(t *testing.T) {
	r := open(t, `trap 'echo stopped; exit 0' TERM; echo half >"$1/out"; echo up; while :; do sleep 0.05; done`, "retries = 3\ncheckpoint_max = \"1MiB\"", "{checkpoint}")
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := r.run(ctx, jobs.Job{ID: "j"}, 1, 0)
		ended <- err
	}()
	for up := false; !up; time.Sleep(5 * time.Millisecond) {
		r.mu.Lock()
		up = slices.Contains(r.lines, "up")
		r.mu.Unlock()
	}
	cancel(jobs.ErrCanceled)
	if err := <-ended; !errors.Is(err, jobs.ErrCanceled) {
		t.Errorf("it ended with %v", err)
	}
	if !slices.Contains(r.lines, "stopped") {
		t.Error("the program was not asked to stop")
	}
	if names, files := r.objects(), r.left(); names != nil || files != nil {
		t.Errorf("there is %q, and on disk %q", names, files)
	}
}

func TestEarlierResultIsTakenAsItIs(t *testing.T) {
	r := open(t, `echo x >"$BATCHFLEET_OUTPUT/out"`, "")
	r.put("in/a", "a")
	job := jobs.Job{ID: "j", Input: "in/a"}
	if _, found, err := r.handler.Earlier(t.Context(), job); found || err != nil {
		t.Errorf("before: %t, %v", found, err)
	}
	r.must(job)
	if got, found, err := r.handler.Earlier(t.Context(), job); !found || err != nil || got.Object != "results/j/result.json" {
		t.Errorf("after: %+v, %t, %v", got, found, err)
	}
	for _, other := range []jobs.Job{{ID: "j"}, {ID: "j", Input: "in/b"}, {ID: "k", Input: "in/a"}} {
		if _, found, _ := r.handler.Earlier(t.Context(), other); found {
			t.Errorf("%+v has the result of another job", other)
		}
	}
}
