package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/internal/testrun"
	"github.com/batchfleet/batchfleet/relay"
)

const relayToken = "0123456789abcdef0123456789abcdef" //nolint:gosec // of tests

// testRelay is a relay in processes of its own: one after the other, on one directory.
type testRelay struct {
	*process
	t     *testing.T
	dir   string // has kinds.toml, relay.token and runtime/
	flags []string
	env   []string
	url   string // of the process that runs

	metrics string // address
}

// newTestRelay returns a relay of these kinds, which does not run yet.
func newTestRelay(t *testing.T, kinds string, flags ...string) *testRelay {
	t.Helper()
	testrun.Once(t, kills)
	r := &testRelay{t: t, dir: t.TempDir(), flags: flags, metrics: freeAddr(t)}
	r.write("kinds.toml", kinds)
	r.write("relay.token", relayToken+"\n")
	return r
}

// write writes a file for the relay.
func (r *testRelay) write(name, text string) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// program makes a program that kinds name by its path.
func (r *testRelay) program(name, script string) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil { //nolint:gosec // a program
		r.t.Fatal(err)
	}
}

// launched starts a process of the relay, and does not wait for it to listen.
func (r *testRelay) launched(flags ...string) *process {
	r.t.Helper()
	return launch(r.t, r.prepared(flags...))
}

// prepared is a process of the relay that is not started.
func (r *testRelay) prepared(flags ...string) *exec.Cmd {
	r.t.Helper()
	return batchfleet(r.t, append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + r.dir, "TMPDIR=" + r.dir}, r.env...), append(append([]string{
		"relay", "--addr", "127.0.0.1:0", "--dir", filepath.Join(r.dir, "runtime"), "--kinds", filepath.Join(r.dir, "kinds.toml"),
		"--token-file", filepath.Join(r.dir, "relay.token"), "--min-free-bytes", "0", "--metrics-addr", r.metrics,
	}, r.flags...), flags...)...)
}

var listens = regexp.MustCompile(`relay listens on (http://\S+)`)

// start starts the relay.
func (r *testRelay) start(flags ...string) {
	r.t.Helper()
	r.process = r.launched(flags...)
	r.untilLogged("relay listens on ")
	r.url = listens.FindStringSubmatch(r.log.String())[1]
}

// stop has the relay stop as a service manager does.
func (r *testRelay) stop() {
	r.t.Helper()
	if code, _ := r.terminate(); code != 0 {
		r.t.Fatalf("exit code %d after SIGTERM:\n%s", code, r.log)
	}
}

// runtime is a path in the relay's directory.
func (r *testRelay) runtime(parts ...string) string {
	return filepath.Join(append([]string{r.dir, "runtime"}, parts...)...)
}

// ask makes a request of the relay.
func (r *testRelay) ask(method, path, body string, header ...string) (status int, answer string, err error) {
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.url+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	req.Header.Set(relay.TokenHeader, relayToken)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := relayClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

// relayClient gives each request a connection of its own: relays come and go.
var relayClient = &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}

// must makes a request that is answered with that status.
func (r *testRelay) must(want int, method, path, body string) string {
	r.t.Helper()
	status, answer, err := r.ask(method, path, body)
	if err != nil || status != want {
		r.t.Fatalf("%s %s: %d %s, %v, want %d\n%s", method, path, status, answer, err, want, r.log)
	}
	return answer
}

// create creates a task of a kind without input.
func (r *testRelay) create(kind string) (id string) {
	r.t.Helper()
	return taskID(r.t, r.must(http.StatusAccepted, http.MethodPost, "/v1/tasks", `{"job_id":"job_1","kind":"`+kind+`"}`))
}

func taskID(t *testing.T, answer string) string {
	t.Helper()
	var made struct {
		ID string `json:"task_id"`
	}
	if err := json.Unmarshal([]byte(answer), &made); err != nil || made.ID == "" {
		t.Fatalf("no task_id in %s: %v", answer, err)
	}
	return made.ID
}

// shownTask is a task as the relay shows it.
type shownTask struct {
	ID        string  `json:"task_id"`
	JobID     string  `json:"job_id"`
	Kind      string  `json:"kind"`
	Status    string  `json:"status"`
	Progress  float64 `json:"progress"`
	Artifacts []struct {
		Name   string `json:"name"`
		SHA256 string `json:"sha256"`
	} `json:"artifacts"`
	Error *struct{ Code, Message string } `json:"error"`
}

func (s shownTask) ended() bool {
	return slices.Contains([]string{"succeeded", "failed", "canceled"}, s.Status)
}

// code is that of its error.
func (s shownTask) code() string {
	if s.Error == nil {
		return ""
	}
	return s.Error.Code
}

func (r *testRelay) task(id string) (task shownTask) {
	r.t.Helper()
	if err := json.Unmarshal([]byte(r.must(http.StatusOK, http.MethodGet, "/v1/tasks/"+id, "")), &task); err != nil {
		r.t.Fatal(err)
	}
	return task
}

// untilStatus waits until a task has one of these statuses.
func (r *testRelay) untilStatus(id string, want ...string) (task shownTask) {
	r.t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; <-time.After(20 * time.Millisecond) {
		if task = r.task(id); slices.Contains(want, task.Status) {
			return task
		}
		if task.ended() || time.Now().After(deadline) {
			r.t.Fatalf("task is %+v %s, want %v\n%s", task, task.code(), want, r.log)
		}
	}
}

// artifact returns a file that a task has made.
func (r *testRelay) artifact(id, name string) string {
	r.t.Helper()
	return r.must(http.StatusOK, http.MethodGet, "/v1/tasks/"+id+"/artifacts/"+name, "")
}

// has waits until there is a file.
func (r *testRelay) has(name string) {
	r.t.Helper()
	until(r.t, time.Minute, "there is "+name, func() bool {
		_, err := os.Stat(filepath.Join(r.dir, name))
		return err == nil
	})
}

// metric returns the number of a metric.
func (r *testRelay) metric(name string) (n float64) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, "http://"+r.metrics+"/metrics", nil)
	if err != nil {
		r.t.Fatal(err)
	}
	resp, err := relayClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	_, rest, _ := strings.Cut("\n"+string(text), "\n"+name+" ")
	if _, err := fmt.Sscan(rest, &n); err != nil {
		r.t.Fatalf("no metric %s: %v", name, err)
	}
	return n
}

// command runs a command about the relay's tasks.
func (r *testRelay) command(args ...string) (code int, stdout, stderr string) {
	r.t.Helper()
	return output(r.t, batchfleet(r.t, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + r.dir},
		append([]string{"relay", args[0], "--api", r.url, "--token-file", filepath.Join(r.dir, "relay.token")}, args[1:]...)...))
}

// marked returns the processes whose environment has a variable with that value.
func marked(name, value string) (pids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		env, err := os.ReadFile(file)
		if err == nil && bytes.Contains(env, []byte(name+"="+value+"\x00")) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// untilGone waits until no process of a task is left.
func untilGone(t *testing.T, id string) {
	t.Helper()
	until(t, time.Minute, "no process of task "+id+" is left", func() bool { return len(marked("BATCHFLEET_JOB_ID", id)) == 0 })
}

// left returns what lies in tmp/ and in the work directories of tasks, which is nothing once all have ended.
func (r *testRelay) left() (found []string) {
	for _, pattern := range []string{"tmp/new-*", "tmp/batchfleet-scratch/workers/*/*-*", filepath.Join("tasks", "*", "work", "*"), "tasks/*/.batchfleet-tmp-*", "tasks/*/artifacts/.*", "tasks/*/result.json"} {
		names, _ := filepath.Glob(r.runtime(pattern))
		found = append(found, names...)
	}
	return found
}

// damaged replaces a file or directory by something else.
func damaged(path, by string) error {
	var text []byte
	var readErr error
	if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() {
		text, readErr = os.ReadFile(path)
	}
	if err := os.RemoveAll(path); err != nil {
		return err
	}
	switch by {
	case "missing":
		return nil
	case "empty":
		return os.WriteFile(path, nil, 0o600)
	case "truncated":
		return errors.Join(readErr, os.WriteFile(path, text[:len(text)/2], 0o600))
	case "garbage":
		return os.WriteFile(path, bytes.Repeat([]byte{0, '{', 0xff, '"'}, 100), 0o600)
	case "link":
		target := path + ".target"
		return errors.Join(os.WriteFile(target, text, 0o600), os.Symlink(target, path))
	case "link to itself":
		return os.Symlink(filepath.Base(path), path)
	case "dangling link":
		return os.Symlink("/nonexistent/file", path)
	case "directory":
		return os.Mkdir(path, 0o700)
	case "pipe":
		return mkfifo(path)
	}
	return fmt.Errorf("no such damage: %s", by)
}
