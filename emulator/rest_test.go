package emulator

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"testing/iotest"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

type answer struct {
	code int
	body map[string]any
	text string
}

// get makes an HTTP request and reads the answer.
func get(t *testing.T, method, url, body string) (answer, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(soon(t), method, url, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return answer{}, err
	}
	defer closeIt(t, resp.Body)
	text, err := io.ReadAll(resp.Body)
	a := answer{code: resp.StatusCode, text: string(text)}
	_ = json.Unmarshal(text, &a.body) // some answers are not JSON
	return a, err
}

// mustGet is get for requests that get an answer, with the wanted status.
func mustGet(t *testing.T, want int, method, url, body string) answer {
	t.Helper()
	a, err := get(t, method, url, body)
	must(t, err)
	if a.code != want {
		t.Fatalf("%s %s: %d %s, want %d", method, url, a.code, a.text, want)
	}
	return a
}

// The lines of the specification, run by the shell with nothing changed but the
// address and how curl tells of errors.
func TestE01CurlLinesOfTheSpecificationWork(t *testing.T) {
	s, addr := start(t)
	script := `set -e
curl -sS --fail -X PUT http://localhost:8085/v1/projects/local-dev/topics/pdf-processing-topic
curl -sS --fail -X PUT http://localhost:8085/v1/projects/local-dev/subscriptions/pdf-processing-subscription \
  -H 'Content-Type: application/json' \
  -d '{"topic": "projects/local-dev/topics/pdf-processing-topic", "ackDeadlineSeconds": 600}'
for i in 1 2 3 4 5; do
  curl -sS --fail -X POST http://localhost:8085/v1/projects/local-dev/topics/pdf-processing-topic:publish \
    -H 'Content-Type: application/json' \
    -d "{\"messages\": [{\"data\": \"$(echo '{\"job_id\":\"test-'$i'\",\"pdf_path\":\"test.pdf\"}' | base64)\"}]}"
done
`
	cmd := exec.CommandContext(t.Context(), "bash", "-c", strings.ReplaceAll(script, "localhost:8085", addr))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	st := s.Stats()[0]
	if st.Subscription != "projects/local-dev/subscriptions/pdf-processing-subscription" || st.Undelivered != 5 {
		t.Errorf("stats %+v, want 5 messages", st)
	}
	sub, err := s.broker.subscriptionFor(st.Subscription)
	if err != nil || sub.pb.GetAckDeadlineSeconds() != 600 {
		t.Errorf("subscription %v, %v; want an ack deadline of 600 s", sub.pb, err)
	}
}

func TestE01PullAndAcknowledgeOverREST(t *testing.T) {
	s, addr := start(t)
	base := "http://" + addr + "/v1/"
	published := mustGet(t, 200, "POST", base+testTopic+":publish", `{"messages":[{"data":"aGVsbG8=","attributes":{"k":"v"}}]}`)
	got := mustGet(t, 200, "POST", base+testSub+":pull", `{"maxMessages":10}`)
	received := got.body["receivedMessages"].([]any)[0].(map[string]any)
	m := received["message"].(map[string]any)
	if m["data"] != "aGVsbG8=" || m["messageId"] != published.body["messageIds"].([]any)[0] {
		t.Errorf("pulled %s, published %s", got.text, published.text)
	}
	ackID := received["ackId"].(string)
	mustGet(t, 200, "POST", base+testSub+":modifyAckDeadline", `{"ackIds":["`+ackID+`"],"ackDeadlineSeconds":30}`)
	mustGet(t, 200, "POST", base+testSub+":acknowledge", `{"ackIds":["`+ackID+`"]}`)
	if st := s.Stats()[0]; st.Undelivered+st.Leased != 0 {
		t.Errorf("stats %+v, want nothing left", st)
	}
}

func TestE01ResourcesOverREST(t *testing.T) {
	_, addr := start(t)
	base := "http://" + addr + "/v1/"
	a := mustGet(t, 200, "GET", base+testSub, "")
	if a.body["name"] != testSub || a.body["ackDeadlineSeconds"] != 600.0 || a.body["state"] != "ACTIVE" {
		t.Errorf("subscription is %s", a.text)
	}
	if a := mustGet(t, 200, "GET", base+testSub+"?%24alt=json%3Benum-encoding%3Dint", ""); a.body["state"] != 1.0 {
		t.Errorf("subscription with enums by number is %s", a.text)
	}
	a = mustGet(t, 200, "PATCH", base+testSub, `{"subscription":{"ackDeadlineSeconds":30,"labels":{"a":"b"}},"updateMask":"ackDeadlineSeconds"}`)
	if a.body["ackDeadlineSeconds"] != 30.0 || a.body["labels"] != nil {
		t.Errorf("updated subscription is %s, want only the deadline changed", a.text)
	}
	a = mustGet(t, 200, "GET", base+"projects/test/topics?pageSize=1", "")
	if len(a.body["topics"].([]any)) != 1 || a.body["nextPageToken"] != nil {
		t.Errorf("topics are %s", a.text)
	}
	a = mustGet(t, 200, "GET", base+testTopic+"/subscriptions", "")
	if a.body["subscriptions"].([]any)[0] != testSub {
		t.Errorf("subscriptions of the topic are %s", a.text)
	}
	mustGet(t, 200, "DELETE", base+testTopic, "")
	if a := mustGet(t, 200, "GET", base+testSub, ""); a.body["topic"] != deletedTopic {
		t.Errorf("subscription of a deleted topic is %s", a.text)
	}
	mustGet(t, 200, "POST", base+testSub+":detach", "{}")
	if a := mustGet(t, 400, "POST", base+testSub+":pull", `{"maxMessages":1}`); a.body["error"].(map[string]any)["status"] != "FAILED_PRECONDITION" {
		t.Errorf("pull from a detached subscription: %s", a.text)
	}
	mustGet(t, 200, "DELETE", base+testSub, "")
	mustGet(t, 404, "GET", base+testSub, "")
}

// Codes of each kind; clienttest has more of what can be wrong.
func TestE01ErrorsOverREST(t *testing.T) {
	_, addr := start(t)
	tests := []struct {
		name, method, path, body string
		code                     int
		status                   string
	}{
		{"no such topic", "GET", "projects/test/topics/none", "", 404, "NOT_FOUND"},
		{"topic exists", "PUT", testTopic, "{}", 409, "ALREADY_EXISTS"},
		{"bad JSON", "POST", testTopic + ":publish", "{", 400, "INVALID_ARGUMENT"},
		{"deep JSON", "PUT", "projects/test/topics/new", strings.Repeat(`{"a":`, 100_000), 400, "INVALID_ARGUMENT"},
		{"query beside a body", "POST", testSub + ":pull?maxMessages=1", "{}", 400, "INVALID_ARGUMENT"},
		{"push", "PUT", "projects/test/subscriptions/new", `{"topic":"` + testTopic + `","pushConfig":{"pushEndpoint":"http://x"}}`, 501, "UNIMPLEMENTED"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := mustGet(t, tt.code, tt.method, "http://"+addr+"/v1/"+tt.path, tt.body)
			problem, _ := a.body["error"].(map[string]any)
			if problem["status"] != tt.status || problem["code"] != float64(tt.code) || problem["message"] == "" {
				t.Errorf("answer %s, want code %d and status %s", a.text, tt.code, tt.status)
			}
		})
	}
}

func TestE03StaleAckIDsAreNamedOverREST(t *testing.T) {
	_, addr := startExact(t)
	id := strings.Repeat("0", ackIDLength)
	a := mustGet(t, 400, "POST", "http://"+addr+"/v1/"+testSub+":acknowledge", `{"ackIds":["`+id+`"]}`)
	problem, _ := a.body["error"].(map[string]any)
	details, _ := problem["details"].([]any)
	if len(details) != 1 {
		t.Fatalf("answer %s, want one detail", a.text)
	}
	info, _ := details[0].(map[string]any)
	ids, _ := info["metadata"].(map[string]any)
	if info["@type"] != "type.googleapis.com/google.rpc.ErrorInfo" || ids[id] != staleReason {
		t.Errorf("detail %v, want one that names the stale id", info)
	}
}

func TestE01All34BindingsAreServed(t *testing.T) {
	h := newRest([]any{publisher{newBroker()}, subscriber{broker: newBroker()}, schemas{newBroker()}}, nil)
	if len(h) != 34 {
		t.Errorf("%d bindings, want 34", len(h))
	}
	for _, r := range h {
		path := "/" + strings.Join(r.path.segments, "/")
		path = strings.ReplaceAll(path, "*", "x")
		if r.path.verb != "" {
			path += ":" + r.path.verb
		}
		found, vars := h.route(r.method, path)
		if found == nil || found.path.verb != r.path.verb || len(vars) != len(r.path.vars) {
			t.Errorf("%s %s finds %v", r.method, path, found)
		}
	}
}

func TestE06HealthStatsAndMetrics(t *testing.T) {
	_, addr := start(t)
	base := "http://" + addr
	mustGet(t, 200, "POST", base+"/v1/"+testTopic+":publish", `{"messages":[{"data":"aGVsbG8="},{"data":"aGVsbG8="}]}`)
	mustGet(t, 200, "POST", base+"/v1/"+testSub+":pull", `{"maxMessages":1}`)
	if a := mustGet(t, 200, "GET", base+"/healthz", ""); a.text != "ok\n" {
		t.Errorf("healthz: %q", a.text)
	}
	var stats []map[string]any
	must(t, json.Unmarshal([]byte(mustGet(t, 200, "GET", base+"/stats", "").text), &stats))
	s := stats[0]
	if s["subscription"] != testSub || s["topic"] != testTopic || s["undelivered"] != 1.0 || s["leased"] != 1.0 || s["oldest_age_seconds"].(float64) <= 0 {
		t.Errorf("stats: %v", stats)
	}
	metrics := mustGet(t, 200, "GET", base+"/metrics", "").text
	for _, want := range []string{
		`pubsub_subscription_undelivered_messages{subscription="` + testSub + `"} 1`,
		`pubsub_subscription_leased_messages{subscription="` + testSub + `"} 1`,
		`pubsub_subscription_oldest_message_age_seconds{subscription="` + testSub + `"} `,
		`pubsub_subscription_delivered_total{subscription="` + testSub + `"} 1`,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("metrics lack %s", want)
		}
	}
}

func TestParseTemplate(t *testing.T) {
	tests := []struct {
		name, template, path string
		want                 []string // nil when the path is not matched
	}{
		{"variable and verb", "/v1/{topic=projects/*/topics/*}:publish", "/v1/projects/p/topics/t:publish", []string{"projects/p/topics/t"}},
		{"other verb", "/v1/{topic=projects/*/topics/*}:publish", "/v1/projects/p/topics/t:pull", nil},
		{"variable in the middle", "/v1/{project=projects/*}/topics", "/v1/projects/p/topics", []string{"projects/p"}},
		{"escapes", "/v1/{topic=projects/*/topics/*}", "/v1/projects/p/topics/a%25b", []string{"projects/p/topics/a%b"}},
		{"bad escape", "/v1/{topic=projects/*/topics/*}", "/v1/projects/p/topics/a%2", nil},
		{"empty segment", "/v1/{topic=projects/*/topics/*}", "/v1/projects//topics/t", nil},
		{"too long", "/v1/{topic=projects/*/topics/*}", "/v1/projects/p/topics/t/x", nil},
		{"plain variable", "/v1/{name}", "/v1/x", []string{"x"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tmpl, err := parseTemplate(tt.template)
			must(t, err)
			got, ok := tmpl.match(tt.path)
			if ok != (tt.want != nil) || strings.Join(got, "|") != strings.Join(tt.want, "|") {
				t.Errorf("match: %q, %v; want %q", got, ok, tt.want)
			}
		})
	}
	for _, bad := range []string{"v1", "/v1/{a=b", "/v1/**", "/v1//x", "/v1/{a=**}"} {
		if _, err := parseTemplate(bad); err == nil {
			t.Errorf("template %q was accepted", bad)
		}
	}
}

// FuzzBind sets fields of a message that has one of each kind.
func FuzzBind(f *testing.F) {
	f.Add("ack_deadline_seconds", "10")
	f.Add("deadLetterPolicy.maxDeliveryAttempts", "7")
	f.Add("messageRetentionDuration", "600s")
	f.Add("state", "ACTIVE")
	f.Add("state", "2")
	f.Add("labels.a", "b")
	f.Add("filter", "\xff")
	f.Add("enableMessageOrdering", "true")
	f.Add("messageTransforms", "{}")
	f.Fuzz(func(t *testing.T, path, value string) {
		for _, m := range []proto.Message{&pubsubpb.Subscription{}, &pubsubpb.PullRequest{}, &pubsubpb.StreamingPullRequest{}, &pubsubpb.PubsubMessage{}} {
			if err := setField(m.ProtoReflect(), path, value, false); err != nil {
				continue
			}
			if _, err := proto.Marshal(m); err != nil {
				t.Errorf("%s=%q made a message that does not marshal: %v", path, value, err)
			}
			m.ProtoReflect().Range(func(protoreflect.FieldDescriptor, protoreflect.Value) bool { return true })
		}
	})
}

func TestReadAllReadsAll(t *testing.T) {
	for _, size := range []int{0, 1, 4<<10 - 1, 4 << 10, 4<<10 + 1, 3 << 20} {
		want := bytes.Repeat([]byte("x"), size)
		for name, r := range map[string]io.Reader{"at once": bytes.NewReader(want), "bit by bit": iotest.HalfReader(bytes.NewReader(want))} {
			got, err := readAll(r)
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d bytes, %s: got %d, %v", size, name, len(got), err)
			}
		}
		cut := io.MultiReader(bytes.NewReader(want), iotest.ErrReader(io.ErrUnexpectedEOF))
		if _, err := readAll(cut); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%d bytes of a body that breaks off: %v", size, err)
		}
	}
}
