package relay

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/internal/testrun"
	"github.com/batchfleet/batchfleet/jobs"
)

func TestR12ArtifactsAreSentAsTheyWereMade(t *testing.T) {
	r := newRig(t)
	content := strings.Repeat("0123456789", 1000)
	id := r.succeeded("song.wav", "RIFF", "preview.txt", content)
	path := "/v1/tasks/" + string(id) + "/artifacts/"
	sum := sha256.Sum256([]byte(content))
	tag := `"` + hex.EncodeToString(sum[:]) + `"`
	resp := r.call(http.MethodGet, path+"preview.txt", "")
	if resp.Status != http.StatusOK || resp.Body != content {
		t.Errorf("%d, %d bytes", resp.Status, len(resp.Body))
	}
	for name, want := range map[string]string{
		"Content-Type": "text/plain; charset=utf-8", "Content-Length": "10000", "ETag": tag, "Accept-Ranges": "bytes", "X-Content-Type-Options": "nosniff",
		"Repr-Digest":         "sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":",
		"Content-Disposition": `attachment; filename="preview.txt"; filename*=UTF-8''preview.txt`, "Cache-Control": "no-store",
	} {
		if got := resp.Header.Get(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	if resp := r.call(http.MethodHead, path+"preview.txt", ""); resp.Status != http.StatusOK || resp.Body != "" || resp.Header.Get("Content-Length") != "10000" {
		t.Errorf("HEAD: %d %v", resp.Status, resp.Header)
	}
	if resp := r.call(http.MethodGet, path+"preview.txt", "", "If-None-Match", tag); resp.Status != http.StatusNotModified || resp.Body != "" {
		t.Errorf("If-None-Match: %d", resp.Status)
	}
	for _, tt := range []struct {
		name, asked, ifRange string
		status               int
		body, part           string
	}{
		{"the first bytes", "bytes=0-9", "", 206, content[:10], "bytes 0-9/10000"},
		{"from the middle", "bytes=9990-", "", 206, content[9990:], "bytes 9990-9999/10000"},
		{"the last bytes", "bytes=-5", "", 206, content[9995:], "bytes 9995-9999/10000"},
		{"more than there is", "bytes=9995-99999", "", 206, content[9995:], "bytes 9995-9999/10000"},
		{"of this version", "bytes=0-9", tag, 206, content[:10], "bytes 0-9/10000"},
		{"of another version", "bytes=0-9", `"another"`, 200, content, ""},
		{"of a weak tag", "bytes=0-9", "W/" + tag, 200, content, ""},
		{"after the end", "bytes=10000-", "", 416, "", "bytes */10000"},
		{"garbage", "bytes=a-b", "", 416, "", "bytes */10000"},
		{"another unit", "lines=1-2", "", 200, content, ""},
	} {
		header := []string{"Range", tt.asked}
		if tt.ifRange != "" {
			header = append(header, "If-Range", tt.ifRange)
		}
		resp := r.call(http.MethodGet, path+"preview.txt", "", header...)
		if resp.Status != tt.status || tt.status != 416 && resp.Body != tt.body || resp.Header.Get("Content-Range") != tt.part {
			t.Errorf("%s: %d %v, %d bytes", tt.name, resp.Status, resp.Header, len(resp.Body))
		}
		if tt.status == 416 && (resp.code() != "RANGE_NOT_SATISFIABLE" || !strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json")) {
			t.Errorf("%s: %v %s", tt.name, resp.Header, resp.Body)
		}
	}
	if resp := r.call(http.MethodGet, path+"song.wav", ""); resp.Body != "RIFF" {
		t.Errorf("the other one: %d %s", resp.Status, resp.Body)
	}
}

func TestR12OnlyWhatTheIndexHasIsSent(t *testing.T) {
	r := newRig(t)
	r.create("")
	h := r.start()
	h.make("a.txt", "hello")
	path := "/v1/tasks/" + string(h.id()) + "/artifacts/"
	missing := func(what, name string) {
		t.Helper()
		resp := r.call(http.MethodGet, path+name, "")
		if resp.Status != http.StatusNotFound || resp.code() != "NOT_FOUND" || strings.Contains(resp.Body, "hello") {
			t.Errorf("%s: %d %s", what, resp.Status, resp.Body)
		}
	}
	missing("while it runs", "a.txt")
	h.succeed()
	if resp := r.call(http.MethodGet, path+"a.txt", ""); resp.Body != "hello" {
		t.Fatalf("%d %s", resp.Status, resp.Body)
	}
	if err := os.WriteFile(r.tasks.dir.of(h.id(), artifactsDir, "planted.txt"), []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"planted.txt", "A.txt", "a.txt/", "a.txt%00", "..%2fartifacts%2fa.txt", "..%2finput%2frequest.json", "%2e%2e%2ftask.json", "..%5ctask.json", ".", "..", "%2e%2e", "..%252ftask.json",
		"%2fetc%2fpasswd", "a.txt%2f..%2fa.txt", strings.Repeat("a", 3000), "", "%ff",
	} {
		missing(name, name)
	}
	// Another task's file, and a task that has failed and made none.
	other := r.create("")
	r.start().end(jobs.Outcome{State: jobs.Failed, Reason: "x"})
	if resp := r.call(http.MethodGet, "/v1/tasks/"+string(other)+"/artifacts/a.txt", ""); resp.Status != http.StatusNotFound {
		t.Errorf("of a task without any: %d", resp.Status)
	}
	if resp := r.call(http.MethodPost, path+"a.txt", "{}"); resp.Status != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", resp.Status)
	}
}

func TestR12ArtifactsAreSentOnceTheTaskIsUploading(t *testing.T) {
	r := setup(t, testrun.MemoryDir(t))
	r.Orchestrator = &url.URL{Scheme: "https", Host: "orchestrator.example.com"} // nothing is sent: no delivery runs
	r.open()
	id := r.succeeded("a.txt", "hello")
	if resp := r.call(http.MethodGet, "/v1/tasks/"+string(id)+"/artifacts/a.txt", ""); resp.Body != "hello" || r.task(id).State != Uploading {
		t.Errorf("%s: %d %s", r.task(id).State, resp.Status, resp.Body)
	}
}

// What was put in the place of a file is not sent.
func TestR12AFileThatWasReplacedIsNotSent(t *testing.T) {
	secret := t.TempDir() + "/secret"
	if err := os.WriteFile(secret, []byte("canar"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, replace := range map[string]func(path string) error{
		"a link out of it":      func(path string) error { return os.Symlink(secret, path) },
		"a link to a neighbour": func(path string) error { return os.Symlink("../task.json", path) },
		"a link as long as the file": func(path string) error {
			return errors.Join(os.Symlink("other", path), os.WriteFile(filepath.Join(filepath.Dir(path), "other"), []byte("canar"), 0o600))
		},
		"another size": func(path string) error { return os.WriteFile(path, []byte("hello, canary"), 0o600) },
		"a directory":  func(path string) error { return os.Mkdir(path, 0o700) },
		"nothing":      func(string) error { return nil },
	} {
		r := newRig(t)
		id := r.succeeded("a.txt", "hello")
		path := r.tasks.dir.of(id, artifactsDir, "a.txt")
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := replace(path); err != nil {
			t.Fatal(err)
		}
		resp := r.call(http.MethodGet, "/v1/tasks/"+string(id)+"/artifacts/a.txt", "")
		if resp.Status != http.StatusInternalServerError || strings.Contains(resp.Body, "canar") || strings.Contains(resp.Body, "task_id") || resp.Header.Get("ETag") != "" {
			t.Errorf("%s: %d %s", name, resp.Status, resp.Body)
		}
		if !strings.Contains(r.log.String(), "request failed") {
			t.Errorf("%s: it is not logged", name)
		}
	}
}
