package relay

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/kinds"
)

// A body that is taken means the same to the relay that reads it from disk: the worker is given parameters that the
// kind accepts, and the same as were checked.
func FuzzR06R07R08R09Requests(f *testing.F) {
	for _, tt := range badRequests {
		if len(tt.body) < 1000 {
			f.Add([]byte(tt.body))
		}
	}
	f.Add([]byte(`{"job_id":"a","kind":"motion","input":{"prompt":"<b>\u2028\ud83d\ude00","assets":["file:///srv/assets/a"]},"options":{"seed":1.0,"fps":24,"priority":-5}}`))
	f.Add([]byte(`{"job_id":"a","kind":"music","options": null }`))
	set, err := kinds.Parse("kinds.toml", []byte(testKinds))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		r := httptest.NewRequestWithContext(t.Context(), "POST", "/v1/tasks", bytes.NewReader(text))
		r.Header.Set("Content-Type", "application/json")
		var body request
		if err := httpd.ReadJSON(httptest.NewRecorder(), r, maxBody, &body, httpd.BodyOptions{}); err != nil {
			return
		}
		kind := set.Get(jobs.Kind(body.Kind))
		priority, err := body.check(set)
		if err != nil {
			return
		}
		checked := paramsOf(t, &body, kind)
		stored, err := json.Marshal(&body)
		if err != nil {
			t.Fatalf("%s cannot be stored: %v", text, err)
		}
		var again request
		if err := json.Unmarshal(stored, &again); err != nil {
			t.Fatalf("%s is stored as %s: %v", text, stored, err)
		}
		if p, err := again.check(set); err != nil || p != priority || priority < -maxPriority || priority > maxPriority {
			t.Errorf("%s is stored as %s: priority %d, then %d, %v", text, stored, priority, p, err)
		}
		if params := paramsOf(t, &again, kind); params != checked {
			t.Errorf("%s means %s, and stored as %s it means %s", text, checked, stored, params)
		}
		if len(stored) > maxRequestFile {
			t.Errorf("%s takes %d bytes", text, len(stored))
		}
		if twice, err := json.Marshal(&again); err != nil || !bytes.Equal(twice, stored) {
			t.Errorf("%s is stored as %s and then as %s, %v", text, stored, twice, err)
		}
	})
}

// paramsOf returns the parameters of a request as its program is given them.
func paramsOf(t *testing.T, r *request, kind *kinds.Kind) string {
	t.Helper()
	payload, err := r.payload()
	if err != nil {
		t.Fatal(err)
	}
	params, err := kind.CheckParams(json.RawMessage(payload))
	if err != nil {
		t.Fatalf("the worker refuses %s: %v", payload, err)
	}
	return string(params)
}

// A task.json that is read can be written, read again and shown.
func FuzzTaskFiles(f *testing.F) {
	all := Jobs{&Relay{Kinds: func() *kinds.Set { return &kinds.Set{} }, pauses: newPauses(slog.New(slog.DiscardHandler))}}
	id := newID(time.Date(2025, 12, 21, 9, 0, 0, 0, time.UTC))
	good := Task{
		SchemaVersion: schemaVersion, ID: id, JobID: "a", Kind: "music", State: Failed, CreatedAt: time.Date(2025, 12, 21, 9, 0, 0, 0, time.UTC), Progress: 0.5,
		Error: &Error{Code: "EXEC_FAILED", Message: "x"}, Assets: []string{"a.png"}, Artifacts: []Artifact{{"a.txt", "text/plain", 1, strings.Repeat("0", 64)}},
		Callback: Callback{URL: "https://example.com/", Events: allEvents}, Events: []Event{{Name: "queued", State: Queued, Sequence: 1}},
	}
	text, err := json.Marshal(&good)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	for _, change := range [][2]string{{`"failed"`, `"done"`}, {`0.5`, `1.5`}, {`0.5`, `-0`}, {`a.txt`, `../a`}, {`a.png`, `con`}, {`"priority":0`, `"priority":101`}, {`"size_bytes":1`, `"size_bytes":-1`}, {string(id), "task_1"}, {`"failed"`, `"queued"`}} {
		f.Add(bytes.ReplaceAll(text, []byte(change[0]), []byte(change[1])))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		task, err := parse(id, text)
		if err != nil {
			return
		}
		stored, err := json.Marshal(task)
		if err != nil {
			t.Fatalf("%s cannot be written: %v", text, err)
		}
		again, err := parse(id, stored)
		if err != nil {
			t.Fatalf("%s is written as %s: %v", text, stored, err)
		}
		if !reflect.DeepEqual(again.view(), task.view()) {
			t.Errorf("%s is shown as %+v, then as %+v", text, task.view(), again.view())
		}
		if _, err := all.jobOf(task); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		for _, e := range task.Events {
			if body, err := task.body(e); err != nil || len(body) > maxEventBody && len(task.Artifacts) == 0 && task.Error == nil {
				t.Errorf("%s: event %+v has %d bytes, %v", text, e, len(body), err)
			}
		}
	})
}
