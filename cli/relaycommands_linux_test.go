package cli

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

const commandKinds = `
[make]
command = ["sh", "-c", "echo working; head -c 100000 /dev/zero >{output}/a.bin"]
[fail]
command = ["sh", "-c", "echo no such model >&2; exit 3"]
[hold]
command = ["sh", "-c", "echo ::progress 1/2 half; while [ ! -e \"$HOLD\" ]; do sleep 0.05; done; echo made >{output}/a.txt"]
env = ["HOLD"]
`

// TestR74R53OnlyWhatIsDoneIsDeletedOldestFirst by the command of a relay that runs, and what could not be uploaded is
// uploaded when the orchestrator takes it.
func TestR74R53OnlyWhatIsDoneIsDeletedOldestFirst(t *testing.T) {
	t.Parallel()
	o := newReceiver(t)
	o.write("relay.token", "another-token-of-32-characters-or-more\n")
	o.start(nil)
	r := newTestRelay(t, commandKinds, "--gpus", "none", "--slots", "2", "--orchestrator", "http://"+o.addr)
	r.env = []string{"HOLD=" + filepath.Join(r.dir, "go")}
	r.start("--max-bytes", "250000")
	command := func(want string, args ...string) {
		t.Helper()
		if code, out, errs := r.command(args...); code != 0 || !strings.Contains(out, want) {
			t.Errorf("%v: exit code %d, want %q\n%s%s", args, code, want, out, errs)
		}
	}
	there := func(id string, want bool) {
		t.Helper()
		status, _, err := r.ask(http.MethodGet, "/v1/tasks/"+id, "")
		_, onDisk := os.Stat(r.runtime("tasks", id))
		if err != nil || (status == http.StatusOK) != want || (onDisk == nil) != want {
			t.Errorf("task %s: %d, %v, on disk %v; want it there: %t", id, status, err, onDisk, want)
		}
	}
	unsent := r.create("make")
	if task := r.untilStatus(unsent, "failed"); task.code() != "UPLOAD_FAILED" || !strings.Contains(task.Error.Message, "401 Unauthorized") {
		t.Errorf("with a token that the orchestrator does not know: %+v", task)
	}
	o.kill()
	o.write("relay.token", relayToken+"\n")
	o.start(nil)
	held := r.create("hold")
	r.untilStatus(held, "running")
	var sent []string
	for range 3 {
		sent = append(sent, r.create("make"))
		r.untilStatus(sent[len(sent)-1], "succeeded")
	}
	command("2 tasks deleted, 20", "gc") // of 400 KB
	for id, want := range map[string]bool{unsent: true, held: true, sent[0]: false, sent[1]: false, sent[2]: true} {
		there(id, want)
	}
	command("0 tasks deleted, 0 bytes", "gc")
	command(unsent+" is uploaded again", "retry-upload", unsent)
	r.untilStatus(unsent, "succeeded")
	if got := o.received("job_1", unsent)["a.bin"]; got != sum(strings.Repeat("\x00", 100000)) {
		t.Errorf("after retry-upload the orchestrator has %q", got)
	}

	r.kill()
	// Two days pass for all but one of those that have ended. The one that runs began long ago, too.
	for _, id := range []string{sent[2], held} {
		file := r.runtime("tasks", id, "task.json")
		var task map[string]any
		text, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(text, &task)
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"created_at", "started_at", "uploading_at", "finished_at"} {
			if _, ok := task[name]; ok {
				task[name] = time.Now().Add(-48 * time.Hour).UTC()
			}
		}
		if text, err = json.Marshal(task); err == nil {
			err = os.WriteFile(file, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	r.start("--keep", "24h")
	until(t, time.Minute, "the old task is gone", func() bool {
		status, _, err := r.ask(http.MethodGet, "/v1/tasks/"+sent[2], "")
		return err == nil && status == http.StatusNotFound
	})
	command("0 tasks deleted, 0 bytes", "gc")
	there(sent[2], false)
	there(unsent, true)
	there(held, true)
	r.write("go", "")
	r.untilStatus(held, "succeeded")
}

// TestR16CommandsOfPeople look after the tasks of a relay that runs, and what they advise can be typed.
func TestR16CommandsOfPeople(t *testing.T) {
	t.Parallel()
	r := newTestRelay(t, commandKinds, "--gpus", "none", "--slots", "1")
	r.env = []string{"HOLD=" + filepath.Join(r.dir, "go")}
	r.program("sh", "")
	r.start()
	made, failed, running, queued := r.create("make"), r.create("fail"), r.create("hold"), r.create("hold")
	r.untilStatus(running, "running")
	r.untilStatus(made, "succeeded")
	until(t, time.Minute, "its progress is shown", func() bool { return r.task(running).Progress == 0.5 })
	token := filepath.Join(r.dir, "relay.token")
	run := func(wantCode int, want string, args ...string) string {
		t.Helper()
		cmd := batchfleet(t, []string{"PATH=" + r.dir, "HOME=" + r.dir}, args...) // without nvidia-smi
		cmd.Dir = r.dir
		code, out, errs := output(t, cmd)
		if ok, err := regexp.MatchString("(?s)"+want, out+errs); err != nil || !ok || code != wantCode {
			t.Errorf("%v: exit code %d, want %d, and %s (%v)\n%s%s", args, code, wantCode, want, err, out, errs)
		}
		return out
	}
	api := []string{"--api", r.url, "--token-file", token}
	with := func(args ...string) []string { return slices.Concat(args, api) }

	run(0, "^JOB .*"+queued+" +hold +queued.*"+running+" +hold +running.*"+failed+" +fail +failed.*"+made+" +make +succeeded", with("relay", "list")...)
	for _, list := range [][]string{with("relay", "list", "--kind", "make"), with("list", "--scope", "relay", "--kind", "make"), with("list", "--kind", "relay.make"), with("relay", "list", "--state", "succeeded")} {
		if out := run(0, made, list...); strings.Count(out, "task_") != 1 {
			t.Errorf("%v lists\n%s", list, out)
		}
	}
	run(0, "state +queued.*run +pending", with("relay", "show", queued)...)
	run(0, "state +running.*run +running +50 %: half", with("relay", "show", running)...)
	run(0, "error +EXEC_FAILED: exit 3: no such model", with("relay", "show", failed)...)
	run(0, "no such model", with("relay", "logs", failed)...)
	run(0, "working\n", with("logs", made)...)
	shown := run(0, "state +succeeded.*upload +skipped", with("get", made)...)
	files := regexp.MustCompile(`files +batchfleet (.*)`).FindStringSubmatch(shown)
	if files == nil {
		t.Fatalf("get names no command for the files:\n%s", shown)
	}
	run(0, made+"/a.bin\n$", strings.Fields(files[1])...)
	if got, err := os.ReadFile(filepath.Join(r.dir, made, "a.bin")); err != nil || sum(string(got)) != sum(strings.Repeat("\x00", 100000)) {
		t.Errorf("the file that was fetched has %d bytes, %v", len(got), err)
	}
	run(1, "has no result.json; `batchfleet result --list "+made+" --api "+r.url+" --token-file "+token+"` shows", with("result", made)...)
	run(0, "succeeded +2/2", with("watch", made)...)
	run(0, queued+" is canceled\n", with("relay", "cancel", queued)...)
	run(0, running+" is canceled\n", with("cancel", "--wait", running)...)
	run(1, "cancel job "+made+".*has ended already: succeeded", with("relay", "cancel", made)...)
	run(1, "Only an upload that has failed can be made again", with("relay", "retry-upload", failed)...)
	run(1, "scope relay has no such job", with("relay", "show", "task_01KDZ3NDEKTSV4RRFFQ69G5FAV")...)

	r.write("wrong.token", strings.Repeat("x", 40)+"\n")
	for _, command := range []string{"list", "gc"} {
		run(2, "names the file with the token that the relay was started with", "relay", command, "--api", r.url, "--token-file", "wrong.token")
		run(3, "says where `batchfleet relay` listens", "relay", command, "--api", "http://127.0.0.1:1", "--token-file", token)
	}

	doctor := []string{"relay", "doctor", "--dir", "new/runtime", "--gpus", "none", "--min-free-bytes", "0", "--kinds"}
	run(0, "ok +flags.*ok +kinds.*ok +disk +new/runtime: [0-9]+ bytes are free", append(doctor, "kinds.toml")...)
	run(0, "ok +gpus +auto: none: kinds that need a GPU do not run here [(]nvidia-smi is not installed[)]", append(doctor, "kinds.toml", "--gpus", "auto")...)
	run(0, "ok +gpus +0,1: 0,1 [(]nvidia-smi is not installed[)]", append(doctor, "kinds.toml", "--gpus", "0,1")...)
	out := run(1, "FAIL +flags.*token-file.*FAIL +kinds.*correct the file that --kinds names.*FAIL +upload.*start the orchestrator", append(doctor, "none.toml", "--token-file", "none.token", "--orchestrator", "http://127.0.0.1:1")...)
	if strings.Count(out, "FAIL ") != strings.Count(out, "what to do: ") {
		t.Errorf("a check does not say what to do:\n%s", out)
	}
	if _, err := os.Stat(filepath.Join(r.dir, "new")); err == nil {
		t.Error("doctor has made the directory of the relay")
	}
}
