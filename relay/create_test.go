package relay

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
)

func TestR04BodiesAreJSON(t *testing.T) {
	r := newRig(t)
	const body = `{"job_id":"job_123","kind":"music"}`
	post := func(path string, types ...string) response {
		return r.serve("127.0.0.1:1", http.MethodPost, path, strings.NewReader(body), http.Header{TokenHeader: {testToken}, "Content-Type": types})
	}
	for _, good := range []string{"application/json", "application/json; charset=utf-8", "application/json;charset=UTF-8", "Application/JSON"} {
		if resp := post("/v1/tasks", good); resp.Status != http.StatusAccepted {
			t.Errorf("%s: %d %s", good, resp.Status, resp.Body)
		}
	}
	for _, bad := range [][]string{
		nil,
		{""},
		{"text/plain"},
		{"application/x-www-form-urlencoded"},
		{"multipart/form-data; boundary=x"},
		{"application/json; charset=latin1"},
		{"application/jsonp"},
		{"application/json", "application/json"},
		{"application/json, text/plain"},
		{"text/json"},
	} {
		for _, path := range []string{"/v1/tasks", "/v1/tasks/" + string(newID(time.Now())) + "/callback"} {
			if resp := post(path, bad...); resp.Status != http.StatusUnsupportedMediaType || resp.code() != "UNSUPPORTED_MEDIA_TYPE" {
				t.Errorf("%s %q: %d %s", path, bad, resp.Status, resp.Body)
			}
		}
	}
}

// diskWriter looks at the disk when the answer begins.
type diskWriter struct {
	*httptest.ResponseRecorder
	began func(http.Header)
}

func (w *diskWriter) WriteHeader(status int) {
	w.began(w.Header())
	w.ResponseRecorder.WriteHeader(status)
}

func TestR05ATaskIsOnDiskBeforeItIsAccepted(t *testing.T) {
	r := newRig(t)
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/tasks", strings.NewReader(`{"job_id":"job_123","kind":"motion","input":{"prompt":"a"}}`))
	req.RemoteAddr = "127.0.0.1:1"
	req.Header.Set(TokenHeader, testToken)
	req.Header.Set("Content-Type", "application/json")
	var stored *Task
	w := &diskWriter{httptest.NewRecorder(), func(h http.Header) {
		id := jobs.ID(strings.TrimPrefix(h.Get("Location"), "/v1/tasks/"))
		stored = r.onDisk(id)
		if _, err := os.Stat(r.tasks.dir.of(id, inputDir, requestFile)); err != nil {
			t.Error(err)
		}
	}}
	r.Handler().ServeHTTP(w, req)
	if w.Code != http.StatusAccepted || stored == nil {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	created, err := stored.CreatedAt.MarshalText()
	want := fmt.Sprintf(`{"task_id":%q,"status":"queued","created_at":%q}`+"\n", stored.ID, created)
	if err != nil || w.Body.String() != want {
		t.Errorf("answered %swant %s", w.Body, want)
	}
	if stored.State != Queued || stored.JobID != "job_123" || stored.Kind != "motion" || stored.SchemaVersion != schemaVersion {
		t.Errorf("stored %+v", stored)
	}
}

// A directory that cannot be written to gives no 202, and no task.
func TestR05WhatCannotBeWrittenIsNotAccepted(t *testing.T) {
	for _, sub := range []string{tmpDir, tasksDir} {
		r := newRig(t)
		dir := filepath.Join(r.Dir, sub)
		if err := os.Rename(dir, dir+".away"); err != nil {
			t.Fatal(err)
		}
		resp := r.call(http.MethodPost, "/v1/tasks", `{"job_id":"job_123","kind":"music"}`)
		if resp.Status != http.StatusServiceUnavailable || resp.code() != "UNAVAILABLE" || resp.Header.Get("Retry-After") == "" || resp.Header.Get("Location") != "" {
			t.Errorf("without %s/: %d %s", sub, resp.Status, resp.Body)
		}
		if strings.Contains(resp.Body, r.Dir) {
			t.Errorf("without %s/ the answer tells a path: %s", sub, resp.Body)
		}
		if n := r.tasks.count(Queued); n != 0 {
			t.Errorf("without %s/ there are %d tasks", sub, n)
		}
		if err := os.Rename(dir+".away", dir); err != nil {
			t.Fatal(err)
		}
		r.create("")
		if left, err := os.ReadDir(filepath.Join(r.Dir, tmpDir)); err != nil || len(left) != 0 {
			t.Errorf("tmp/ has %v, %v", left, err)
		}
	}
}

// badRequests are bodies that make no task, with the field that they are wrong in. Those that begin with an asterisk are
// refused as JSON, where the field depends on what is found first.
var badRequests = []struct{ name, body, field string }{
	{"empty object", `{}`, "job_id"},
	{"array", `[]`, ""},
	{"text", `"x"`, ""},
	{"null", `null`, ""},
	{"no JSON", `job_id=1`, ""},
	{"cut", `{"job_id":"a","kind":"music"`, ""},
	{"two values", `{"job_id":"a","kind":"music"} {}`, ""},
	{"unknown field", `{"job_id":"a","kind":"music","prompt":"x"}`, "prompt"},
	{"own task_id", `{"job_id":"a","kind":"music","task_id":"task_1"}`, "task_id"},
	{"other case", `{"Job_id":"a","kind":"music"}`, "Job_id"},
	{"key twice", `{"job_id":"a","job_id":"b","kind":"music"}`, "job_id"},
	{"invalid UTF-8", "{\"job_id\":\"a\xff\",\"kind\":\"music\"}", ""},
	{"deep", `{"job_id":"a","kind":"music","options":{"x":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}}`, "*"},

	{"no job_id", `{"kind":"music"}`, "job_id"},
	{"job_id null", `{"job_id":null,"kind":"music"}`, "job_id"},
	{"job_id a number", `{"job_id":1,"kind":"music"}`, "job_id"},
	{"job_id empty", `{"job_id":"","kind":"music"}`, "job_id"},
	{"job_id a dot", `{"job_id":".","kind":"music"}`, "job_id"},
	{"job_id two dots", `{"job_id":"..","kind":"music"}`, "job_id"},
	{"job_id with two dots", `{"job_id":"a..b","kind":"music"}`, "job_id"},
	{"job_id with a slash", `{"job_id":"a/b","kind":"music"}`, "job_id"},
	{"job_id escaped", `{"job_id":"a%2fb","kind":"music"}`, "job_id"},
	{"job_id with a line end", `{"job_id":"a\n","kind":"music"}`, "job_id"},
	{"job_id with NUL", `{"job_id":"a\u0000","kind":"music"}`, "job_id"},
	{"job_id begins with a dash", `{"job_id":"-a","kind":"music"}`, "job_id"},
	{"job_id not ASCII", `{"job_id":"é","kind":"music"}`, "job_id"},
	{"job_id of 129 bytes", `{"job_id":"` + strings.Repeat("a", 129) + `","kind":"music"}`, "job_id"},

	{"no kind", `{"job_id":"a"}`, "kind"},
	{"kind unknown", `{"job_id":"a","kind":"video"}`, "kind"},
	{"kind empty", `{"job_id":"a","kind":""}`, "kind"},
	{"kind in capitals", `{"job_id":"a","kind":"Music"}`, "kind"},
	{"kind a list", `{"job_id":"a","kind":["music"]}`, "kind"},
	{"kind of the seed's text", `{"job_id":"a","kind":"motion | scene | music"}`, "kind"},

	{"input text", `{"job_id":"a","kind":"motion","input":"x"}`, "input"},
	{"input unknown field", `{"job_id":"a","kind":"motion","input":{"prompt":"x","text":"y"}}`, "input.text"},
	{"prompt missing", `{"job_id":"a","kind":"motion"}`, "input.prompt"},
	{"prompt null", `{"job_id":"a","kind":"motion","input":{"prompt":null}}`, "input.prompt"},
	{"prompt a number", `{"job_id":"a","kind":"motion","input":{"prompt":5}}`, "input.prompt"},
	{"prompt with NUL", `{"job_id":"a","kind":"motion","input":{"prompt":"a\u0000b"}}`, "input.prompt"},
	{"prompt with half a surrogate", `{"job_id":"a","kind":"motion","input":{"prompt":"\ud800"}}`, "*"},
	{"prompt of 16 KiB and 1", `{"job_id":"a","kind":"motion","input":{"prompt":"` + strings.Repeat("a", maxPrompt+1) + `"}}`, "input.prompt"},
	{"prompt of 16 KiB and 1, in characters fewer", `{"job_id":"a","kind":"motion","input":{"prompt":"` + strings.Repeat("é", maxPrompt/2) + `a"}}`, "input.prompt"},
	{"prompt of 16 KiB and 1 for a kind that takes more", `{"job_id":"a","kind":"scene","input":{"prompt":"` + strings.Repeat("a", maxPrompt+1) + `"}}`, "input.prompt"},
	{"prompt with NUL, optional", `{"job_id":"a","kind":"scene","input":{"prompt":"a\u0000b"}}`, "input.prompt"},
	{"prompt for a kind without", `{"job_id":"a","kind":"music","input":{"prompt":"x"}}`, "input.prompt"},

	{"options text", `{"job_id":"a","kind":"music","options":"x"}`, "options"},
	{"options list", `{"job_id":"a","kind":"music","options":[]}`, "options"},
	{"options unknown", `{"job_id":"a","kind":"music","options":{"x":1}}`, "options.x"},
	{"options of another kind", `{"job_id":"a","kind":"scene","options":{"fps":24}}`, "options.fps"},
	{"options key twice", `{"job_id":"a","kind":"motion","input":{"prompt":"x"},"options":{"fps":1,"fps":2}}`, "*"},
	{"prompt in options", `{"job_id":"a","kind":"motion","options":{"prompt":"x"}}`, "options.prompt"},
	{"options too large", `{"job_id":"a","kind":"music","options":{"x":"` + strings.Repeat("a", maxOptions) + `"}}`, "options"},
	{"fps 0", motion(`"fps":0`), "options.fps"},
	{"fps 241", motion(`"fps":241`), "options.fps"},
	{"fps text", motion(`"fps":"24"`), "options.fps"},
	{"fps a fraction", motion(`"fps":24.5`), "options.fps"},
	{"fps null", motion(`"fps":null`), "options.fps"},
	{"fps NaN", motion(`"fps":NaN`), "*"},
	{"fps 1e999", motion(`"fps":1e999`), "options.fps"},
	{"seed -1", motion(`"seed":-1`), "options.seed"},
	{"seed true", motion(`"seed":true`), "options.seed"},
	{"seed too large", motion(`"seed":99999999999999999999`), "options.seed"},

	{"asset a text", `{"job_id":"a","kind":"music","input":{"assets":"file:///a"}}`, "input.assets"},
	{"asset a number", `{"job_id":"a","kind":"music","input":{"assets":[1]}}`, "input.assets"},
	{"assets without a root", `{"job_id":"a","kind":"music","input":{"assets":["file:///a"]}}`, "input.assets[0]"},
	{"17 assets", `{"job_id":"a","kind":"music","input":{"assets":["` + strings.Repeat(`file:///a","`, 16) + `file:///a"]}}`, "input.assets"},
	{"no asset for a kind that needs one", `{"job_id":"a","kind":"upscale"}`, "input.assets"},
	{"two assets for a kind that takes one", `{"job_id":"a","kind":"upscale","input":{"assets":["file:///a","file:///b"]}}`, "input.assets"},

	{"callback_url a number", `{"job_id":"a","kind":"music","callback_url":1}`, "callback_url"},
	{"callback_url empty", `{"job_id":"a","kind":"music","callback_url":""}`, "callback_url"},
	{"callback_url of a host that is not allowed", `{"job_id":"a","kind":"music","callback_url":"https://example.com/secret-canary"}`, "callback_url"},
	{"callback_url with a password", `{"job_id":"a","kind":"music","callback_url":"https://u:secret-canary@example.com/"}`, "callback_url"},
	{"callback_url of a file", `{"job_id":"a","kind":"music","callback_url":"file:///etc/passwd"}`, "callback_url"},
	{"callback_url with a control character", `{"job_id":"a","kind":"music","callback_url":"https://example.com/\u0001"}`, "callback_url"},
}

func motion(options string) string {
	return `{"job_id":"a","kind":"motion","input":{"prompt":"x"},"options":{` + options + `}}`
}

func TestR06R07R08R09BadRequestsMakeNoTask(t *testing.T) {
	r := newRig(t)
	for _, tt := range badRequests {
		resp := r.call(http.MethodPost, "/v1/tasks", tt.body)
		if resp.Status != http.StatusBadRequest || resp.code() != "INVALID_ARGUMENT" || tt.field != "*" && resp.field() != tt.field {
			t.Errorf("%s: %d, field %q, want %q: %s", tt.name, resp.Status, resp.field(), tt.field, resp.Body)
		}
		if len(resp.Body) > 1500 || strings.Contains(resp.Body, "canary") {
			t.Errorf("%s: it is told %s", tt.name, resp.Body)
		}
	}
	resp := r.call(http.MethodPost, "/v1/tasks", `{"job_id":"a","kind":"music","x":"`+strings.Repeat("a", maxBody)+`"}`)
	if resp.Status != http.StatusRequestEntityTooLarge || resp.code() != "PAYLOAD_TOO_LARGE" {
		t.Errorf("256 KiB: %d %s", resp.Status, resp.Body)
	}
	if all, err := os.ReadDir(filepath.Join(r.Dir, tasksDir)); err != nil || len(all) != 1 || r.tasks.count(Queued) != 0 {
		t.Errorf("tasks/ has %v, %v", all, err)
	}
	if strings.Contains(r.log.String(), "canary") {
		t.Errorf("log: %s", r.log)
	}
}

func TestR06AKindThatNeedsAGPUIsRefusedWithoutOne(t *testing.T) {
	r := newRig(t)
	const body = `{"job_id":"a","kind":"render"}`
	r.create(body)
	r.HasGPUs = false
	if resp := r.call(http.MethodPost, "/v1/tasks", body); resp.Status != http.StatusBadRequest || resp.field() != "kind" {
		t.Errorf("%d %s", resp.Status, resp.Body)
	}
}

func TestR07R09WhatIsJustAllowedMakesATask(t *testing.T) {
	r := newRig(t)
	for _, body := range []string{
		`{"job_id":"a","kind":"music"}`,
		`{"job_id":"` + strings.Repeat("a", 128) + `","kind":"music"}`,
		`{"job_id":"0.a_b-c.","kind":"music","input":{},"options":{}}`,
		`{"job_id":"a","kind":"music","input":null,"options":null,"callback_url":null}`,
		`{"job_id":"a","kind":"music","input":{"prompt":null,"assets":null}}`,
		`{"job_id":"a","kind":"music","input":{"assets":[]}}`,
		`{"job_id":"a","kind":"scene","input":{"prompt":""}}`,
		`{"job_id":"a","kind":"motion","input":{"prompt":"` + strings.Repeat("a", maxPrompt) + `"}}`,
		`{"job_id":"a","kind":"motion","input":{"prompt":"<b>&\u2028 \ud83d\ude00 \"\\\n"}}`,
		motion(`"fps":1`), motion(`"fps":240`), motion(`"seed":9007199254740991`), motion(`"priority":-100`), motion(`"priority":100,"seed":0`),
		" \n" + `{"kind" : "music" , "job_id" : "a" }` + "\n",
	} {
		id := r.create(body)
		if !regexp.MustCompile(`^task_[0-7][0-9A-HJKMNP-TV-Z]{25}$`).MatchString(string(id)) {
			t.Errorf("task_id %s", id)
		}
		lease, err := r.queue.Lease(t.Context())
		if err != nil || lease.Invalid != nil {
			t.Fatalf("%.100s: %v, %v", body, err, lease.Invalid)
		}
		if kind := r.Kinds().Get(lease.Job.Kind); lease.Job.Payload != "" {
			if _, err := kind.CheckParams(json.RawMessage(lease.Job.Payload)); err != nil {
				t.Errorf("%.100s: the worker is given %s: %v", body, lease.Job.Payload, err)
			}
		}
		if err := r.queue.Ack(t.Context(), lease); err != nil {
			t.Fatal(err)
		}
	}
}

func TestR08TaskIDsAreInTheOrderOfTime(t *testing.T) {
	r := newRig(t)
	var ids []jobs.ID
	for range 50 {
		ids = append(ids, r.create(""))
	}
	if !slices.IsSorted(ids) || len(slices.Compact(ids)) != 50 {
		t.Errorf("ids are not in order: %v", ids)
	}
}

func TestR29AFullQueueOrDiskTakesNoTask(t *testing.T) {
	r := newRig(t)
	r.MaxQueued = 2
	first := r.create("")
	r.create("")
	check := func(what string, status int, code string) {
		t.Helper()
		resp := r.call(http.MethodPost, "/v1/tasks", `{"job_id":"a","kind":"music"}`)
		if resp.Status != status || resp.code() != code || resp.Header.Get("Retry-After") != "5" {
			t.Errorf("%s: %d %v %s", what, resp.Status, resp.Header, resp.Body)
		}
	}
	check("a full queue", http.StatusTooManyRequests, "QUEUE_FULL")
	if _, err := r.status.Cancel(first); err != nil {
		t.Fatal(err)
	}
	r.create("")
	check("full again", http.StatusTooManyRequests, "QUEUE_FULL")
	r.MaxQueued = 1000
	r.MinFree = 1 << 62
	check("a full disk", http.StatusInsufficientStorage, "DISK_FULL")
	if err := r.Check(t.Context()); err == nil {
		t.Error("a worker would start tasks on a full disk")
	}
	if resp := r.call(http.MethodGet, "/v1/status", ""); !strings.Contains(resp.Body, `"min_free_bytes":4611686018427387904`) {
		t.Errorf("status: %s", resp.Body)
	}
	r.MinFree = 0
	r.create("")
	if err := r.Check(t.Context()); err != nil {
		t.Error(err)
	}
}
