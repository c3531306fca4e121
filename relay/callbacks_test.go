package relay

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/batchfleet/batchfleet/jobs"
)

// told returns what of the events that a callback was sent: their names and sequences.
func told(t *testing.T, all []sent) (events []string) {
	t.Helper()
	for _, s := range all {
		var body eventBody
		if err := json.Unmarshal([]byte(s.Body), &body); err != nil {
			t.Fatal(err)
		}
		events = append(events, fmt.Sprintf("%s %d", body.Event, body.Sequence))
	}
	return events
}

// calls returns a relay that may call parties of the test.
func calls(t *testing.T, parties ...*party) *rig {
	t.Helper()
	r := setup(t, t.TempDir())
	for _, p := range parties {
		ports := r.Callbacks.Ports
		r.Callbacks = local(p.Server)
		r.Callbacks.Ports = append(ports, r.Callbacks.Ports...)
	}
	return r
}

// untilTold waits until a task has no events to tell.
func (r *rig) untilTold(id jobs.ID) *Task {
	r.t.Helper()
	return r.until(id, "told", func(t *Task) bool { return t.State.Terminal() && len(t.Events) == 0 })
}

func TestR60BodyOfAnEvent(t *testing.T) {
	at := time.Date(2026, 11, 26, 9, 0, 0, 0, time.UTC)
	task := &Task{
		ID: "task_01KAV0000000000000000000A0", JobID: "job_123", Kind: "motion", State: Failed, Progress: 0.55, Message: "not told", Prompt: Prompt{7, "not told"},
		Artifacts: []Artifact{{"motion.mp4", "video/mp4", 1048576, strings.Repeat("5", 64)}}, Error: &Error{codeUploadFailed, "the orchestrator has refused the artifacts: 413"},
	}
	var got []string
	for i, state := range []State{Queued, Running, Uploading, Failed, Succeeded, Canceled} {
		text, err := task.body(Event{Name: state.String(), Sequence: i + 1, State: state, Progress: float64(i) / 8, At: at, Attempts: 3})
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(text))
	}
	want, err := os.ReadFile("testdata/events.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(strings.TrimSuffix(string(want), "\n"), strings.Join(got, "\n")); d != "" {
		t.Errorf("the bodies are not those of testdata/events.jsonl:\n%s", d)
	}
}

func TestR60BodyHasABound(t *testing.T) {
	task := &Task{ID: newID(time.Now()), JobID: strings.Repeat("j", 128), Kind: "music", State: Failed, Error: &Error{"CODE", strings.Repeat("<", maxEventMessage)}}
	for range 1000 {
		task.Artifacts = append(task.Artifacts, Artifact{strings.Repeat("n", 128), "application/octet-stream", 1 << 60, strings.Repeat("0", 64)})
	}
	text, err := task.body(task.event("failed", time.Now()))
	var body eventBody
	if err != nil || len(text) > 20_000 || json.Unmarshal(text, &body) != nil || !body.Truncated || len(body.Artifacts) < 10 || body.Error == nil {
		t.Errorf("%d bytes, %d artifacts, %v", len(text), len(body.Artifacts), err)
	}
}

func TestR60R62EventsAreToldInOrder(t *testing.T) {
	hook := newParty(t, answers(500, 200, 503, 429))
	orchestrator := newParty(t, nil)
	r := calls(t, hook).to(orchestrator.URL).open().soon().deliver()
	id := r.create(`{"job_id":"j","kind":"scene","input":{"prompt":"prompt-canary"},"callback_url":"` + hook.URL + `/hook?a=b"}`)
	r.made(r.claim(id), oneFile)
	task := r.untilTold(id)
	got := hook.all()
	want := []string{"queued 1", "queued 1", "running 2", "running 2", "running 2", "uploading 3", "succeeded 4"}
	if d := cmp.Diff(want, told(t, got)); d != "" {
		t.Fatal(d)
	}
	ids := map[string]bool{}
	for _, s := range got {
		var body eventBody
		if err := json.Unmarshal([]byte(s.Body), &body); err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("%s.%d", id, body.Sequence); body.ID != want || s.URI != "/hook?a=b" || s.Method != http.MethodPost || s.Header.Get("Content-Type") != "application/json" || s.Length > maxEventBody {
			t.Errorf("%+v", s)
		}
		if strings.Contains(s.Body, "canary") {
			t.Errorf("the prompt was told: %s", s.Body)
		}
		if s.Header.Get(TokenHeader) != "" || s.Header.Get("webhook-signature") != "" {
			t.Errorf("headers %v", s.Header)
		}
		ids[body.ID] = true
	}
	if len(ids) != 4 || task.State != Succeeded {
		t.Errorf("%d ids, %+v", len(ids), task)
	}
}

// verified checks a signature by the text of Standard Webhooks alone.
func verified(t *testing.T, secret, id, at, signatures, body string) bool {
	t.Helper()
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		t.Fatal(err)
	}
	mac := hmac.New(sha256.New, key)
	_, _ = io.WriteString(mac, strings.Join([]string{id, at, body}, ".")) // a hash takes everything
	for one := range strings.SplitSeq(signatures, " ") {
		version, text, _ := strings.Cut(one, ",")
		if sum, err := base64.StdEncoding.DecodeString(text); err == nil && version == "v1" && hmac.Equal(sum, mac.Sum(nil)) {
			return true
		}
	}
	return false
}

func TestR61SignatureIsThatOfStandardWebhooks(t *testing.T) {
	// The example that its libraries are tested with.
	const secret, id, at, body = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", `{"test": 2432232314}`
	const want = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
	key, err := ParseSecret(secret)
	if got := signature(key, id, at, []byte(body)); err != nil || got != want || !verified(t, secret, id, at, got, body) {
		t.Errorf("signature %s, want %s, %v", got, want, err)
	}
	for _, bad := range []string{"", "whsec_", strings.TrimPrefix(secret, "whsec_"), "whsec_c2hvcnQ=", "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 65)), secret + "!"} {
		if _, err := ParseSecret(bad); err == nil {
			t.Errorf("%q is taken as a secret", bad)
		}
	}

	hook := newParty(t, answers(500))
	r := calls(t, hook)
	r.Secret = key
	r.open().soon().deliver()
	before := time.Now().Unix()
	task := r.queued(hook.URL)
	r.until(task, "told", func(t *Task) bool { return len(t.Events) == 0 })
	for _, s := range hook.all() {
		id, at := s.Header.Get("webhook-id"), s.Header.Get("webhook-timestamp")
		if id != string(task)+".1" || !verified(t, secret, id, at, s.Header.Get("webhook-signature"), s.Body) {
			t.Errorf("%+v is not signed", s)
		}
		if seconds, err := time.ParseDuration(at + "s"); err != nil || int64(seconds.Seconds()) < before || int64(seconds.Seconds()) > time.Now().Unix() {
			t.Errorf("timestamp %s", at)
		}
	}
}

func TestR61TokenIsForTheOrchestratorAlone(t *testing.T) {
	c := &callbacks{base: parseURL(t, "https://orch.example.com:8443/base")}
	for raw, want := range map[string]bool{
		"https://orch.example.com:8443/api/relay/events?x=1": true,
		"https://ORCH.example.com:8443/":                     true,
		"HTTPS://orch.example.com:8443/":                     true,
		"http://orch.example.com:8443/":                      false,
		"https://orch.example.com/":                          false,
		"https://orch.example.com:443/":                      false,
		"https://orch.example.com:84430/":                    false,
		"https://orch.example.com.:8443/":                    false,
		"https://orch.example.com.evil.test:8443/":           false,
		"https://evilorch.example.com:8443/":                 false,
		"https://example.com:8443/":                          false,
		"https://user@orch.example.com:8443/":                false,
		"https://orch.example.com:8443@evil.test/":           false,
		"https://evil.test:8443/orch.example.com:8443":       false,
		"https://evil.test#@orch.example.com:8443/":          false,
		`https://evil.test\@orch.example.com:8443/`:          false,
		"https:orch.example.com:8443/":                       false,
		"//orch.example.com:8443/":                           false,
		"":                                                   false,
	} {
		if got := c.isOrchestrator(raw); got != want {
			t.Errorf("%s: %t, want %t", raw, got, want)
		}
	}
	if (&callbacks{}).isOrchestrator("https:///") {
		t.Error("without an orchestrator one is found")
	}

	orchestrator, other := newParty(t, nil), newParty(t, nil)
	r := calls(t, other).to(orchestrator.URL + "/base").open().soon().deliver()
	for _, p := range []*party{orchestrator, other} {
		id := r.queued(p.URL + "/hook")
		r.until(id, "told", func(t *Task) bool { return len(t.Events) == 0 })
	}
	if got := orchestrator.all(); len(got) != 1 || !slices.Equal(got[0].Header.Values(TokenHeader), []string{testToken}) {
		t.Errorf("the orchestrator got %+v", got)
	}
	if got := other.all(); len(got) != 1 || strings.Contains(fmt.Sprint(got), testToken) {
		t.Errorf("the other got %+v", got)
	}
}

// The relay dies after the callback has taken an event and before that is on disk.
func TestR62EventsSurviveACrash(t *testing.T) {
	var r *rig
	dir := t.TempDir()
	hook := newParty(t, func(n int, w http.ResponseWriter, _ sent) {
		if n == 2 {
			r.copyTo(dir)
		}
	})
	r = calls(t, hook).open().soon()
	id := r.queued(hook.URL)
	r.made(r.claim(id), oneFile)
	if events := r.onDisk(id).Events; len(events) != 3 {
		t.Errorf("on disk are %+v", events)
	}
	r.deliver().untilTold(id)
	r.stop()
	next := r.at(dir).open().soon().deliver()
	next.untilTold(id)
	got := told(t, hook.all())
	want := []string{"queued 1", "running 2", "uploading 3", "succeeded 4", "running 2", "uploading 3", "succeeded 4"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestR65R66CallbackThatMayNotBeCalledIsRefused(t *testing.T) {
	hook := newParty(t, nil)
	r := setup(t, t.TempDir())
	r.Callbacks = local(hook.Server)
	r.Callbacks.Hosts, r.Callbacks.Networks = []string{"*"}, nil
	r.open().soon().deliver()
	port := fmt.Sprint(r.Callbacks.Ports[0])
	id := r.create("")
	for _, host := range []string{"127.0.0.1", "[::ffff:127.0.0.1]", "[::1]", "2130706433", "0x7f.1", "0177.0.0.1", "127.1", "0.0.0.0", "10.0.0.1", "169.254.169.254", "100.64.0.1", "[fe80::1]", "user:pw@example.com", "example.com:1"} {
		if !strings.Contains(host, ":1") || strings.HasPrefix(host, "[") {
			host += ":" + port
		}
		for _, path := range []string{"/v1/tasks", "/v1/tasks/" + string(id) + "/callback"} {
			body := `{"callback_url":"http://` + host + `/secret-canary"`
			if path == "/v1/tasks" {
				body += `,"job_id":"j","kind":"music"`
			}
			resp := r.call(http.MethodPost, path, body+"}")
			if resp.Status != http.StatusBadRequest || resp.code() != "INVALID_ARGUMENT" || resp.field() != "callback_url" || strings.Contains(resp.Body, "canary") {
				t.Errorf("%s %s: %+v", path, host, resp)
			}
		}
	}
	// A name that leads to this machine is found out when it is called. A flag may be missing, so the event is kept.
	task := r.create(`{"job_id":"j","kind":"music","callback_url":"http://localhost:` + port + `/"}`)
	r.until(task, "tried twice", func(t *Task) bool { return len(t.Events) == 1 && t.Events[0].Attempts > 1 })
	if n := len(hook.all()); n > 0 {
		t.Errorf("it was called %d times", n)
	}
}
