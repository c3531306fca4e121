package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

const callbackSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw" //nolint:gosec // of tests

// receiver is the orchestrator of the examples, which was written in another language: in processes of its own, one after
// the other, at one address. It refuses events without a signature that is right.
type receiver struct {
	*process
	t    *testing.T
	dir  string // has relay.token, callback.secret and received/
	addr string
	said []string // by the processes before this one
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	o := &receiver{t: t, dir: t.TempDir(), addr: freeAddr(t)}
	o.write("relay.token", relayToken+"\n")
	o.write("callback.secret", callbackSecret+"\n")
	return o
}

func (o *receiver) write(name, text string) {
	o.t.Helper()
	if err := os.WriteFile(filepath.Join(o.dir, name), []byte(text), 0o600); err != nil {
		o.t.Fatal(err)
	}
}

// command returns a process of the orchestrator's program, not yet started.
func (o *receiver) command(args ...string) *exec.Cmd {
	o.t.Helper()
	program, err := filepath.Abs("../examples/relay/orchestrator/orchestrator.py")
	if err != nil {
		o.t.Fatal(err)
	}
	cmd := exec.CommandContext(o.t.Context(), "python3", append([]string{program}, args...)...)
	cmd.Dir, cmd.Env = o.dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + o.dir, "PYTHONDONTWRITEBYTECODE=1", "PYTHONUTF8=1"}
	return cmd
}

// start starts it, with variables of the environment.
func (o *receiver) start(env []string, flags ...string) {
	o.t.Helper()
	if o.process != nil {
		o.said = append(o.said, o.log.String())
	}
	cmd := o.command(append([]string{"serve", "--addr", o.addr, "--token-file", "relay.token", "--callback-secret-file", "callback.secret"}, flags...)...)
	cmd.Env = append(cmd.Env, env...)
	o.process = launch(o.t, cmd)
	o.untilLogged("orchestrator listens on ")
}

// all is what it has said in all of its processes.
func (o *receiver) all() string {
	return strings.Join(append(slices.Clone(o.said), o.log.String()), "")
}

// told returns what it has said about a task, line by line: an event with its progress, or files that it has received.
func (o *receiver) told(id string) (lines []string) {
	for _, match := range regexp.MustCompile(`(?m)^\S+ `+id+` \S+ (.*)$`).FindAllStringSubmatch(o.all(), -1) {
		lines = append(lines, match[1])
	}
	return lines
}

// events returns the events of a task that it was told, without their progress; files that came among them are left out.
func (o *receiver) events(id string) (names []string) {
	for _, line := range o.told(id) {
		if name, _, _ := strings.Cut(line, " "); name != "received" {
			names = append(names, name)
		}
	}
	return names
}

// file returns what it has received of a task.
func (o *receiver) file(job, id, name string) string {
	o.t.Helper()
	text, err := os.ReadFile(filepath.Join(o.dir, "received", job, id, name))
	if err != nil {
		o.t.Fatal(err)
	}
	return string(text)
}

// received returns the files that it was promised for a task.
func (o *receiver) received(job, id string) (files uploaded) {
	o.t.Helper()
	var about struct {
		Artifacts []struct{ Name, SHA256 string }
	}
	if err := json.Unmarshal([]byte(o.file(job, id, ".metadata.json")), &about); err != nil {
		o.t.Fatal(err)
	}
	files = uploaded{}
	for _, a := range about.Artifacts {
		files[a.Name] = a.SHA256
	}
	return files
}

// front stands before a receiver. What it does not answer itself it hands on; when the receiver does not answer, it
// breaks the connection.
type front struct {
	*httptest.Server
	// answers may answer a request, and reports whether it has.
	answers func(w http.ResponseWriter, r *http.Request, body []byte) bool
	// changes may change the answer to a request.
	changes func(body, answer []byte) []byte

	mu sync.Mutex
}

func newFront(t *testing.T, o *receiver) *front {
	t.Helper()
	f := &front{}
	to := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: o.addr})
	to.Transport = &http.Transport{DisableKeepAlives: true} // processes come and go
	to.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		if f.answers != nil && f.answers(w, r, body) {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if f.changes == nil {
			to.ServeHTTP(w, r)
			return
		}
		answer := httptest.NewRecorder()
		to.ServeHTTP(answer, r)
		w.WriteHeader(answer.Code)
		_, _ = w.Write(f.changes(body, answer.Body.Bytes())) // the relay may be gone
	}))
	t.Cleanup(f.Close)
	return f
}

// phase returns the task that a request about an upload to pre-signed URLs is about, and begin or complete.
func phase(body []byte) (id, name string) {
	var about struct {
		ID    string `json:"task_id"`
		Phase string `json:"phase"`
	}
	_ = json.Unmarshal(body, &about) // other requests have neither
	return about.ID, about.Phase
}

// absent checks that a text is in none of the relay's logs and files, those of the requests aside.
func (r *testRelay) absent(text string, logs ...string) {
	r.t.Helper()
	for _, log := range append(logs, r.log.String()) {
		if strings.Contains(log, text) {
			r.t.Errorf("%q is in a log:\n%s", text, log)
		}
	}
	err := filepath.WalkDir(r.runtime(), func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || err == nil && (!d.Type().IsRegular() || d.Name() == "request.json") {
			return nil
		}
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		if bytes.Contains(content, []byte(text)) {
			r.t.Errorf("%q is in %s", text, path)
		}
		return err
	})
	if err != nil {
		r.t.Error(err)
	}
}
