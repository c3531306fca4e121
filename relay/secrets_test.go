package relay

import (
	"context"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/batchfleet/batchfleet/httpd/egress"
	"github.com/batchfleet/batchfleet/internal/testrun"
	"github.com/batchfleet/batchfleet/jobs"
)

// A canary stands in each field that may hold a secret. Afterwards it is looked for in all that the relay writes.
func TestR71NoSecretIsWritten(t *testing.T) {
	orchestrator := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(TokenHeader) != testToken {
			t.Errorf("%s has the token %q", r.URL.Path, r.Header.Get(TokenHeader))
		}
		http.Error(w, "secret=answer-canary", http.StatusForbidden)
	}))
	defer orchestrator.Close()
	base, err := url.Parse(orchestrator.URL)
	if err != nil {
		t.Fatal(err)
	}
	assets := t.TempDir()
	if err := os.WriteFile(filepath.Join(assets, "a.bin"), []byte("asset-canary"), 0o600); err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	r := setup(t, testrun.MemoryDir(t))
	r.Metrics = NewMetrics(registry)
	r.Orchestrator = base
	r.Callbacks = egress.Policy{Hosts: []string{"hooks.invalid"}}
	r.Assets = Assets{Roots: []string{assets}, MaxBytes: 1 << 20}
	r.open()
	const prompt = "prompt-canary of a user"
	r.run(func(_ context.Context, job jobs.Job, report func(jobs.Progress)) (map[string]string, error) {
		report(jobs.Progress{Done: 1, Total: 2, Message: "prompt: " + prompt})
		report(jobs.Progress{Done: 1, Total: 2, Message: "PASSWORD=environment-canary"})
		report(jobs.Progress{Done: 1, Total: 2, Message: "GET https://bucket.s3.amazonaws.com/x?X-Amz-Credential=presigned-canary&X-Amz-Signature=0123456789abcdef-canary"})
		report(jobs.Progress{Done: 1, Total: 2, Message: "X-Relay-Token: " + testToken + " Authorization: Bearer bearer-canary-0123456789"})
		if job.Kind == "scene" {
			return nil, fmt.Errorf("cannot draw %q with token=error-canary-0123456789", prompt)
		}
		return map[string]string{"a.txt": "content-canary"}, nil
	})
	secrets := []string{"canary", testToken[:20], nextToken[:20]}
	var all strings.Builder // of answers
	ask := func(method, path, body string, header ...string) {
		resp := r.call(method, path, body, header...)
		fmt.Fprintf(&all, "%s %s: %d %v %s\n", method, path, resp.Status, resp.Header, resp.Body)
	}
	const callback = `"https://hooks.invalid/callback?token=query-canary&sig=signature-canary"`
	var ended []*Task
	for _, kind := range []string{"motion", "scene"} {
		id := r.create(`{"job_id":"a","kind":"`+kind+`","input":{"prompt":"`+prompt+`","assets":["file://`+assets+`/a.bin"]},"callback_url":`+callback+`}`, "Idempotency-Key", "key-canary-"+kind)
		ended = append(ended, r.until(id, "ended", func(task *Task) bool { return task.State.Terminal() }))
		for _, path := range []string{"/v1/tasks/" + string(id), "/v1/tasks/" + string(id) + "/artifacts/none", "/v1/tasks"} {
			ask(http.MethodGet, path, "")
		}
		ask(http.MethodPost, "/v1/tasks/"+string(id)+"/retry-upload", "")
		ask(http.MethodPost, "/v1/tasks/"+string(id)+"/cancel", "")
	}
	for _, body := range []string{
		`{"job_id":"../canary","kind":"motion"}`, `{"job_id":"a","kind":"motion","input":{"prompt":["prompt-canary"]}}`, `{"job_id":"a","kind":"motion","input":{"prompt":"canary\u0000"}}`,
		`{"job_id":"a","kind":"music","callback_url":"https://u:canary@hooks.invalid/"}`, `{"job_id":"a","kind":"music","callback_url":"https://other.invalid/canary?sig=canary"}`,
		`{"job_id":"a","kind":"music","callback_url":"https://hooks.invalid:77077/canary"}`, `{"job_id":"a","kind":"music","input":{"assets":["file:///canary"]}}`,
		`{"job_id":"a","kind":"motion","input":{"prompt":"` + strings.Repeat("canary", 3000) + `"}}`, `{"job_id":"canary","kind":`, `{"job_id":"a","kind":"canary"}`,
	} {
		ask(http.MethodPost, "/v1/tasks", body)
	}
	ask(http.MethodGet, "/v1/status", "", TokenHeader, "second-canary")
	ask(http.MethodGet, "/v1/tasks/canary", "")
	ask(http.MethodGet, "/v1/status", "")
	r.stop()
	scrape := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(scrape, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
	answers := strings.ReplaceAll(all.String(), "/v1/tasks/canary", "")
	texts := map[string]string{"answers": answers, "the log": r.log.String(), "the metrics": scrape.Body.String()}
	err = filepath.WalkDir(r.Dir, func(path string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(r.Dir, path) // below it
		if err != nil || !d.Type().IsRegular() || strings.HasSuffix(name, "input/request.json") || strings.HasSuffix(name, "input/a.bin") || strings.HasSuffix(name, "artifacts/a.txt") {
			return err
		}
		texts[name] = r.read(path)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range texts {
		if strings.HasSuffix(name, taskFile) {
			text = strings.ReplaceAll(text, strings.Trim(callback, `"`), "") // the next relay needs it
			text = strings.ReplaceAll(text, strings.ReplaceAll(strings.Trim(callback, `"`), "&", `\u0026`), "")
		}
		for _, secret := range secrets {
			for at := strings.Index(text, secret); at >= 0; at = -1 {
				t.Errorf("%s has %s: …%s…", name, secret, text[max(0, at-300):min(len(text), at+60)])
			}
		}
	}
	for _, task := range ended {
		if log := texts["logs/"+string(task.ID)+".log"]; !strings.Contains(log, "[redacted]") {
			t.Errorf("the log of %s: %s", task.ID, log)
		}
	}
	if task := ended[0]; task.Error == nil || task.Error.Code != codeUploadFailed {
		t.Errorf("%s, %+v", task.State, task.Error)
	}
	if task := ended[1]; task.State != Failed || !strings.Contains(task.Error.Message, "cannot draw") {
		t.Errorf("%+v", task.Error)
	}
}
