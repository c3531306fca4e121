package relay

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/httpd/egress"
	"github.com/batchfleet/batchfleet/internal/testrun"
	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobapi/jobapitest"
	"github.com/batchfleet/batchfleet/jobs"
)

func TestJobsKeepTheContractOfTheJobAPI(t *testing.T) { jobapitest.Jobs(t, openJobs) }

// openJobs returns the jobs of a new relay, and a hand that runs them.
func openJobs(t *testing.T) jobapitest.Rig {
	t.Helper()
	r := newRig(t)
	hands := map[string]*hand{}
	return jobapitest.Rig{
		Jobs: Jobs{r.Relay}, Type: "relay.motion",
		Submit: func(text string) string {
			prompt, err := json.Marshal("(" + text + ")") // text alone would be left out of all that is shown
			if err != nil {
				t.Fatal(err)
			}
			return string(r.create(`{"job_id":"job_123","kind":"motion","input":{"prompt":` + string(prompt) + `}}`))
		},
		Start: func(id string) {
			h := r.start()
			if string(h.id()) != id {
				t.Fatalf("%s has started instead of %s", h.id(), id)
			}
			hands[id] = h
		},
		Report: func(id, text string) { hands[id].report(jobs.Progress{Message: text}, strings.Split(text, "\n")...) },
		End: func(id string, status jobs.State, text string) {
			h := hands[id]
			if status == jobs.Succeeded {
				h.make("a.txt", text)
				h.succeed()
				return
			}
			if status == jobs.Failed {
				h.report(jobs.Progress{}, text)
			}
			h.end(jobs.Outcome{State: status, Code: "PROGRAM_FAILED", Reason: text})
		},
	}
}

func TestJobsShowATaskThroughItsLife(t *testing.T) {
	r := setup(t, testrun.MemoryDir(t))
	r.Orchestrator = &url.URL{Scheme: "https", Host: "orchestrator.example.com"} // nothing is sent: no delivery runs
	r.Callbacks = egress.Policy{Hosts: []string{"example.com"}}
	r.open()
	shown := Jobs{r.Relay}
	id := r.create(`{"job_id":"job_123","kind":"motion","input":{"prompt":"prompt-canary"},"options":{"priority":5,"seed":77077},"callback_url":"https://example.com/?sig=url-canary"}`)
	want := func(summary string) jobapi.Job {
		t.Helper()
		found, err := shown.Get(t.Context(), []string{string(id)})
		if err != nil || len(found) != 1 {
			t.Fatal(found, err)
		}
		j := found[0]
		jobapitest.Check(t, j)
		if got := jobapitest.Summary(j); got != summary {
			t.Errorf("%s, want %s", got, summary)
		}
		text, err := json.Marshal(j)
		if err != nil || strings.Contains(string(text), "canary") || strings.Contains(string(text), "77077") {
			t.Errorf("shows %s, %v", text, err)
		}
		return j
	}
	artifacts := func() []jobapi.Artifact {
		t.Helper()
		made, err := shown.Artifacts(t.Context(), string(id))
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	j := want("queued run:pending upload:pending 0/0/2")
	if j.Scope != "relay" || j.Type != "relay.motion" || string(j.Request) != `{"assets":0,"jobId":"job_123","priority":5,"promptBytes":13}` {
		t.Errorf("%+v", j)
	}
	h := r.start()
	want("running run:running(0 %) upload:pending 1/0/2")
	h.report(jobs.Progress{Done: 55, Total: 100, Message: "denoising prompt-canary"})
	if j := want("running run:running(55 %: denoising [prompt]) upload:pending 1/0/2"); j.Attempt != 1 || j.StartedAt.IsZero() {
		t.Errorf("%+v", j)
	}
	h.make("a.txt", "bye")
	h.make("b.txt", "hello")
	h.succeed()
	want("running run:succeeded upload:running 2/1/2")
	if _, _, err := shown.OpenArtifact(t.Context(), string(id), "a.txt"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an artifact of a job that has not ended: %v", err)
	}
	if made := artifacts(); len(made) != 0 {
		t.Errorf("artifacts of a job that has not ended: %+v", made)
	}
	r.uploaded(id)
	if j := want("succeeded run:succeeded upload:succeeded 2/2/2"); string(j.Result) != fmt.Sprintf(`{"artifacts":2,"task":"/v1/tasks/%s"}`, id) {
		t.Errorf("%s", j.Result)
	}
	made := artifacts()
	if len(made) != 2 || made[0].Name != "a.txt" || made[1].Name != "b.txt" || made[1].Bytes != 5 || made[1].SHA256 == "" || made[1].Tag == "" {
		t.Errorf("artifacts %+v", made)
	}
	content, a, err := shown.OpenArtifact(t.Context(), string(id), "b.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	if text, err := io.ReadAll(content); err != nil || string(text) != "hello" || a.Name != "b.txt" {
		t.Errorf("%s %+v, %v", text, a, err)
	}
}

func TestJobsRetryAnUploadAndNothingElse(t *testing.T) {
	r := setup(t, testrun.MemoryDir(t))
	r.Orchestrator = &url.URL{Scheme: "https", Host: "orchestrator.example.com"} // nothing is sent: no delivery runs
	r.open()
	shown := Jobs{r.Relay}
	id := r.succeeded("a.txt", "x")
	fail := func(code string) {
		t.Helper()
		if _, err := r.tasks.update(r.tasks.find(id), func(task *Task) error {
			task.Error = &Error{Code: code, Message: "answered 403"}
			return task.become(Failed, task.UploadingAt)
		}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := shown.Retry(t.Context(), string(id)); err == nil {
		t.Error("an upload that is under way was made again")
	}
	fail(codeUploadFailed)
	j, err := shown.Retry(t.Context(), string(id))
	if err != nil || j.Status != jobs.Running || r.onDisk(id).State != Uploading || r.onDisk(id).Error != nil {
		t.Errorf("%+v, %v", j, err)
	}
	fail("EXEC_FAILED")
	if _, err := shown.Retry(t.Context(), string(id)); err == nil || r.task(id).State != Failed {
		t.Errorf("a program was run again: %v", err)
	}
	if _, err := shown.Retry(t.Context(), "unknown"); err == nil {
		t.Error("an unknown job was tried again")
	}
}

// What a task waits for is shown to people.
func TestR16PeopleSeeWhyATaskWaits(t *testing.T) {
	r := setup(t, t.TempDir())
	r.to("http://127.0.0.1:9") // where nothing listens
	r.HasGPUs = false
	r.open().soon().deliver()
	shown := func(id jobs.ID) (run, upload jobapi.Step) {
		t.Helper()
		job, err := Jobs{r.Relay}.jobOf(r.task(id))
		if err != nil {
			t.Fatal(err)
		}
		return job.Steps[0], job.Steps[1]
	}
	id := r.uploading(oneFile)
	r.until(id, "tried", func(t *Task) bool { return t.Message != "" })
	if _, upload := shown(id); upload.Status != jobapi.Running || !strings.Contains(upload.Message, "127.0.0.1:9") || !strings.Contains(upload.Message, "connection refused") {
		t.Errorf("upload is shown as %+v", upload)
	}
	for kind, want := range map[jobs.Kind]string{"render": "this relay has none", "gone": "no longer in the kinds file"} {
		waits := &Task{SchemaVersion: schemaVersion, ID: newID(time.Now()), JobID: "j", Kind: kind, State: Queued, CreatedAt: time.Now()}
		r.tasks.put(waits)
		if run, _ := shown(waits.ID); run.Status != jobapi.Pending || !strings.Contains(run.Message, want) {
			t.Errorf("kind %s: shown as %+v, want %s", kind, run, want)
		}
	}
	r.KindsChanged()
	if text := r.log.String(); strings.Count(text, "tasks wait for a kind that this relay cannot run") != 2 {
		t.Errorf("the log says %s", text)
	}
	if text := r.call(http.MethodGet, "/v1/status", "").Body; !strings.Contains(text, `"kind":"gone","slots":0,"gpus":0,"queued":1,"running":0,"uploading":0,"missing":true`) {
		t.Errorf("status: %s", text)
	}
}

func TestR50WithoutOrchestratorNothingIsSaidToBeUploaded(t *testing.T) {
	r := newRig(t)
	r.run(makes(oneFile))
	id := r.create("")
	job, err := Jobs{r.Relay}.jobOf(r.untilState(id, Succeeded))
	if err != nil || job.Steps[1].Status != jobapi.Skipped || job.Steps[0].FinishedAt.IsZero() {
		t.Errorf("%+v, %v", job.Steps, err)
	}
}
