package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/internal/testrun"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/processor/artifact"
)

// hostile is a program that does what it should not.
type hostile struct {
	name, script, toml string
	code, reason       string // of its failure, one of several codes; both empty if it succeeds
}

// hostilePrograms end within seconds, by themselves or by a limit. Their input is in $1, of a few bytes.
var hostilePrograms = []hostile{
	{"forks", `for n in $(seq 150); do (setsid sh -c 'trap "" TERM HUP INT; while :; do sleep 1; done' >/dev/null 2>&1 &) ; done; echo x >"$BATCHFLEET_OUTPUT/out"`, "", "", ""},
	{"forks-deeply", `fork() { [ "$1" = 0 ] || (fork $(($1 - 1)) & fork $(($1 - 1))); sleep 0.2; }; fork 6; echo x >"$BATCHFLEET_OUTPUT/out"`, "", "", ""},
	{"deaf", `trap "" TERM INT HUP; while :; do sleep 0.1; done`, "timeout = \"1s\"", "JOB_TIMEOUT", "did not end within 1s"},
	{"stopped", `kill -STOP $$`, "timeout = \"1s\"", "JOB_TIMEOUT", "did not end within 1s"},
	{"disk", `i=0; while :; do i=$((i + 1)); head -c 500000 /dev/zero >"$HOME/$i"; done`, "disk = \"4MiB\"", "DISK_LIMIT", "4 MiB of disk"},
	{"one-file", `cat /dev/zero >"$BATCHFLEET_OUTPUT/out"`, "disk = \"4MiB\"", "PROGRAM_FAILED or DISK_LIMIT", ""},
	{"memory", `head -c 200000000 /dev/zero | tail >/dev/null || { echo "out of memory" >&2; exit 1; }`, "memory = \"64MiB\"", "OUT_OF_MEMORY", ""},
	{"silent", `exec >&- 2>&- <&-; sleep 0.3; echo x >"$BATCHFLEET_OUTPUT/out"`, "", "", ""},
	{"loud", `yes | head -c 20000000; printf '\033[2J\000\377%0100000d\r' 1; echo x >"$BATCHFLEET_OUTPUT/out"`, "", "", ""},
	{"changes-input", `chmod 700 "$(dirname "$1")"; chmod 600 "$1"; echo changed >"$1"; cp "$1" "$BATCHFLEET_OUTPUT/out"`, "", "", ""},
	{"forges-result", `echo "{\"job_id\": \"$BATCHFLEET_JOB_ID\"}" >"$BATCHFLEET_OUTPUT/result.json"`, "", "OUTPUT_INVALID", "result.json"},
	{"many-files", `cd "$BATCHFLEET_OUTPUT"; seq 100000 | xargs touch`, "", "OUTPUT_INVALID", "more than 1000 outputs"},
	{"many-files-elsewhere", `mkdir -p "$HOME/a/b"; cd "$HOME/a/b"; seq 20000 | xargs touch; chmod 0 .; echo x >"$BATCHFLEET_OUTPUT/out"`, "", "", ""},
	{"sparse", `for n in 1 2 3 4 5; do truncate -s 30G "$BATCHFLEET_OUTPUT/$n"; done`, "disk = \"40GiB\"", "OUTPUT_INVALID", "larger than"},
	{"sparse-alone", `truncate -s 100G "$BATCHFLEET_OUTPUT/out"`, "disk = \"1GiB\"", "PROGRAM_FAILED or OUTPUT_INVALID", ""},
	{"link", `ln -s "$1" "$BATCHFLEET_OUTPUT/out"`, "", "OUTPUT_INVALID", "output out"},
	{"link-to-secret", `ln -s /etc/passwd "$BATCHFLEET_OUTPUT/out"`, "", "OUTPUT_INVALID", "output out"},
	{"fifo", `mkfifo "$BATCHFLEET_OUTPUT/out"`, "", "OUTPUT_INVALID", "output out"},
	{"device", `mknod "$BATCHFLEET_OUTPUT/out" c 1 5 || ln -s /dev/zero "$BATCHFLEET_OUTPUT/out"`, "", "OUTPUT_INVALID", "output out"},
	{"above", `echo x >"$BATCHFLEET_OUTPUT/../x"; echo x >"$BATCHFLEET_OUTPUT/out"`, "", "", ""},
	{"moves-output", `mv "$BATCHFLEET_OUTPUT" "$HOME/o"; ln -s /etc "$BATCHFLEET_OUTPUT"`, "", "OUTPUT_INVALID", "{output} is no directory"},
	{"deep", `cd "$HOME"; for n in $(seq 300); do mkdir dddddddddddddddddddd && cd dddddddddddddddddddd; done; echo x >"$BATCHFLEET_OUTPUT/out"`, "", "", ""},
	{"kills-itself", `kill -KILL $$`, "", "PROGRAM_FAILED", "signal 9"},
}

func TestK12HostileProgramsHarmNothing(t *testing.T) {
	t.Parallel()
	testrun.Once(t, "records tell it")
	f := newTestFleet(t)
	dir := t.TempDir()
	script, toml := "#!/bin/sh\nkind=$1; shift\ncase $kind in\n", ""
	for _, h := range hostilePrograms {
		script += h.name + ")\n" + h.script + "\n;;\n"
		toml += fmt.Sprintf("[%s]\ncommand = [\"./k.sh\", %q, \"{input}\"]\n%s\n", h.name, h.name, h.toml)
	}
	file, input := filepath.Join(dir, "kinds.toml"), filepath.Join(f.dir, "uploads", "in.txt")
	err := errors.Join(
		os.WriteFile(filepath.Join(dir, "k.sh"), []byte(script+"esac\n"), 0o700), //nolint:gosec // a program
		os.WriteFile(file, []byte(toml), 0o600), os.MkdirAll(filepath.Dir(input), 0o700), os.WriteFile(input, []byte("the input"), 0o600),
	)
	if err != nil {
		t.Fatal(err)
	}
	work := t.TempDir()
	p := f.start("KINDS_FILE="+file, "WORKER_SLOTS=6", "WORK_DIR="+work, "LEASE_TTL=600s", "LEASE_EXTEND_EVERY=300s")
	var ids []jobs.ID
	for _, h := range hostilePrograms {
		id := jobs.ID(fmt.Sprintf("%s-%d", h.name, time.Now().UnixNano()))
		ids = append(ids, id)
		f.send(jobs.Job{ID: id, Kind: jobs.Kind(h.name), Input: "uploads/in.txt"})
	}
	for _, id := range ids {
		until(t, 5*time.Minute, fmt.Sprintf("job %s has ended", id), func() bool { return f.state(id) == "completed" || f.state(id) == "failed" })
	}
	for i, h := range hostilePrograms {
		f.checkHostile(ids[i], h)
	}
	// The worker has outlived them, with its slots and its disk as before.
	f.submit("mock", 1)
	f.untilState(time.Minute, "mock", "completed")
	for _, id := range ids {
		if left := processesOf(id); left != nil {
			t.Errorf("job %s has left processes %v", id, left)
		}
	}
	until(t, time.Minute, "no file is left", func() bool {
		left, err := filepath.Glob(filepath.Join(work, "batchfleet-scratch", "workers", "*", "*-1*"))
		trash, err2 := filepath.Glob(filepath.Join(work, "batchfleet-scratch", "trash", "*"))
		kept, err3 := filepath.Glob(filepath.Join(work, "batchfleet-scratch", "checkpoints", "*"))
		return errors.Join(err, err2, err3) == nil && len(left)+len(trash)+len(kept) == 0
	})
	if text, err := os.ReadFile(input); err != nil || string(text) != "the input" {
		t.Errorf("the input is %q now, %v", text, err)
	}
	if code, _ := p.terminate(); code != 0 {
		t.Errorf("the worker ended with code %d", code)
	}
}

// checkHostile compares how a job of a hostile program has ended.
func (f *testFleet) checkHostile(id jobs.ID, h hostile) {
	f.t.Helper()
	e, err := f.status.Get(f.t.Context(), id)
	if err != nil {
		f.t.Fatal(err)
	}
	if e.Detail.Attempt != 1 {
		f.t.Errorf("%s: it had %d attempts, want 1", h.name, e.Detail.Attempt)
	}
	if h.code == "" {
		if e.Status != "completed" || f.artifact(id, "out") == "" {
			f.t.Errorf("%s: it is %s (%s), want it completed", h.name, e.Status, e.ErrorMsg)
			return
		}
		r := f.stored(id)
		if len(r.Artifacts) != 1 || len(r.Inputs) != 1 || r.Inputs[0].SHA256 != sumOf(strings.NewReader("the input")) {
			f.t.Errorf("%s: the result lists %+v of %+v", h.name, r.Artifacts, r.Inputs)
		}
		return
	}
	if e.Status != "failed" || e.Detail.Code == "" || !strings.Contains(h.code, e.Detail.Code) || !strings.Contains(e.ErrorMsg, h.reason) || strings.Contains(e.ErrorMsg, "/batchfleet-scratch/") {
		f.t.Errorf("%s: it is %s, %s %q, want it failed, %s with %q", h.name, e.Status, e.Detail.Code, e.ErrorMsg, h.code, h.reason)
	}
	var stored []string
	for _, pattern := range []string{filepath.FromSlash(artifact.ObjectName(id, "*")), filepath.Join("results", string(id), "*.*")} {
		found, _ := filepath.Glob(filepath.Join(f.dir, pattern))
		stored = append(stored, found...)
	}
	if stored != nil {
		f.t.Errorf("%s: it has failed, and %q is stored", h.name, stored)
	}
}
