package cli

import (
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestDevRelayShowsWhatArrives does what dev --relay says: its line creates a task, whose file and events arrive.
func TestDevRelayShowsWhatArrives(t *testing.T) {
	t.Parallel()
	cmd := batchfleet(t, []string{"PATH=" + os.Getenv("PATH")}, "dev", "--relay", "--kinds", "kinds.toml")
	kinds := "[sum]\ncommand = [\"sh\", \"-c\", \"sha256sum < {params} > {output}/sum.txt\"]\n[sum.params.prompt]\ntype = \"string\"\nrequired = true\n"
	if err := os.WriteFile(filepath.Join(cmd.Dir, "kinds.toml"), []byte(kinds), 0o600); err != nil {
		t.Fatal(err)
	}
	p := launch(t, cmd)
	p.untilLogged(" relay list ")
	line := regexp.MustCompile(`(?s)  (curl .*?}')\n`).FindStringSubmatch(p.log.String())
	if line == nil {
		t.Fatalf("it names no command:\n%s", p.log)
	}
	curl := exec.CommandContext(t.Context(), "sh", "-c", line[1])
	curl.Dir = cmd.Dir
	if out, err := curl.Output(); err != nil || !strings.Contains(string(out), `"status":"queued"`) {
		t.Fatalf("%s: %v\n%s", line[1], err, out)
	}
	for _, event := range []string{"queued", "running", "uploading", "received", "succeeded"} {
		p.untilLogged("demo-1: " + event)
	}
	files, err := filepath.Glob(filepath.Join(cmd.Dir, "dev_relay", "received", "demo-1", "task_*", "sum.txt"))
	if err != nil || len(files) != 1 {
		t.Fatalf("arrived: %v, %v", files, err)
	}
	if text, err := os.ReadFile(files[0]); err != nil || len(text) < 64 {
		t.Errorf("the file that has arrived: %q, %v", text, err)
	}
	if code, _ := p.terminate(); code != 0 {
		t.Errorf("exit code %d\n%s", code, p.log)
	}
}

// TestRelayBoardShowsWhatThereIs holds the Grafana board against the metrics of a relay that has had something to do.
func TestRelayBoardShowsWhatThereIs(t *testing.T) {
	t.Parallel()
	addr, metrics := freeAddr(t), freeAddr(t)
	cmd := batchfleet(t, []string{"PATH=" + os.Getenv("PATH")}, "relay", "--kinds", "kinds.toml", "--addr", addr, "--metrics-addr", metrics, "--min-free-bytes", "0", "--orchestrator", "http://"+addr)
	const token = "0123456789abcdef0123456789abcdef"
	for name, text := range map[string]string{"kinds.toml": "[no]\ncommand = [\"false\"]\n[yes]\ncommand = [\"sh\", \"-c\", \"echo > {output}/a\"]\n", "relay.token": token} {
		if err := os.WriteFile(filepath.Join(cmd.Dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := launch(t, cmd)
	p.untilLogged("relay started")
	post := func(body string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+addr+"/v1/tasks", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Relay-Token", token)
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close() // what it says is for other tests
	}
	post(`{"job_id":"a","kind":"no","callback_url":"http://` + addr + `/x"}`)
	post(`{"job_id":"b","kind":"yes"}`) // the relay itself is no orchestrator: the upload is refused
	post(`{"job_id":"c","kind":"nothing"}`)
	if _, err := http.Post("http://"+addr+"/v1/tasks", "application/json", strings.NewReader("{}")); err != nil { //nolint:noctx,bodyclose // the same
		t.Fatal(err)
	}
	var page string
	until(t, time.Minute, "there are metrics of uploads and callbacks", func() bool {
		resp, err := http.Get("http://" + metrics + "/metrics") //nolint:noctx // the test ends with it
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		page = string(text)
		return err == nil && strings.Contains(page, "batchfleet_relay_uploads_total{") && strings.Contains(page, "batchfleet_relay_callbacks_total{")
	})
	boardShows(t, "relay", 9, page)
}
