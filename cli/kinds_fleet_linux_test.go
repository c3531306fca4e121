package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/internal/testrun"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/processor/artifact"
	"github.com/batchfleet/batchfleet/status"
	"github.com/batchfleet/batchfleet/storage"
)

// kindsFile writes a kinds file with one kind, k, whose program is a shell script.
func kindsFile(t *testing.T, script, toml string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"k.sh": "#!/bin/sh\n" + script, "kinds.toml": "[k]\ncommand = [\"./k.sh\"]\n" + toml} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil { //nolint:gosec // a program
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "kinds.toml")
}

// processesOf returns the processes of a job's program, wherever they have gone.
func processesOf(id jobs.ID) (pids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		env, err := os.ReadFile(file)
		if err == nil && bytes.Contains(env, []byte("BATCHFLEET_JOB_ID="+string(id)+"\x00")) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// stored returns the result of a job of a kind of one's own.
func (f *testFleet) stored(id jobs.ID) artifact.Result {
	f.t.Helper()
	store, err := storage.NewLocal(f.dir)
	if err != nil {
		f.t.Fatal(err)
	}
	r, err := artifact.Stored(f.t.Context(), store, id)
	if err != nil {
		f.t.Fatal(err)
	}
	return r
}

func (f *testFleet) artifact(id jobs.ID, name string) string {
	f.t.Helper()
	text, err := os.ReadFile(filepath.Join(f.dir, filepath.FromSlash(artifact.ObjectName(id, name))))
	if err != nil {
		f.t.Fatal(err)
	}
	return string(text)
}

// counts counts to 100 in its checkpoint, within ten seconds, and leaves a child in a session of its own and a file. What it
// began with is an output.
const counts = `
cd "$BATCHFLEET_CHECKPOINT"
n=$(cat n 2>/dev/null || echo 0)
echo "$n" >"$BATCHFLEET_OUTPUT/began"
setsid sh -c 'trap "" TERM HUP; while :; do sleep 0.1; done' &
head -c 1000000 /dev/zero >"$HOME/garbage"
while [ "$n" -lt 100 ]; do
  n=$((n + 1)); echo "$n" >.n; mv .n n; echo "::progress $n/100"; sleep 0.1
done`

func TestK12NothingIsLeftOfAProgramWhoseWorkerIsKilled(t *testing.T) {
	t.Parallel()
	testrun.Once(t, kills)
	f := newTestFleet(t)
	file := kindsFile(t, counts, "checkpoint_max = \"1MiB\"\n")
	id := jobs.ID(fmt.Sprintf("killed-%d", time.Now().UnixNano()))
	work := map[string]string{}
	start := func(name string) *process {
		if work[name] == "" {
			work[name] = t.TempDir()
		}
		return f.start("WORKER_NAME="+name, "KINDS_FILE="+file, "WORK_DIR="+work[name], "CHECKPOINT_INTERVAL=0.1", "LEASE_TTL=600s", "LEASE_EXTEND_EVERY=300s")
	}
	f.send(jobs.Job{ID: id, Kind: "k"})
	killed := start("killed")
	until(t, time.Minute, "some progress", func() bool {
		e, err := f.status.Get(t.Context(), id)
		return err == nil && e.Progress > 20
	})
	left := processesOf(id)
	if len(left) < 2 {
		t.Fatalf("its processes are %v: the one in a session of its own is not to be found", left)
	}
	killed.kill()
	start("other")
	// Whichever worker of this machine starts next ends them.
	until(t, time.Minute, "what is left of the program is ended", func() bool {
		return !slices.ContainsFunc(processesOf(id), func(pid int) bool { return slices.Contains(left, pid) })
	})
	start("killed")
	until(t, time.Minute, "its disk is cleaned", func() bool {
		left, err := filepath.Glob(filepath.Join(work["killed"], "batchfleet-scratch", "workers", "*", string(id)+"*"))
		return err == nil && len(left) == 0
	})
	f.untilState(2*time.Minute, id, "completed")
	until(t, time.Minute, "nothing is left of the program", func() bool { return len(processesOf(id)) == 0 })
	if began, _ := strconv.Atoi(strings.TrimSpace(f.artifact(id, "began"))); began < 10 {
		t.Errorf("the attempt that ended began at step %d, want that of the checkpoint", began)
	}
	if r := f.stored(id); r.Attempt != 2 {
		t.Errorf("it ended in attempt %d, want 2", r.Attempt)
	}
}

func TestK10FailedProgramRunsAgainByTheLeaseDelay(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t)
	file := kindsFile(t, `
echo "attempt $BATCHFLEET_ATTEMPT" >&2
[ "$BATCHFLEET_ATTEMPT" = 3 ] || exit 3
echo "$BATCHFLEET_ATTEMPT" >"$BATCHFLEET_OUTPUT/out"`, "retries = 2\nbackoff = \"1s\"\n")
	f.start("KINDS_FILE=" + file)
	f.send(jobs.Job{ID: "third", Kind: "k"})
	f.untilState(time.Minute, "third", "completed")
	if got := f.artifact("third", "out"); got != "3\n" {
		t.Errorf("attempt %q succeeded, want the third", got)
	}
	log, err := f.status.Lines(t.Context(), "third", status.LogQuery{Tail: 100})
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("%+v", log)
	for _, want := range []string{"attempt 1 failed: exit 3: attempt 1; next in 1 s", "attempt 2 failed: exit 3: attempt 2; next in 1 s", "attempt 3 completed"} {
		if !strings.Contains(text, want) {
			t.Errorf("the log has no %q:\n%s", want, text)
		}
	}
}
