package cli

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestR40R50R60MediaArriveAtTheOrchestrator: the kinds of the examples make their media of a prompt that would be a
// mistake wherever it is taken for more than a text, and an orchestrator in another language takes files and events.
func TestR40R50R60MediaArriveAtTheOrchestrator(t *testing.T) {
	examples(t)
	t.Parallel()
	kinds, err := filepath.Abs("../examples/relay/kinds.toml")
	if err != nil {
		t.Fatal(err)
	}
	o := newReceiver(t)
	o.start(nil)
	r := newTestRelay(t, "", "--kinds", kinds, "--gpus", "none", "--slots", "3", "--orchestrator", "http://"+o.addr, "--callback-secret-file", filepath.Join(o.dir, "callback.secret"))
	path, arguments := recorded(t, "python3", "ffmpeg", "povray", "csound")
	r.env = []string{"PATH=" + path}
	r.start()
	t.Run("kinds", func(t *testing.T) {
		for _, k := range theRelayKinds {
			t.Run(k.kind, func(t *testing.T) {
				t.Parallel()
				args := []string{
					"submit", "--relay", r.url, "--token-file", "relay.token", "--callback", "http://" + o.addr + "/api/relay/events", "--wait",
					"--kind", k.kind, "--job-id", "job-" + k.kind, "--prompt=" + hostilePrompt,
				}
				for _, option := range regexp.MustCompile(`"(\w+)": ([\d.]+)`).FindAllStringSubmatch(k.options, -1) {
					args = append(args, "--option", option[1]+"="+option[2])
				}
				code, out, errs := output(t, o.command(args...))
				if code != 0 || strings.Contains(out+errs, promptMark) {
					t.Fatalf("exit code %d\n%s%s", code, out, errs)
				}
				id, _, _ := strings.Cut(out, "\n")
				k.check(t, filepath.Join(o.dir, "received", "job-"+k.kind, id))
				promised := o.received("job-"+k.kind, id)
				if len(promised) != len(k.artifacts) || strings.Count(out, r.url+"/v1/tasks/"+id+"/artifacts/") != len(k.artifacts) {
					t.Errorf("%v arrived, want %v\n%s", promised, k.artifacts, out)
				}
				for _, a := range r.task(id).Artifacts {
					here, there := sum(r.artifact(id, a.Name)), sum(o.file("job-"+k.kind, id, a.Name))
					if here != a.SHA256 || there != a.SHA256 || promised[a.Name] != a.SHA256 {
						t.Errorf("%s has SHA-256 %s at the relay and %s at the orchestrator, was promised as %s, and is in the index as %s", a.Name, here, there, promised[a.Name], a.SHA256)
					}
				}
				until(t, time.Minute, "the end was told", func() bool { return slices.Contains(o.events(id), "succeeded") })
				if got := slices.Compact(o.events(id)); !slices.Equal(got, []string{"queued", "running", "uploading", "succeeded"}) {
					t.Errorf("the orchestrator was told %v", o.told(id))
				}
			})
		}
	})
	r.stop()
	r.absent(promptMark, o.all())
	if strings.Contains(o.all(), "refused") {
		t.Errorf("the orchestrator has refused something:\n%s", o.all())
	}
	started, err := os.ReadFile(arguments)
	if err != nil || strings.Count(string(started), "\n") < 7 || strings.Contains(string(started), promptMark) {
		t.Errorf("the prompt is in an argument, or programs were not started: %v\n%s", err, started)
	}
}

const toldKinds = `
[steps]
command = ["sh", "-c", "i=0; while [ ! -e \"$HOLD\" ]; do i=$((i+1)); echo ::progress $i/9999; sleep 0.1; done; echo made >{output}/out"]
env = ["HOLD"]
[hold]
command = ["sh", "-c", "while [ ! -e \"$HOLD\" ]; do sleep 0.05; done; echo made >{output}/out"]
env = ["HOLD"]
`

// TestR60R61R62R64EventsOutliveTheirReceiver: it answers 503 at first, dies, and comes back.
func TestR60R61R62R64EventsOutliveTheirReceiver(t *testing.T) {
	t.Parallel()
	o := newReceiver(t)
	f := newFront(t, o)
	refused, taken := map[string]http.Header{}, map[string]http.Header{} // of events that were answered 503 and otherwise, by id
	names := map[string][]string{}                                       // of events, by task
	f.answers = func(w http.ResponseWriter, r *http.Request, body []byte) bool {
		id := r.Header.Get("webhook-id")
		if id == "" {
			return false
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		if len(refused) == 0 {
			refused[id] = r.Header
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		}
		taken[id] = r.Header
		var e toldEvent
		_ = json.Unmarshal(body, &e) // the receiver would refuse it
		names[e.TaskID] = append(names[e.TaskID], e.Event)
		return false
	}
	r := newTestRelay(t, toldKinds, "--gpus", "none", "--slots", "4", "--orchestrator", f.URL, "--callback-secret-file", filepath.Join(o.dir, "callback.secret"))
	r.env = []string{"HOLD=" + filepath.Join(r.dir, "go")}
	o.start(nil)
	r.start()
	create := func(kind string, events string) string {
		id := taskID(t, r.must(http.StatusAccepted, http.MethodPost, "/v1/tasks", `{"job_id":"job_1","kind":"`+kind+`","callback_url":"`+f.URL+`/api/relay/events"}`))
		if events != "" {
			r.must(http.StatusOK, http.MethodPost, "/v1/tasks/"+id+"/callback", `{"callback_url":"`+f.URL+`/api/relay/events","events":`+events+`}`)
		}
		return id
	}
	late := create("steps", "") // its first event is refused
	until(t, time.Minute, "an event was refused", func() bool { f.mu.Lock(); defer f.mu.Unlock(); return len(refused) > 0 })
	some := create("steps", `["progress","succeeded"]`)
	held := create("hold", "")
	until(t, time.Minute, "they run", func() bool { return slices.Contains(o.events(held), "running") && len(o.events(some)) > 3 })
	o.kill()
	r.write("go", "")
	until(t, time.Minute, "it is known that nothing answers", func() bool { return strings.Contains(r.log.String(), `"what":"artifacts"`) })
	o.start(nil)
	all := []string{"queued", "running", "uploading", "succeeded"}
	for _, id := range []string{late, some, held} {
		until(t, time.Minute, "the end of "+id+" was told", func() bool { return slices.Contains(o.events(id), "succeeded") })
		if id != some && !slices.Equal(slices.Compact(o.events(id)), all) {
			t.Errorf("the orchestrator was told %v, want %v", o.told(id), all)
		}
		if o.file("job_1", id, "out") != "made\n" {
			t.Error("another file has arrived")
		}
	}
	before := -1.0
	for _, line := range o.told(some) {
		name, rest, _ := strings.Cut(line, " ")
		shown, _, _ := strings.Cut(rest, " ")
		progress, err := strconv.ParseFloat(shown, 64)
		if name == "received" || name == "queued" && before < 0 { // before it has said what it wants
			continue
		}
		if err != nil || progress < before || name != "running" && name != "succeeded" {
			t.Errorf("progress does not grow, or an event came that was not asked for: %q in %q", line, o.told(some))
		}
		before = progress
	}
	if len(o.told(some)) < 4 || before != 1 {
		t.Errorf("the orchestrator was told %q, want progress up to 1", o.told(some))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, got := range names {
		if got = slices.Compact(got); id != some && !slices.Equal(got, all) {
			t.Errorf("events %v, want %v, and no progress, which was not asked for", got, all)
		}
	}
	for id, h := range refused {
		if second := taken[id]; second == nil || h.Get("webhook-signature") == "" || h.Get("webhook-timestamp") == second.Get("webhook-timestamp") {
			t.Errorf("event %s was refused and came again as %v", id, second)
		}
	}
	if strings.Contains(o.all(), "refused") {
		t.Errorf("the orchestrator has refused something:\n%s", o.all())
	}
	if code, _ := r.terminate(); code != 0 || strings.Contains(r.log.String(), callbackSecret[6:]) {
		t.Errorf("exit code %d\n%s", code, r.log)
	}
}

func TestR28SecondRelayLeavesTheFirstAlone(t *testing.T) {
	t.Parallel()
	r := newTestRelay(t, toldKinds, "--gpus", "none")
	r.env = []string{"HOLD=" + filepath.Join(r.dir, "go")}
	r.start()
	id := r.create("hold")
	r.untilStatus(id, "running")
	second := r.launched("--metrics-addr", "")
	if code := second.exitCode(time.Minute); code != 2 || !strings.Contains(second.log.String(), "another relay uses it: stop that one, or give this one a directory of its own") {
		t.Errorf("exit code %d: %s", code, second.log)
	}
	if code, out, errs := output(t, batchfleet(t, r.env, "relay", "doctor", "--gpus", "none", "--dir", r.runtime(), "--kinds", filepath.Join(r.dir, "kinds.toml"), "--token-file", filepath.Join(r.dir, "relay.token"), "--min-free-bytes", "0")); !strings.Contains(out, "a relay runs there") {
		t.Errorf("doctor, exit code %d: %s%s", code, out, errs)
	}
	r.write("go", "")
	if task := r.untilStatus(id, "succeeded"); len(task.Artifacts) != 1 {
		t.Errorf("the task of the first relay is %+v", task)
	}
	r.kill()
	r.start() // a killed process leaves no lock
}
