package cli

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// execKinds are programs of all manners of ending and writing.
const execKinds = `
[fails]
command = ["sh", "-c", "echo first >&2; echo no such model >&2; exit 3"]
[signal]
command = ["sh", "-c", "kill -9 $$"]
[late]
command = ["sh", "-c", "trap '' TERM; while :; do sleep 0.05; done"]
timeout = "1s"
[nothing]
command = ["true"]
[promised]
command = ["sh", "-c", "echo x >{output}/other"]
outputs = ["*.png"]
[link]
command = ["sh", "-c", "ln -s /etc/passwd {output}/out.png"]
outputs = ["*.png"]
[pipe]
command = ["sh", "-c", "mkfifo {output}/out.png"]
outputs = ["*.png"]
[directory]
command = ["sh", "-c", "mkdir {output}/out.png"]
outputs = ["*.png"]
[name]
command = ["sh", "-c", "echo x >{output}/nul.png"]
outputs = ["*.png"]
[oom]
command = ["sh", "-c", "echo no room for 7 tensors >&2; exit 1"]
oom = 'no room for \d+ tensors'
[background]
command = ["./background"]
env = ["NOTE"]
slots = 1
[hold]
command = ["./hold"]
env = ["NOTE"]
slots = 1
[writes]
command = ["./writes"]
env = ["NOTE"]
[flood]
command = ["sh", "-c", "yes 'a line of some length, and more of it than anyone reads' | head -c 300000000; echo x >{output}/out"]
`

func newExecRelay(t *testing.T) *testRelay {
	t.Helper()
	r := newTestRelay(t, execKinds, "--gpus", "none", "--slots", "2")
	r.env = []string{"NOTE=" + r.dir}
	r.program("background", `setsid sleep 1000 & sleep 1000 & echo x >"$BATCHFLEET_OUTPUT/out"`)
	r.program("hold", `setsid sh -c 'trap "" TERM; echo x >"$NOTE/held"; while :; do sleep 0.05; done' & trap "" TERM; while :; do sleep 0.05; done`)
	r.program("writes", `printf '1/4\r2/4\r3/4\n'; printf 'bad \377 end\n'; head -c 200000 /dev/zero | tr '\0' y; echo
printf '::progress 3/4 three\n::progress 1/4 one\nboth told\n'; until [ -e "$NOTE/go-on" ]; do sleep 0.05; done; printf 'without a line end'; echo x >"$BATCHFLEET_OUTPUT/out"`)
	r.start()
	return r
}

func TestR30R45R46FailuresHaveTheCodesOfTheContract(t *testing.T) {
	t.Parallel()
	r := newExecRelay(t)
	ids := map[string]string{}
	want := map[string][2]string{
		"fails": {"EXEC_FAILED", "exit 3: no such model"}, "signal": {"EXEC_FAILED", "kill"}, "late": {"TIMEOUT", "1s"},
		"nothing": {"NO_ARTIFACTS", "{output}"}, "promised": {"NO_ARTIFACTS", "*.png"}, "oom": {"GPU_OOM", "no room for 7 tensors"},
		"link": {"OUTPUT_INVALID", "out.png"}, "pipe": {"OUTPUT_INVALID", "out.png"}, "directory": {"OUTPUT_INVALID", "out.png"},
	}
	for kind := range want {
		ids[kind] = r.create(kind)
	}
	for kind, w := range want {
		if task := r.untilStatus(ids[kind], "failed"); task.code() != w[0] || !strings.Contains(task.Error.Message, w[1]) || len(task.Artifacts) != 0 {
			t.Errorf("%s: %+v %+v, want %v", kind, task, task.Error, w)
		}
		untilGone(t, ids[kind])
	}
	if n := r.metric("batchfleet_relay_gpu_oom_total"); n != 1 {
		t.Errorf("%v tasks without memory of a GPU were counted, want 1", n)
	}
	for _, id := range ids {
		if made, _ := filepath.Glob(r.runtime("tasks", id, "artifacts", "*")); len(made) > 0 {
			t.Errorf("a task that has failed has artifacts: %v", made)
		}
	}
	r.stop()
	if left := r.left(); len(left) > 0 {
		t.Errorf("left on disk: %v", left)
	}
}

func TestR47NamesThatAreNotPortableAreMadeSo(t *testing.T) {
	t.Parallel()
	r := newExecRelay(t)
	id := r.create("name")
	task := r.untilStatus(id, "succeeded")
	if len(task.Artifacts) != 1 || !regexp.MustCompile(`^file_nul-[0-9a-f]{8}\.png$`).MatchString(task.Artifacts[0].Name) {
		t.Fatalf("artifacts: %+v", task.Artifacts)
	}
	if text := r.must(http.StatusOK, http.MethodGet, "/v1/tasks/"+id+"/artifacts/"+task.Artifacts[0].Name, ""); text != "x\n" {
		t.Errorf("its content: %q", text)
	}
	r.must(http.StatusNotFound, http.MethodGet, "/v1/tasks/"+id+"/artifacts/nul.png", "")
}

func TestR41R42NothingOfATaskOutlivesIt(t *testing.T) {
	t.Parallel()
	r := newExecRelay(t)
	background := r.create("background")
	r.untilStatus(background, "succeeded")
	// It was swept before the task was shown as ended.
	if left := marked("BATCHFLEET_JOB_ID", background); len(left) > 0 {
		t.Errorf("processes of a task that has succeeded: %v", left)
	}
	hold, next := r.create("hold"), r.create("hold")
	r.has("held")
	r.must(http.StatusOK, http.MethodPost, "/v1/tasks/"+next+"/cancel", "") // it is queued
	r.must(http.StatusAccepted, http.MethodPost, "/v1/tasks/"+hold+"/cancel", "")
	r.untilStatus(hold, "canceled")
	if left := marked("BATCHFLEET_JOB_ID", hold); len(left) > 0 {
		t.Errorf("processes of a task that was canceled: %v", left)
	}
	r.stop()
}

func TestR43R44OutputIsReadToItsEndAndKeptInBounds(t *testing.T) {
	t.Parallel()
	r := newExecRelay(t)
	writes, flood := r.create("writes"), r.create("flood")
	until(t, time.Minute, "both steps were told", func() bool {
		text, err := os.ReadFile(r.runtime("logs", writes+".log"))
		return err == nil && strings.Contains(string(text), "both told")
	})
	until(t, time.Minute, "progress is 3/4, and stays so", func() bool { return r.task(writes).Progress == 0.75 })
	r.write("go-on", "")
	if task := r.untilStatus(writes, "succeeded"); task.Progress != 1 {
		t.Errorf("progress %v at the end", task.Progress)
	}
	code, out, errs := r.command("logs", writes)
	if code != 0 || errs != "" || !utf8.ValidString(out) {
		t.Errorf("logs: %d %s, valid UTF-8: %t", code, errs, utf8.ValidString(out))
	}
	lines := strings.Split(out, "\n")
	for _, want := range []string{"1/4", "2/4", "3/4", "bad \uFFFD end", "without a line end"} {
		found := 0
		for _, line := range lines {
			if strings.HasSuffix(line, want) {
				found++
			}
		}
		if found == 0 {
			t.Errorf("the log lacks %q:\n%.1000s", want, out)
		}
	}
	for _, line := range lines {
		if len(line) > 66<<10 {
			t.Errorf("a line has %d bytes", len(line))
		}
	}
	r.untilStatus(flood, "succeeded")
	info, err := os.Stat(r.runtime("logs", flood+".log"))
	if err != nil || info.Size() > 6_000_000 {
		t.Fatalf("the log of a flood: %v, %v", info, err)
	}
	text, err := os.ReadFile(r.runtime("logs", flood+".log"))
	if err != nil || !strings.Contains(string(text), "left out") {
		t.Errorf("the log of a flood has no notice, %v", err)
	}
	r.stop()
}

// What a task has made is refused when it is no longer as it was.
func TestR26DamagedArtifactIsRefused(t *testing.T) {
	t.Parallel()
	o := newOrchestrator(t)
	for _, by := range []string{"missing", "truncated", "link", "link to itself", "directory", "pipe", "changed"} {
		t.Run(by, func(t *testing.T) {
			t.Parallel()
			r := newTestRelay(t, "[make]\ncommand = [\"sh\", \"-c\", \"echo made >{output}/out\"]\n", "--gpus", "none")
			r.start()
			id := r.create("make")
			r.untilStatus(id, "succeeded")
			path := r.runtime("tasks", id, "artifacts", "out")
			damage := func() error { return damaged(path, by) }
			if by == "changed" {
				damage = func() error { return os.WriteFile(path, []byte("MADE\n"), 0o600) }
			}
			if err := damage(); err != nil {
				t.Fatal(err)
			}
			if status, answer, err := r.ask(http.MethodGet, "/v1/tasks/"+id+"/artifacts/out", ""); err != nil || by != "changed" && (status < 400 || strings.Contains(answer, "made")) {
				t.Errorf("download: %d %s, %v", status, answer, err)
			}
			r.kill()
			// It had been uploading, and the next relay has an orchestrator.
			file := r.runtime("tasks", id, "task.json")
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var task map[string]any
			if err := json.Unmarshal(text, &task); err != nil {
				t.Fatal(err)
			}
			task["status"] = "uploading"
			if text, err = json.Marshal(task); err == nil {
				err = os.WriteFile(file, text, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			r.start("--orchestrator", o.URL)
			if task := r.untilStatus(id, "failed", "succeeded"); task.code() != "UPLOAD_FAILED" || !strings.Contains(task.Error.Message, "artifact out") {
				t.Errorf("upload: %+v %+v", task, task.Error)
			}
			r.stop()
		})
	}
	t.Cleanup(func() {
		if len(o.uploads) > 0 {
			t.Errorf("uploads of damaged artifacts: %v", o.uploads)
		}
	})
}
