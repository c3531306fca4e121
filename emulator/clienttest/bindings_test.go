package clienttest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
)

// A step is one request in both forms. $words stand for what the server chose
// in an answer before.
type step struct {
	rpc     string
	request string // of gRPC, in JSON
	verb    string // of HTTP
	path    string // after /v1/projects/test/
	body    string
	keep    string // "$word=path.in.the.answer"
}

const (
	personV1 = `{\"type\":\"record\",\"name\":\"Person\",\"fields\":[{\"name\":\"name\",\"type\":\"string\"}]}`
	personV2 = `{\"type\":\"record\",\"name\":\"Person\",\"fields\":[{\"name\":\"name\",\"type\":\"string\"},{\"name\":\"age\",\"type\":\"int\",\"default\":0}]}`
)

// steps use every binding of google.pubsub.v1 at least once.
var steps = []step{
	{
		rpc: "CreateTopic", request: `{"name":"projects/test/topics/jobs","labels":{"a":"b"},"messageRetentionDuration":"3600s"}`,
		verb: "PUT", path: "topics/jobs", body: `{"labels":{"a":"b"},"messageRetentionDuration":"3600s"}`,
	},
	{rpc: "CreateTopic", request: `{"name":"projects/test/topics/dead"}`, verb: "PUT", path: "topics/dead"},
	{
		rpc: "UpdateTopic", request: `{"topic":{"name":"projects/test/topics/jobs","labels":{"c":"d"}},"updateMask":"labels"}`,
		verb: "PATCH", path: "topics/jobs", body: `{"topic":{"labels":{"c":"d"}},"updateMask":"labels"}`,
	},
	{rpc: "GetTopic", request: `{"topic":"projects/test/topics/jobs"}`, verb: "GET", path: "topics/jobs"},
	{rpc: "ListTopics", request: `{"project":"projects/test","pageSize":1}`, verb: "GET", path: "topics?pageSize=1", keep: "$page=nextPageToken"},
	{rpc: "ListTopics", request: `{"project":"projects/test","pageToken":"$page"}`, verb: "GET", path: "topics?pageToken=$page"},
	{
		rpc: "CreateSubscription", request: `{"name":"projects/test/subscriptions/jobs","topic":"projects/test/topics/jobs","ackDeadlineSeconds":30,
		"retainAckedMessages":true,"enableMessageOrdering":true,"filter":"attributes:k","retryPolicy":{"minimumBackoff":"1s"},
		"expirationPolicy":{},"deadLetterPolicy":{"deadLetterTopic":"projects/test/topics/dead","maxDeliveryAttempts":7}}`,
		verb: "PUT", path: "subscriptions/jobs", body: `{"topic":"projects/test/topics/jobs","ackDeadlineSeconds":30,
		"retainAckedMessages":true,"enableMessageOrdering":true,"filter":"attributes:k","retryPolicy":{"minimumBackoff":"1s"},
		"expirationPolicy":{},"deadLetterPolicy":{"deadLetterTopic":"projects/test/topics/dead","maxDeliveryAttempts":7}}`,
	},
	{
		rpc: "UpdateSubscription", request: `{"subscription":{"name":"projects/test/subscriptions/jobs","ackDeadlineSeconds":60,"labels":{"a":"b"}},"updateMask":"ackDeadlineSeconds,labels"}`,
		verb: "PATCH", path: "subscriptions/jobs", body: `{"subscription":{"ackDeadlineSeconds":60,"labels":{"a":"b"}},"updateMask":"ackDeadlineSeconds,labels"}`,
	},
	{rpc: "GetSubscription", request: `{"subscription":"projects/test/subscriptions/jobs"}`, verb: "GET", path: "subscriptions/jobs"},
	{rpc: "ListSubscriptions", request: `{"project":"projects/test"}`, verb: "GET", path: "subscriptions"},
	{rpc: "ListTopicSubscriptions", request: `{"topic":"projects/test/topics/jobs"}`, verb: "GET", path: "topics/jobs/subscriptions"},
	{
		rpc: "ModifyPushConfig", request: `{"subscription":"projects/test/subscriptions/jobs","pushConfig":{}}`,
		verb: "POST", path: "subscriptions/jobs:modifyPushConfig", body: `{"pushConfig":{}}`,
	},

	{
		rpc: "Publish", request: `{"topic":"projects/test/topics/jobs","messages":[{"data":"aGVsbG8=","attributes":{"k":"v"},"orderingKey":"o"},{"attributes":{"k":"w"}}]}`,
		verb: "POST", path: "topics/jobs:publish", body: `{"messages":[{"data":"aGVsbG8=","attributes":{"k":"v"},"orderingKey":"o"},{"attributes":{"k":"w"}}]}`,
	},
	{
		rpc: "Pull", request: `{"subscription":"projects/test/subscriptions/jobs","maxMessages":1}`,
		verb: "POST", path: "subscriptions/jobs:pull", body: `{"maxMessages":1}`, keep: "$ack=receivedMessages.0.ackId",
	},
	{
		rpc: "ModifyAckDeadline", request: `{"subscription":"projects/test/subscriptions/jobs","ackIds":["$ack"],"ackDeadlineSeconds":20}`,
		verb: "POST", path: "subscriptions/jobs:modifyAckDeadline", body: `{"ackIds":["$ack"],"ackDeadlineSeconds":20}`,
	},
	{
		rpc: "Acknowledge", request: `{"subscription":"projects/test/subscriptions/jobs","ackIds":["$ack"]}`,
		verb: "POST", path: "subscriptions/jobs:acknowledge", body: `{"ackIds":["$ack"]}`,
	},

	{
		rpc: "CreateSnapshot", request: `{"name":"projects/test/snapshots/snap","subscription":"projects/test/subscriptions/jobs","labels":{"a":"b"}}`,
		verb: "PUT", path: "snapshots/snap", body: `{"subscription":"projects/test/subscriptions/jobs","labels":{"a":"b"}}`,
	},
	{rpc: "GetSnapshot", request: `{"snapshot":"projects/test/snapshots/snap"}`, verb: "GET", path: "snapshots/snap"},
	{
		rpc: "UpdateSnapshot", request: `{"snapshot":{"name":"projects/test/snapshots/snap","labels":{"c":"d"}},"updateMask":"labels"}`,
		verb: "PATCH", path: "snapshots/snap", body: `{"snapshot":{"labels":{"c":"d"}},"updateMask":"labels"}`,
	},
	{rpc: "ListSnapshots", request: `{"project":"projects/test"}`, verb: "GET", path: "snapshots"},
	{rpc: "ListTopicSnapshots", request: `{"topic":"projects/test/topics/jobs"}`, verb: "GET", path: "topics/jobs/snapshots"},
	{
		rpc: "Seek", request: `{"subscription":"projects/test/subscriptions/jobs","snapshot":"projects/test/snapshots/snap"}`,
		verb: "POST", path: "subscriptions/jobs:seek", body: `{"snapshot":"projects/test/snapshots/snap"}`,
	},
	{
		rpc: "Seek", request: `{"subscription":"projects/test/subscriptions/jobs","time":"2026-01-01T00:00:00Z"}`,
		verb: "POST", path: "subscriptions/jobs:seek", body: `{"time":"2026-01-01T00:00:00Z"}`,
	},
	{rpc: "DeleteSnapshot", request: `{"snapshot":"projects/test/snapshots/snap"}`, verb: "DELETE", path: "snapshots/snap"},
	{rpc: "DetachSubscription", request: `{"subscription":"projects/test/subscriptions/jobs"}`, verb: "POST", path: "subscriptions/jobs:detach"},
	{rpc: "DeleteSubscription", request: `{"subscription":"projects/test/subscriptions/jobs"}`, verb: "DELETE", path: "subscriptions/jobs"},
	{rpc: "DeleteTopic", request: `{"topic":"projects/test/topics/jobs"}`, verb: "DELETE", path: "topics/jobs"},

	{
		rpc: "ValidateSchema", request: `{"parent":"projects/test","schema":{"type":"AVRO","definition":"` + personV1 + `"}}`,
		verb: "POST", path: "schemas:validate", body: `{"schema":{"type":"AVRO","definition":"` + personV1 + `"}}`,
	},
	{
		rpc: "CreateSchema", request: `{"parent":"projects/test","schemaId":"person","schema":{"type":"AVRO","definition":"` + personV1 + `"}}`,
		verb: "POST", path: "schemas?schemaId=person", body: `{"type":"AVRO","definition":"` + personV1 + `"}`, keep: "$first=revisionId",
	},
	{rpc: "GetSchema", request: `{"name":"projects/test/schemas/person","view":"BASIC"}`, verb: "GET", path: "schemas/person?view=BASIC"},
	{rpc: "ListSchemas", request: `{"parent":"projects/test","view":"FULL"}`, verb: "GET", path: "schemas?view=FULL"},
	{
		rpc: "ValidateMessage", request: `{"parent":"projects/test","name":"projects/test/schemas/person","message":"eyJuYW1lIjoiQW5uIn0=","encoding":"JSON"}`,
		verb: "POST", path: "schemas:validateMessage", body: `{"name":"projects/test/schemas/person","message":"eyJuYW1lIjoiQW5uIn0=","encoding":"JSON"}`,
	},
	{
		rpc: "CommitSchema", request: `{"name":"projects/test/schemas/person","schema":{"name":"projects/test/schemas/person","type":"AVRO","definition":"` + personV2 + `"}}`,
		verb: "POST", path: "schemas/person:commit", body: `{"schema":{"name":"projects/test/schemas/person","type":"AVRO","definition":"` + personV2 + `"}}`, keep: "$second=revisionId",
	},
	{
		rpc: "RollbackSchema", request: `{"name":"projects/test/schemas/person","revisionId":"$first"}`,
		verb: "POST", path: "schemas/person:rollback", body: `{"revisionId":"$first"}`,
	},
	{rpc: "ListSchemaRevisions", request: `{"name":"projects/test/schemas/person"}`, verb: "GET", path: "schemas/person:listRevisions"},
	{
		rpc: "DeleteSchemaRevision", request: `{"name":"projects/test/schemas/person@$second"}`,
		verb: "DELETE", path: "schemas/person@$second:deleteRevision",
	},
	{rpc: "DeleteSchema", request: `{"name":"projects/test/schemas/person"}`, verb: "DELETE", path: "schemas/person"},
}

// Two servers are led through the same steps, one over gRPC, one over REST. Their
// answers must be the same but for what a server chooses.
func TestE01EveryBindingAnswersAsItsRPC(t *testing.T) {
	t.Parallel()
	overGRPC, overREST := start(t), start(t)
	conn := overGRPC.dial(t)
	chosen := [2]map[string]string{{}, {}}
	called := map[string]bool{}
	for _, s := range steps {
		m := methods[s.rpc]
		resp, err := m.call(soon(t), conn, fill(s.request, chosen[0]))
		if err != nil {
			t.Fatalf("%s over gRPC: %v", s.rpc, err)
		}
		want := must(protojson.Marshal(resp))(t)
		code, got := overREST.http(t, s.verb, "/v1/projects/test/"+fill(s.path, chosen[1]), fill(s.body, chosen[1]))
		if code != 200 {
			t.Fatalf("%s %s answered %d %s", s.verb, s.path, code, got)
		}
		answers := [2]any{parse(t, string(want)), parse(t, got)}
		if word, path, ok := strings.Cut(s.keep, "="); ok {
			for i, a := range answers {
				chosen[i][word] = find(a, path)
			}
		}
		if diff := cmp.Diff(blank(answers[0]), blank(answers[1])); diff != "" {
			t.Errorf("%s %s answers otherwise than %s (-gRPC +REST):\n%s", s.verb, s.path, s.rpc, diff)
		}
		called[s.rpc] = true
	}
	bindings := 0
	for name, m := range methods {
		if m.rule == nil {
			continue
		}
		bindings += 1 + len(m.rule.GetAdditionalBindings())
		if !called[name] {
			t.Errorf("%s was not called", name)
		}
	}
	if bindings != 34 {
		t.Errorf("google.pubsub.v1 has %d bindings, these steps know of 34", bindings)
	}
}

// fill puts what a server chose in the place of its words.
func fill(s string, chosen map[string]string) string {
	for word, value := range chosen {
		s = strings.ReplaceAll(s, word, value)
	}
	return s
}

func parse(t *testing.T, text string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

// find returns the text at a path like receivedMessages.0.ackId.
func find(v any, path string) string {
	for name := range strings.SplitSeq(path, ".") {
		switch inner := v.(type) {
		case map[string]any:
			v = inner[name]
		case []any:
			v = inner[0]
		}
	}
	return fmt.Sprint(v)
}

// blank replaces what a server chooses: ids, tokens, times.
func blank(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			switch name {
			case "ackId", "messageId", "publishTime", "expireTime", "revisionId", "revisionCreateTime", "nextPageToken":
				v[name] = "chosen by the server"
			case "messageIds":
				v[name] = len(value.([]any))
			default:
				v[name] = blank(value)
			}
		}
	case []any:
		for i := range v {
			v[i] = blank(v[i])
		}
	}
	return v
}
