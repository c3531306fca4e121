package relay

import (
	"encoding/json"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/httpd/egress"
	"github.com/batchfleet/batchfleet/internal/testrun"
	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobapi/jobapitest"
	"github.com/batchfleet/batchfleet/jobs"
)

func TestD31ListOfTasksBeginsBeforeATime(t *testing.T) { jobapitest.Until(t, openJobs(t)) }

func TestD09RelayTellsItsChanges(t *testing.T) { jobapitest.Changes(t, openJobs(t)) }

func TestD01RelayCountsItsTasks(t *testing.T) { jobapitest.Counter(t, openJobs(t)) }

func TestD30RelaySaysWhyATaskWaits(t *testing.T) {
	jobapitest.Explainer(t, openJobs(t), jobapi.WhyQueued)
}

// count returns what is counted, without totals and hours.
func (r *rig) count() jobapi.Counts {
	r.t.Helper()
	c, err := Jobs{r.Relay}.Count(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	c.Total, c.Hours = jobapi.Flow{}, nil
	return c
}

func TestD01CountsOfARelayOutliveIt(t *testing.T) {
	r := setup(t, testrun.MemoryDir(t))
	r.Orchestrator = &url.URL{Scheme: "https", Host: "orchestrator.example.com"} // nothing is sent: no delivery runs
	r.open()
	id := r.succeeded("a.txt", "x")
	if _, err := r.tasks.update(r.tasks.find(id), func(task *Task) error {
		task.Error = &Error{Code: codeUploadFailed, Message: "answered 403"}
		return task.become(Failed, task.UploadingAt)
	}); err != nil {
		t.Fatal(err)
	}
	r.create("")
	waits := r.create("")
	dropped := r.create("")
	if _, err := r.status.Cancel(dropped); err != nil {
		t.Fatal(err)
	}
	if err := r.tasks.drop(r.tasks.find(dropped)); err != nil {
		t.Fatal(err)
	}
	r.start() // crashes
	want := r.count()
	if want.DeadLetters != 1 || want.States[jobs.Failed] != 1 || want.States[jobs.Canceled] != 0 || len(want.Kinds) != 1 || want.Kinds[0].Queued != 1 || want.Kinds[0].Running != 1 {
		t.Errorf("counted %+v", want)
	}
	next := r.again(nil)
	if got := next.count(); got.States[jobs.Queued] != 2 || got.States[jobs.Running] != 0 || got.DeadLetters != 1 || !got.Kinds[0].Oldest.Before(next.task(waits).CreatedAt.Add(1)) {
		t.Errorf("after a restart counted %+v", got)
	}
	c, err := Jobs{next.Relay}.Count(t.Context())
	if err != nil || c.Total != (jobapi.Flow{}) {
		t.Errorf("a restart counts what has come before: %+v, %v", c.Total, err)
	}
	if _, err := (Jobs{next.Relay}).Retry(t.Context(), string(id)); err != nil || next.count().DeadLetters != 0 {
		t.Errorf("an upload that is made again: %+v, %v", next.count(), err)
	}
}

// why returns the codes of the reasons of a task, and its first one.
func (r *rig) why(id jobs.ID) (codes string, first jobapi.Reason) {
	r.t.Helper()
	all, err := Jobs{r.Relay}.Why(r.t.Context(), string(id))
	if err != nil || len(all) == 0 {
		r.t.Fatal(all, err)
	}
	var words []string
	for _, one := range all {
		words = append(words, one.Code)
	}
	return strings.Join(words, " "), all[0]
}

func TestD30ReasonsOfTasks(t *testing.T) {
	r := setup(t, testrun.MemoryDir(t))
	r.Orchestrator = &url.URL{Scheme: "https", Host: "orchestrator.example.com"} // nothing is sent: no delivery runs
	r.open()
	r.HasGPUs = false
	first, second := r.create(""), r.create("")
	other := r.create(`{"job_id":"j","kind":"motion","input":{"prompt":"a"},"options":{"priority":-5}}`)
	alone := r.create(`{"job_id":"j","kind":"scene","input":{"prompt":"a"}}`)
	check := func(id jobs.ID, want string) jobapi.Reason {
		t.Helper()
		codes, first := r.why(id)
		if codes != want {
			t.Errorf("%s, want %s: %+v", codes, want, first)
		}
		return first
	}
	if got := check(first, "QUEUED"); *got.Ahead != 0 || got.Message != "It is next." {
		t.Errorf("the first one: %+v", got)
	}
	if got := check(other, "QUEUED"); *got.Ahead != 2 || got.Message != "2 tasks are queued before it, by priority and age." {
		t.Errorf("one of low priority: %+v", got)
	}
	if got := check(alone, "QUEUED"); *got.Ahead != 0 {
		t.Errorf("one of a kind with slots of its own: %+v", got)
	}
	h := r.start()
	check(first, "LEASED")
	if got := check(second, "NO_SLOT QUEUED"); !strings.Contains(got.Message, "1 task runs") {
		t.Errorf("while another one runs: %+v", got)
	}
	h.make("a.txt", "x")
	h.succeed()
	check(first, "LEASED")
	e := r.tasks.find(first)
	failing := *e.task.Load()
	failing.Message = "connection refused, token=hunter2"
	r.tasks.publish(e, &failing)
	if got := check(first, "DELAYED"); !got.Until.Equal(failing.UploadingAt.Add(24*time.Hour).Truncate(time.Millisecond)) || strings.Contains(got.Message, "hunter2") {
		t.Errorf("an upload that has failed: %+v", got)
	}
	if err := (Jobs{r.Relay}).Pause(t.Context(), "music"); err != nil {
		t.Fatal(err)
	}
	if got := check(second, "PAUSED QUEUED"); got.Since.IsZero() {
		t.Errorf("of a paused kind: %+v", got)
	}
	if got := check(other, "QUEUED"); *got.Ahead != 0 {
		t.Errorf("a task is behind those of a paused kind: %+v", got)
	}
	for kind, want := range map[jobs.Kind]string{"render": "NO_WORKER QUEUED", "gone": "NO_WORKER QUEUED"} {
		waits := &Task{SchemaVersion: schemaVersion, ID: newID(time.Now()), JobID: "j", Kind: kind, State: Queued, CreatedAt: time.Now()}
		r.tasks.put(waits)
		check(waits.ID, want)
	}
	r.MinFree = 1 << 60
	check(alone, "DRAINING QUEUED")
	r.MinFree = 0
	delayed := r.start() // scene, or motion
	if _, err := r.status.Retry(t.Context(), delayed.claim, jobs.Outcome{State: jobs.Failed, Code: "PROGRAM_FAILED", Reason: "exit status 1", RetryAfter: time.Hour}); err != nil {
		t.Fatal(err)
	}
	if got := check(delayed.id(), "DELAYED QUEUED"); got.Until.Before(time.Now().Add(50*time.Minute)) || !strings.Contains(got.Message, "exit status 1") {
		t.Errorf("between attempts: %+v", got)
	}
	if _, err := r.status.Cancel(second); err != nil {
		t.Fatal(err)
	}
	check(second, "ENDED")
}

func TestD06PausedKindsOfARelay(t *testing.T) {
	r := setup(t, t.TempDir())
	r.open()
	shown := Jobs{r.Relay}
	if err := shown.Pause(t.Context(), "unknown"); !errors.Is(err, jobapi.ErrNoKind) {
		t.Errorf("an unknown kind: %v", err)
	}
	if err := shown.Resume(t.Context(), "unknown"); !errors.Is(err, jobapi.ErrNoKind) {
		t.Errorf("an unknown kind: %v", err)
	}
	for range 2 {
		if err := shown.Pause(t.Context(), "music"); err != nil {
			t.Fatal(err)
		}
	}
	paused, err := shown.Paused(t.Context())
	if err != nil || len(paused) != 1 || paused[0].Kind != "music" || paused[0].Since.IsZero() {
		t.Errorf("paused: %+v, %v", paused, err)
	}
	first := r.create("")
	second := r.create(`{"job_id":"j","kind":"motion","input":{"prompt":"a"}}`)
	if h := r.start(); h.id() != second {
		t.Errorf("%s of a paused kind has started", h.id())
	}
	if text := r.call("GET", "/v1/status", "").Body; !strings.Contains(text, `"paused_since":"`) {
		t.Errorf("status: %s", text)
	}
	next := r.again(nil)
	shown = Jobs{next.Relay}
	if again, err := shown.Paused(t.Context()); err != nil || len(again) != 1 || again[0] != paused[0] {
		t.Errorf("after a restart paused: %+v, %v", again, err)
	}
	started := make(chan *hand)
	next.start() // motion, which has crashed
	go func() { started <- next.start() }()
	if err := shown.Resume(t.Context(), "music"); err != nil {
		t.Fatal(err)
	}
	if h := <-started; h.id() != first {
		t.Errorf("%s has started, want %s", h.id(), first)
	}
	if again, err := shown.Paused(t.Context()); err != nil || len(again) != 0 {
		t.Errorf("after Resume paused: %+v, %v", again, err)
	}
}

func TestD06DamagedPausesDoNotKeepARelayFromStarting(t *testing.T) {
	r := setup(t, t.TempDir())
	r.open()
	if err := (Jobs{r.Relay}).Pause(t.Context(), "music"); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", "{", `{"schema_version":2,"kinds":{}}`, strings.Repeat("x", maxPausedFile+1)} {
		if err := os.WriteFile(filepath.Join(r.Dir, pausedFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		r = r.again(nil)
		if !strings.Contains(r.log.String(), "which kinds are paused cannot be read") || r.paused.has("music") {
			t.Errorf("%.20q: the log says %s", text, r.log)
		}
		if _, err := os.Stat(filepath.Join(r.Dir, pausedFile+".damaged")); err != nil {
			t.Error(err)
		}
	}
}

func TestD06OnlySoManyKindsArePaused(t *testing.T) {
	p := openPaused(t.TempDir(), nil)
	for i := range jobapi.MaxPaused {
		p.kinds[jobs.Kind(newID(time.UnixMilli(int64(i))))] = time.Now()
	}
	if err := p.pause("music"); !errors.Is(err, jobapi.ErrManyPaused) {
		t.Errorf("one more: %v", err)
	}
}

func TestD06KindsOfARelay(t *testing.T) {
	r := newRig(t)
	r.Slots, r.GPUs = 3, "0,1"
	all, err := Jobs{r.Relay}.Kinds(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]jobapi.Kind{}
	for _, k := range all {
		got[k.Name] = k
	}
	for name, want := range map[string]jobapi.Kind{
		"music": {Input: "optional", Workers: 1, Slots: 3}, "scene": {Input: "optional", Workers: 1, Slots: 1, Cap: 1}, "render": {Input: "optional", Workers: 1, Slots: 2},
		"upscale": {Input: "one", Workers: 1, Slots: 3},
	} {
		k := got[name]
		if k.Input != want.Input || k.Workers != want.Workers || k.Slots != want.Slots || k.Cap != want.Cap || !json.Valid(k.Params) {
			t.Errorf("%s is %+v, want %+v", name, k, want)
		}
	}
	if !strings.Contains(string(got["motion"].Params), `"seed":{"type":"integer"`) {
		t.Errorf("params of motion: %s", got["motion"].Params)
	}
}

func TestD08RelayReportsWhatIsToBeDelivered(t *testing.T) {
	r := setup(t, testrun.MemoryDir(t))
	r.Orchestrator = &url.URL{Scheme: "https", Host: "orchestrator.example.com"} // nothing is sent: no delivery runs
	r.Callbacks = egress.Policy{Hosts: []string{"example.com"}}
	r.GPUs = "0,1"
	r.open()
	id := r.create(`{"job_id":"j","kind":"render","callback_url":"https://example.com/?sig=url-canary"}`)
	h := r.start()
	sections := func() map[string][][]string {
		t.Helper()
		all, err := Jobs{r.Relay}.Report(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		rows := map[string][][]string{}
		for _, s := range all {
			rows[s.Title] = s.Rows
			for _, row := range s.Rows {
				if len(row) != len(s.Columns) || strings.Contains(strings.Join(row, " "), "canary") {
					t.Errorf("%s: row %q of %q", s.Title, row, s.Columns)
				}
			}
		}
		return rows
	}
	if rows := sections()["GPUs"]; len(rows) != 1 || strings.Join(rows[0], "|") != "0,1|1|0" {
		t.Errorf("GPUs: %q", rows)
	}
	h.make("a.txt", "x")
	h.succeed()
	rows := sections()
	if up := rows["Uploads that are not delivered"]; len(up) != 1 || up[0][0] != string(id) || up[0][2] != "uploading" || up[0][4] != "1" {
		t.Errorf("uploads: %q", up)
	}
	if calls := rows["Callbacks that are not delivered"]; len(calls) != 1 || calls[0][1] != "example.com" || calls[0][2] != "queued" || calls[0][3] != "3" {
		t.Errorf("callbacks: %q", calls)
	}
	if disk := rows["Disk"]; len(disk) != 1 || !strings.HasSuffix(disk[0][0], " MiB") || disk[0][2] != "1" {
		t.Errorf("disk: %q", disk)
	}
}

func TestD03TaskShowsItsEarlierAttempts(t *testing.T) {
	r := setup(t, t.TempDir())
	r.open()
	id := r.create("")
	h := r.start()
	if err := r.status.Release(t.Context(), h.claim, "the worker stops"); err != nil {
		t.Fatal(err)
	}
	if err := r.queue.Nack(t.Context(), h.lease, 0); err != nil {
		t.Fatal(err)
	}
	h = r.start()
	if _, err := r.status.Retry(t.Context(), h.claim, jobs.Outcome{State: jobs.Failed, Code: "PROGRAM_FAILED", Reason: "exit status 1"}); err != nil {
		t.Fatal(err)
	}
	next := r.again(nil)
	next.start()
	next = next.again(nil)
	next.start()
	found, err := Jobs{next.Relay}.Get(t.Context(), []string{string(id)})
	if err != nil || len(found) != 1 || found[0].Attempt != 4 {
		t.Fatal(found, err)
	}
	var got []string
	for i, a := range found[0].Attempts {
		if a.Number != i+1 || a.Started.IsZero() || a.Finished.Before(a.Started.Time) {
			t.Errorf("attempt %d is %+v", i+1, a)
		}
		got = append(got, a.Outcome+": "+a.Message)
	}
	if text := strings.Join(got, "; "); text != "handed back: the worker stops; failed: exit status 1; crashed: the relay has died" {
		t.Errorf("attempts: %s", text)
	}
	task := &Task{Attempt: 0}
	for range 30 {
		task.Attempt++
		task.tried("failed", strings.Repeat("x", 10_000), time.Now())
	}
	if n := len(task.Tried); n != maxTried || task.Tried[0].Number != 21 || len(task.Tried[0].Message) > maxReason {
		t.Errorf("%d attempts are kept, the first %.60v", n, task.Tried[0])
	}
}
