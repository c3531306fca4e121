package cli

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batchfleet/batchfleet/relay"
)

// lifeKinds: hold runs until there is a file go, in a slot of its own.
const lifeKinds = `
[hold]
command = ["./hold"]
env = ["NOTE"]
slots = 1
` + makeKind

const makeKind = `
[make]
command = ["sh", "-c", "echo made >{output}/out; echo says"]
slots = 1
`

func newLifeRelay(t *testing.T, flags ...string) *testRelay {
	t.Helper()
	r := newTestRelay(t, lifeKinds, append([]string{"--gpus", "none"}, flags...)...)
	r.env = []string{"NOTE=" + r.dir}
	r.program("hold", `echo "$BATCHFLEET_JOB_ID" >>"$NOTE/began"; while [ ! -e "$NOTE/go" ]; do sleep 0.05; done; echo held >"$BATCHFLEET_OUTPUT/out"`)
	return r
}

// storedTask is what task.json has of a task beside what is shown.
type storedTask struct {
	Status           string
	Attempt, Crashes int
}

func (r *testRelay) stored(id string) (task storedTask) {
	r.t.Helper()
	text, err := os.ReadFile(r.runtime("tasks", id, "task.json"))
	if err == nil {
		err = json.Unmarshal(text, &task)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return task
}

func TestR28SecondRelayOfADirectoryDoesNotStart(t *testing.T) {
	t.Parallel()
	r := newLifeRelay(t)
	r.start()
	id := r.create("hold")
	r.has("began")
	second := r.launched("--metrics-addr", "")
	if code := second.exitCode(time.Minute); code != 2 || !strings.Contains(second.log.String(), "another relay uses it") {
		t.Errorf("exit code %d, want 2 and a clear message:\n%s", code, second.log)
	}
	r.write("go", "")
	if r.untilStatus(id, "succeeded"); r.stored(id).Attempt != 1 {
		t.Errorf("the task of the first relay was disturbed: %+v", r.stored(id))
	}
	r.stop()
}

func TestR24TasksAreHandedBackWhenARelayStops(t *testing.T) {
	t.Parallel()
	r := newLifeRelay(t)
	for _, signals := range []int{1, 2} {
		r.start("--drain-timeout", map[int]string{1: "0s", 2: "10m"}[signals])
		_ = os.Remove(filepath.Join(r.dir, "began"))
		id := r.create("hold")
		r.has("began")
		queued := r.create("hold")
		for n := range signals {
			if err := r.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if n+1 < signals {
				r.untilLogged("another signal hands them back")
			}
		}
		if code := r.exitCode(time.Minute); code != 0 {
			t.Errorf("exit code %d after %d signals, want 0:\n%s", code, signals, r.log)
		}
		if task := r.stored(id); task.Status != "queued" || task.Crashes != 0 || task.Attempt != 1 {
			t.Errorf("after %d signals the task is %+v", signals, task)
		}
		untilGone(t, id)
		r.write("go", "")
		r.start()
		for _, id := range []string{id, queued} {
			if r.untilStatus(id, "succeeded"); r.artifact(id, "out") != "held\n" {
				t.Errorf("an artifact of task %s is wrong", id)
			}
		}
		r.stop()
		if err := os.Remove(filepath.Join(r.dir, "go")); err != nil {
			t.Fatal(err)
		}
	}
}

func TestR24TaskWaitsWhileItsKindIsGone(t *testing.T) {
	t.Parallel()
	r := newLifeRelay(t)
	kinds, err := os.ReadFile(filepath.Join(r.dir, "kinds.toml"))
	if err != nil {
		t.Fatal(err)
	}
	r.write("kinds.toml", string(kinds)+strings.ReplaceAll(makeKind, "[make]", "[other]"))
	r.start()
	first := r.create("hold")
	r.has("began")
	second := r.create("hold") // waits for the slot
	read := func(text string) {
		t.Helper()
		before := strings.Count(r.log.String(), "the kinds file was read again")
		r.write("kinds.toml", text)
		if err := r.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		until(t, time.Minute, "the kinds file is read", func() bool { return strings.Count(r.log.String(), "the kinds file was read again") > before })
	}
	read(makeKind)
	r.must(http.StatusBadRequest, http.MethodPost, "/v1/tasks", `{"job_id":"j","kind":"hold"}`)
	r.write("go", "")
	r.untilStatus(first, "succeeded") // what runs is not disturbed
	r.untilStatus(r.create("make"), "succeeded")
	if task := r.task(second); task.Status != "queued" {
		t.Errorf("a task whose kind is gone is %s", task.Status)
	}
	// Also at a start.
	r.stop()
	r.start()
	r.untilStatus(r.create("make"), "succeeded")
	if task := r.task(second); task.Status != "queued" {
		t.Errorf("a task whose kind is gone is %s after a start", task.Status)
	}
	if strings.Contains(r.log.String(), "left to other workers\",\"job\"") {
		t.Errorf("it is tried again and again:\n%s", r.log)
	}
	r.stop()
	r.write("kinds.toml", string(kinds))
	r.start()
	r.untilStatus(second, "succeeded")
	r.stop()
}

// A relay that runs takes a new token beside the old one, then instead of it, and a file without tokens changes nothing.
func TestR02RunningRelayTakesNewTokens(t *testing.T) {
	t.Parallel()
	r := newLifeRelay(t)
	r.start()
	id := r.create("hold")
	r.has("began")
	const next = "fedcba9876543210fedcba9876543210"
	read := func(text, says string) {
		t.Helper()
		r.write("relay.token", text)
		before := strings.Count(r.log.String(), says)
		if err := r.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		until(t, time.Minute, "it says that "+says, func() bool { return strings.Count(r.log.String(), says) > before })
	}
	accepts := func(token string, want int) {
		t.Helper()
		if status, answer, err := r.ask(http.MethodGet, "/v1/tasks/"+id, "", relay.TokenHeader, token); err != nil || status != want {
			t.Errorf("with token %.4s…: %d %s, %v, want %d", token, status, answer, err, want)
		}
	}
	accepts(next, http.StatusUnauthorized)
	read(relayToken+"\n"+next+"\n", "read the tokens again")
	accepts(relayToken, http.StatusOK)
	accepts(next, http.StatusOK)
	read(next+"\n", "read the tokens again")
	accepts(relayToken, http.StatusUnauthorized)
	accepts(next, http.StatusOK)
	read("", "the tokens stay as they are")
	accepts(relayToken, http.StatusUnauthorized)
	accepts(next, http.StatusOK)
	r.write("go", "")
	until(t, time.Minute, "the task that ran meanwhile has ended", func() bool {
		_, answer, err := r.ask(http.MethodGet, "/v1/tasks/"+id, "", relay.TokenHeader, next)
		return err == nil && strings.Contains(answer, `"status":"succeeded"`)
	})
	r.stop()
}

// No file may grow for a while: what a full disk looks like to one process.
func TestR29NothingIsLostWhileTheDiskIsFull(t *testing.T) {
	t.Parallel()
	o := newOrchestrator(t)
	r := newLifeRelay(t, "--orchestrator", o.URL)
	r.start()
	running := r.create("hold")
	r.has("began")
	queued := r.create("hold")
	full := func(is bool) {
		t.Helper()
		limit := unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}
		if is {
			limit.Cur = 0
		}
		if err := unix.Prlimit(r.Process.Pid, unix.RLIMIT_FSIZE, &limit, nil); err != nil {
			t.Fatal(err)
		}
	}
	full(true)
	for range 3 {
		if answer := r.must(http.StatusServiceUnavailable, http.MethodPost, "/v1/tasks", `{"job_id":"j","kind":"make"}`); !strings.Contains(answer, "UNAVAILABLE") || strings.Contains(answer, r.dir) {
			t.Errorf("create: %s", answer)
		}
	}
	r.must(http.StatusServiceUnavailable, http.MethodPost, "/v1/tasks/"+queued+"/cancel", "")
	r.write("go", "") // the program ends, and what it has made cannot be kept
	until(t, time.Minute, "the task meets the full disk", func() bool {
		return slices.ContainsFunc(strings.Split(r.log.String(), "\n"), func(line string) bool {
			return strings.Contains(line, running) && strings.Contains(line, "file too large")
		})
	})
	if task := r.task(queued); task.Status != "queued" {
		t.Errorf("a task whose cancel could not be recorded is %s", task.Status)
	}
	if left, _ := filepath.Glob(r.runtime("tmp", "new-*")); len(left) > 0 {
		t.Errorf("left of tasks that were not created: %v", left)
	}
	full(false)
	r.untilStatus(queued, "succeeded")
	r.untilStatus(r.create("make"), "succeeded")
	// The worker keeps the task back for up to a minute; one that starts does not. Package relay has a test of the wait.
	r.stop()
	r.start()
	r.untilStatus(running, "succeeded")
	for _, id := range []string{running, queued} {
		if r.artifact(id, "out") != "held\n" {
			t.Errorf("an artifact of task %s is wrong", id)
		}
	}
	r.stop()
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.uploads) != 3 || len(o.wrong) > 0 {
		t.Errorf("uploads of %d tasks, want 3; wrong: %v", len(o.uploads), o.wrong)
	}
}

// With little room no task is taken, and those that are queued wait.
func TestR29TasksWaitForRoom(t *testing.T) {
	t.Parallel()
	r := newLifeRelay(t)
	r.start()
	r.create("hold")
	r.has("began")
	queued := r.create("hold")
	r.stop()
	r.write("go", "")
	r.start("--min-free-bytes", "1000000000000000")
	r.untilLogged("not ready")
	answer := r.must(http.StatusInsufficientStorage, http.MethodPost, "/v1/tasks", `{"job_id":"j","kind":"make"}`)
	if !strings.Contains(answer, "DISK_FULL") {
		t.Errorf("create: %s", answer)
	}
	if task := r.task(queued); task.Status != "queued" {
		t.Errorf("a task is %s without room", task.Status)
	}
	r.stop()
	r.start()
	r.untilStatus(queued, "succeeded")
	r.stop()
}

// A relay that cannot record what it has found does not start, and says that it may later.
func TestR25R29RelayOnAFullDiskDoesNotStart(t *testing.T) {
	t.Parallel()
	r := newLifeRelay(t)
	r.start()
	running := r.create("hold")
	r.has("began")
	r.kill()
	flags := r.prepared()
	sh := exec.CommandContext(t.Context(), "sh", append([]string{"-c", `ulimit -f 0; exec "$@"`, "sh", flags.Path}, flags.Args[1:]...)...)
	sh.Env, sh.Dir = flags.Env, flags.Dir
	if code, _, errs := output(t, sh); code != 3 || !strings.Contains(errs, "--dir") || !strings.Contains(errs, "file too large") {
		t.Errorf("exit code %d, want 3 and why:\n%s", code, errs)
	}
	r.write("go", "")
	r.start()
	if r.untilStatus(running, "succeeded"); r.stored(running).Crashes != 1 {
		t.Errorf("the start that failed counts as a crash: %+v", r.stored(running))
	}
	r.stop()
}
