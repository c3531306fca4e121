package relay

import (
	"bytes"
	"encoding/json"
	"flag"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/batchfleet/batchfleet/httpd/egress"
	"github.com/batchfleet/batchfleet/internal/testrun"
	"github.com/batchfleet/batchfleet/jobs"
)

var update = flag.Bool("update", false, "write the answers into testdata")

// exchange is a file of testdata: what is asked, and what the relay answers.
type exchange struct {
	Request  string          `json:"request"` // method and path
	Body     json.RawMessage `json:"body,omitempty"`
	Status   int             `json:"status"`
	Location string          `json:"location,omitempty"`
	Answer   json.RawMessage `json:"answer"`
}

// changing are the parts of an answer that differ between two runs.
var changing = []struct {
	form *regexp.Regexp
	by   string
}{
	{regexp.MustCompile(`task_[0-9A-Z]{26}`), "task_abc"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`), "2025-12-21T09:00:00Z"},
	{regexp.MustCompile(`"free_bytes":\d+`), `"free_bytes":1000000000`},
}

// golden makes a request and compares it, with its answer, to a file.
func (r *rig) golden(name, method, path, body string) {
	r.t.Helper()
	resp := r.call(method, path, body)
	e := exchange{Request: method + " " + path, Body: json.RawMessage(body), Status: resp.Status, Location: resp.Header.Get("Location"), Answer: json.RawMessage(resp.Body)}
	got := r.compared(e)
	file := filepath.Join("testdata", name+".json")
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			r.t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		r.t.Fatalf("%v: go test ./relay -run Golden -update", err)
	}
	if !bytes.Equal(got, want) {
		r.t.Errorf("%s:\n%swant:\n%s", name, got, want)
	}
}

// compared is an exchange as its file has it.
func (r *rig) compared(e exchange) []byte {
	r.t.Helper()
	text, err := json.Marshal(e)
	if err != nil {
		r.t.Fatalf("%v: %s", err, e.Answer)
	}
	for _, c := range changing {
		text = c.form.ReplaceAll(text, []byte(c.by))
	}
	text = bytes.ReplaceAll(text, []byte(r.Assets.Roots[0]), []byte("/srv/assets"))
	var b bytes.Buffer
	if err := json.Indent(&b, text, "", "  "); err != nil {
		r.t.Fatal(err)
	}
	return append(b.Bytes(), '\n')
}

// The bodies are the seed's, with its words and numbers.
func TestR05R11R13GoldenAnswersAreThoseOfTheContract(t *testing.T) {
	assets := t.TempDir()
	if err := os.WriteFile(filepath.Join(assets, "input.png"), []byte("\x89PNG\r\n\x1a\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := setup(t, testrun.MemoryDir(t))
	r.Assets = Assets{Roots: []string{assets}, MaxBytes: 1 << 20}
	r.Callbacks = egress.Policy{Hosts: []string{"orchestrator.example.com"}} // nothing is sent: no delivery runs
	r.Orchestrator = &url.URL{Scheme: "https", Host: "orchestrator.example.com"}
	r.open()
	body := `{"job_id": "job_123", "kind": "motion", "input": {"prompt": "a dancing robot", "assets": ["file://` + assets + `/input.png"]},
		"options": {"seed": 123, "fps": 24}, "callback_url": "https://orchestrator.example.com/api/relay/events"}`
	r.golden("create", http.MethodPost, "/v1/tasks", body)
	h := r.start()
	task := "/v1/tasks/" + string(h.id())
	h.report(jobs.Progress{Done: 55, Total: 100})
	r.golden("running", http.MethodGet, task, "")
	r.golden("callback", http.MethodPost, task+"/callback", `{"callback_url":"https://orchestrator.example.com/api/relay/events","events":["queued","running","succeeded","failed"]}`)
	h.make("preview.mp4", "\x00\x00\x00\x18ftypmp42")
	h.succeed()
	r.golden("uploading", http.MethodGet, task, "")
	r.sending(h.id())
	r.golden("cancel-uploading", http.MethodPost, task+"/cancel", "")
	failed := "/v1/tasks/" + string(r.create(body))
	r.golden("queued", http.MethodGet, failed, "")
	r.start().end(jobs.Outcome{State: jobs.Failed, Code: "PROGRAM_FAILED", Reason: "exit 3: no such model"})
	r.golden("failed", http.MethodGet, failed, "")
	r.golden("cancel-ended", http.MethodPost, failed+"/cancel", "")
	canceled := "/v1/tasks/" + string(r.create(""))
	r.golden("cancel-queued", http.MethodPost, canceled+"/cancel", "")
	r.golden("list", http.MethodGet, "/v1/tasks?limit=2", "")
	r.golden("status", http.MethodGet, "/v1/status", "")
	r.golden("gc", http.MethodPost, "/v1/gc", "")
	r.golden("error-field", http.MethodPost, "/v1/tasks", `{"job_id":"job_123","kind":"video"}`)
	r.golden("error-not-found", http.MethodGet, "/v1/tasks/unknown", "")
}
