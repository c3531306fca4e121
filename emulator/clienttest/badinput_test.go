package clienttest

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// badInput is sent to a server with topic jobs, subscriptions jobs and exact,
// and schema person.
var badInput = []struct {
	name, rpc, request string
	code               codes.Code
	says               string
}{
	// Names.
	{"id too short", "CreateTopic", `{"name":"projects/test/topics/ab"}`, codes.InvalidArgument, "3 to 255"},
	{"id too long", "CreateTopic", `{"name":"projects/test/topics/` + strings.Repeat("a", 256) + `"}`, codes.InvalidArgument, "3 to 255"},
	{"id of Google", "CreateTopic", `{"name":"projects/test/topics/google"}`, codes.InvalidArgument, "goog"},
	{"id that begins with a digit", "CreateTopic", `{"name":"projects/test/topics/1abc"}`, codes.InvalidArgument, "letter"},
	{"id with letters beyond ASCII", "CreateTopic", `{"name":"projects/test/topics/größe"}`, codes.InvalidArgument, "letters, digits"},
	{"id with a control character", "CreateTopic", `{"name":"projects/test/topics/a\u0000bc"}`, codes.InvalidArgument, "letters, digits"},
	{"project with a space", "CreateTopic", `{"name":"projects/te st/topics/abc"}`, codes.InvalidArgument, "project"},
	{"subscription id too short", "CreateSubscription", `{"name":"projects/test/subscriptions/ab","topic":"projects/test/topics/jobs"}`, codes.InvalidArgument, "3 to 255"},
	{"bare topic of a subscription", "CreateSubscription", `{"name":"projects/test/subscriptions/new","topic":"jobs"}`, codes.InvalidArgument, "projects/{project}/topics"},
	{"no topic of a subscription", "CreateSubscription", `{"name":"projects/test/subscriptions/new"}`, codes.InvalidArgument, "topic"},
	{"unknown topic of a subscription", "CreateSubscription", `{"name":"projects/test/subscriptions/new","topic":"projects/test/topics/none"}`, codes.NotFound, "projects/test/topics/none"},
	{"snapshot id too short", "CreateSnapshot", `{"name":"projects/test/snapshots/ab","subscription":"projects/test/subscriptions/jobs"}`, codes.InvalidArgument, "3 to 255"},
	{"snapshot of an unknown subscription", "CreateSnapshot", `{"name":"projects/test/snapshots/new","subscription":"projects/test/subscriptions/none"}`, codes.NotFound, "subscriptions/none"},
	{"schema id too short", "CreateSchema", `{"parent":"projects/test","schemaId":"ab","schema":{"type":"AVRO","definition":"\"int\""}}`, codes.InvalidArgument, "3 to 255"},
	{"topic exists", "CreateTopic", `{"name":"projects/test/topics/jobs"}`, codes.AlreadyExists, "projects/test/topics/jobs"},
	{"subscription exists", "CreateSubscription", `{"name":"projects/test/subscriptions/jobs","topic":"projects/test/topics/jobs"}`, codes.AlreadyExists, "projects/test/subscriptions/jobs"},
	{"unknown topic", "GetTopic", `{"topic":"projects/test/topics/none"}`, codes.NotFound, "projects/test/topics/none"},
	{"delete of an unknown topic", "DeleteTopic", `{"topic":"projects/test/topics/none"}`, codes.NotFound, "topics/none"},
	{"delete of an unknown subscription", "DeleteSubscription", `{"subscription":"projects/test/subscriptions/none"}`, codes.NotFound, "subscriptions/none"},
	{"unknown snapshot", "GetSnapshot", `{"snapshot":"projects/test/snapshots/none"}`, codes.NotFound, "snapshots/none"},
	{"unknown schema", "GetSchema", `{"name":"projects/test/schemas/none"}`, codes.NotFound, "schemas/none"},
	{"detach of an unknown subscription", "DetachSubscription", `{"subscription":"projects/test/subscriptions/none"}`, codes.NotFound, "subscriptions/none"},

	// Sizes and numbers.
	{"ack deadline too short", "CreateSubscription", newSub(`"ackDeadlineSeconds":9`), codes.InvalidArgument, "ack_deadline_seconds 9"},
	{"ack deadline too long", "CreateSubscription", newSub(`"ackDeadlineSeconds":601`), codes.InvalidArgument, "ack_deadline_seconds 601"},
	{"negative ack deadline", "CreateSubscription", newSub(`"ackDeadlineSeconds":-10`), codes.InvalidArgument, "ack_deadline_seconds -10"},
	{"retention too short", "CreateSubscription", newSub(`"messageRetentionDuration":"599s"`), codes.InvalidArgument, "retention"},
	{"retention too long", "CreateSubscription", newSub(`"messageRetentionDuration":"2678401s"`), codes.InvalidArgument, "retention"},
	{"topic retention too short", "CreateTopic", `{"name":"projects/test/topics/new","messageRetentionDuration":"599s"}`, codes.InvalidArgument, "retention"},
	{"topic retention too long", "CreateTopic", `{"name":"projects/test/topics/new","messageRetentionDuration":"2678401s"}`, codes.InvalidArgument, "retention"},
	{"expiration under a day", "CreateSubscription", newSub(`"expirationPolicy":{"ttl":"86399s"}`), codes.InvalidArgument, "expiration_policy.ttl"},
	{"negative backoff", "CreateSubscription", newSub(`"retryPolicy":{"minimumBackoff":"-1s"}`), codes.InvalidArgument, "backoff"},
	{"backoff over ten minutes", "CreateSubscription", newSub(`"retryPolicy":{"maximumBackoff":"601s"}`), codes.InvalidArgument, "maximum_backoff"},
	{"backoff the wrong way round", "CreateSubscription", newSub(`"retryPolicy":{"minimumBackoff":"60s","maximumBackoff":"30s"}`), codes.InvalidArgument, "longer than"},
	{"too few delivery attempts", "CreateSubscription", newSub(`"deadLetterPolicy":{"deadLetterTopic":"projects/test/topics/jobs","maxDeliveryAttempts":4}`), codes.InvalidArgument, "5 to 100"},
	{"too many delivery attempts", "CreateSubscription", newSub(`"deadLetterPolicy":{"deadLetterTopic":"projects/test/topics/jobs","maxDeliveryAttempts":101}`), codes.InvalidArgument, "5 to 100"},
	{"unknown dead letter topic", "CreateSubscription", newSub(`"deadLetterPolicy":{"deadLetterTopic":"projects/test/topics/none"}`), codes.NotFound, "topics/none"},
	{"no dead letter topic", "CreateSubscription", newSub(`"deadLetterPolicy":{"maxDeliveryAttempts":5}`), codes.InvalidArgument, "dead_letter_topic"},
	{"65 labels", "CreateTopic", `{"name":"projects/test/topics/new","labels":` + manyAttributes(65) + `}`, codes.InvalidArgument, "labels"},
	{"no messages", "Publish", publish(``), codes.InvalidArgument, "message_count"},
	{"1001 messages", "Publish", publish(strings.Repeat(`{"data":"eA=="},`, 1000) + `{"data":"eA=="}`), codes.InvalidArgument, "1001"},
	{"empty message", "Publish", publish(`{"data":"eA=="},{}`), codes.InvalidArgument, "message 1: must have data"},
	{"message with an ordering key alone", "Publish", publish(`{"orderingKey":"a"}`), codes.InvalidArgument, "message 0"},
	{"message of ten million bytes and one", "Publish", publish(`{"data":"` + base64.StdEncoding.EncodeToString(make([]byte, 10_000_001)) + `"}`), codes.InvalidArgument, "10000001 bytes"},
	{"101 attributes", "Publish", publish(`{"attributes":` + manyAttributes(101) + `}`), codes.InvalidArgument, "101"},
	{"attribute without a key", "Publish", publish(`{"attributes":{"":"x"}}`), codes.InvalidArgument, "attribute key"},
	{"attribute key of 257 bytes", "Publish", publish(`{"attributes":{"` + strings.Repeat("k", 257) + `":"x"}}`), codes.InvalidArgument, "256"},
	{"attribute key of Google", "Publish", publish(`{"attributes":{"googclient_x":"x"}}`), codes.InvalidArgument, "goog"},
	{"attribute of 1025 bytes", "Publish", publish(`{"attributes":{"k":"` + strings.Repeat("v", 1025) + `"}}`), codes.InvalidArgument, "1025"},
	{"ordering key of 1025 bytes", "Publish", publish(`{"data":"eA==","orderingKey":"` + strings.Repeat("k", 1025) + `"}`), codes.InvalidArgument, "ordering key"},
	{"pull of none", "Pull", `{"subscription":"projects/test/subscriptions/jobs"}`, codes.InvalidArgument, "max_messages"},
	{"pull of less than none", "Pull", `{"subscription":"projects/test/subscriptions/jobs","maxMessages":-1}`, codes.InvalidArgument, "max_messages -1"},

	// Masks.
	{"no mask", "UpdateSubscription", update(`"labels":{}`, ``), codes.InvalidArgument, "update_mask"},
	{"mask of an unknown field", "UpdateSubscription", update(``, `colour`), codes.InvalidArgument, "colour"},
	{"mask of a field in a map", "UpdateSubscription", update(``, `labels.a`), codes.InvalidArgument, "labels.a"},
	{"mask of a field in a number", "UpdateSubscription", update(``, `ackDeadlineSeconds.a`), codes.InvalidArgument, "ack_deadline_seconds.a"},
	{"mask of the name", "UpdateSubscription", update(``, `name`), codes.InvalidArgument, "cannot be changed"},
	{"mask of the topic", "UpdateSubscription", update(``, `topic`), codes.InvalidArgument, "cannot be changed"},
	{"mask of the filter", "UpdateSubscription", update(`"filter":"attributes:a"`, `filter`), codes.InvalidArgument, "cannot be changed"},
	{"mask of ordering", "UpdateSubscription", update(`"enableMessageOrdering":true`, `enableMessageOrdering`), codes.InvalidArgument, "cannot be changed"},
	{"mask of an output", "UpdateSubscription", update(`"state":"ACTIVE"`, `state`), codes.InvalidArgument, "state"},
	{"mask with a bad value", "UpdateSubscription", update(`"ackDeadlineSeconds":5`, `ackDeadlineSeconds`), codes.InvalidArgument, "ack_deadline_seconds 5"},
	{"update of an unknown subscription", "UpdateSubscription", `{"subscription":{"name":"projects/test/subscriptions/none"},"updateMask":"labels"}`, codes.NotFound, "subscriptions/none"},
	{"no mask of a topic", "UpdateTopic", `{"topic":{"name":"projects/test/topics/jobs"}}`, codes.InvalidArgument, "update_mask"},
	{"mask of a topic's name", "UpdateTopic", `{"topic":{"name":"projects/test/topics/jobs"},"updateMask":"name"}`, codes.InvalidArgument, "name"},
	{"no mask of a snapshot", "UpdateSnapshot", `{"snapshot":{"name":"projects/test/snapshots/none"}}`, codes.InvalidArgument, "update_mask"},

	// Filters.
	{"filter that ends early", "CreateSubscription", newSub(`"filter":"attributes.a ="`), codes.InvalidArgument, "filter"},
	{"filter of an unknown operator", "CreateSubscription", newSub(`"filter":"attributes.a > \"b\""`), codes.InvalidArgument, "byte 13"},
	{"filter with lower case and", "CreateSubscription", newSub(`"filter":"attributes:a and attributes:b"`), codes.InvalidArgument, "byte 13"},
	{"filter that mixes AND and OR", "CreateSubscription", newSub(`"filter":"attributes:a AND attributes:b OR attributes:c"`), codes.InvalidArgument, "OR"},
	{"filter without its last quote", "CreateSubscription", newSub(`"filter":"attributes.a = \"b"`), codes.InvalidArgument, "filter"},
	{"filter of the data", "CreateSubscription", newSub(`"filter":"data = \"b\""`), codes.InvalidArgument, "attributes"},
	{"filter of 257 bytes", "CreateSubscription", newSub(`"filter":"attributes:` + strings.Repeat("a", 246) + `"`), codes.InvalidArgument, "256"},
	{"filter of deep parentheses", "CreateSubscription", newSub(`"filter":"` + strings.Repeat("(", 120) + "attributes:a" + strings.Repeat(")", 120) + `"`), codes.InvalidArgument, "deeper"},

	// Cursors.
	{"negative page size", "ListTopics", `{"project":"projects/test","pageSize":-1}`, codes.InvalidArgument, "page_size -1"},
	{"page token that was never issued", "ListTopics", `{"project":"projects/test","pageToken":"!"}`, codes.InvalidArgument, "page_token"},
	{"page token of subscriptions", "ListSubscriptions", `{"project":"projects/test","pageToken":"!"}`, codes.InvalidArgument, "page_token"},
	{"page token of snapshots", "ListSnapshots", `{"project":"projects/test","pageToken":"%"}`, codes.InvalidArgument, "page_token"},
	{"page token of schemas", "ListSchemas", `{"parent":"projects/test","pageToken":"%"}`, codes.InvalidArgument, "page_token"},
	{"seek to nowhere", "Seek", `{"subscription":"projects/test/subscriptions/jobs"}`, codes.InvalidArgument, "time or a snapshot"},
	{"seek to an unknown snapshot", "Seek", `{"subscription":"projects/test/subscriptions/jobs","snapshot":"projects/test/snapshots/none"}`, codes.NotFound, "snapshots/none"},
	{"seek to a badly named snapshot", "Seek", `{"subscription":"projects/test/subscriptions/jobs","snapshot":"none"}`, codes.InvalidArgument, "snapshots"},

	// Tokens: ack ids.
	{"ack of nothing", "Acknowledge", `{"subscription":"projects/test/subscriptions/jobs"}`, codes.InvalidArgument, "ack ids"},
	{"ack with an empty id", "Acknowledge", ackOf("jobs", ``), codes.InvalidArgument, "ack id"},
	{"ack id that was never issued", "Acknowledge", ackOf("jobs", `nonsense`), codes.InvalidArgument, "nonsense"},
	{"ack id that was never issued, exactly once", "Acknowledge", ackOf("exact", `nonsense`), codes.InvalidArgument, "nonsense"},
	{"late ack", "Acknowledge", ackOf("jobs", strings.Repeat("0", 32)), codes.OK, ""},
	{"late ack, exactly once", "Acknowledge", ackOf("exact", strings.Repeat("0", 32)), codes.FailedPrecondition, "acknowledgement ids"},
	{"extension too long", "ModifyAckDeadline", extend("jobs", 601), codes.InvalidArgument, "0 to 600"},
	{"negative extension", "ModifyAckDeadline", extend("jobs", -1), codes.InvalidArgument, "0 to 600"},
	{"late extension, exactly once", "ModifyAckDeadline", extend("exact", 10), codes.FailedPrecondition, "acknowledgement ids"},

	// Schemas.
	{"schema that is no JSON", "CreateSchema", `{"parent":"projects/test","schemaId":"new","schema":{"type":"AVRO","definition":"{"}}`, codes.InvalidArgument, ""},
	{"schema without a type", "CreateSchema", `{"parent":"projects/test","schemaId":"new","schema":{"definition":"\"int\""}}`, codes.InvalidArgument, "type"},
	{"schema without a definition", "CreateSchema", `{"parent":"projects/test","schemaId":"new","schema":{"type":"AVRO"}}`, codes.InvalidArgument, "definition"},
	{"topic of an unknown schema", "CreateTopic", `{"name":"projects/test/topics/new","schemaSettings":{"schema":"projects/test/schemas/none","encoding":"JSON"}}`, codes.NotFound, "schemas/none"},
	{"message against an unknown schema", "ValidateMessage", `{"parent":"projects/test","name":"projects/test/schemas/none","message":"eA==","encoding":"JSON"}`, codes.NotFound, "schemas/none"},
	{"message that does not fit", "ValidateMessage", `{"parent":"projects/test","name":"projects/test/schemas/person","message":"e30=","encoding":"JSON"}`, codes.InvalidArgument, "name"},
	{"message in no encoding", "ValidateMessage", `{"parent":"projects/test","name":"projects/test/schemas/person","message":"e30="}`, codes.InvalidArgument, "encoding"},
	{"rollback to nowhere", "RollbackSchema", `{"name":"projects/test/schemas/person","revisionId":"00000000"}`, codes.NotFound, "00000000"},
}

func newSub(fields string) string {
	return `{"name":"projects/test/subscriptions/new","topic":"projects/test/topics/jobs",` + fields + `}`
}

func publish(messages string) string {
	return `{"topic":"projects/test/topics/jobs","messages":[` + messages + `]}`
}

func update(fields, mask string) string {
	if fields != "" {
		fields = "," + fields
	}
	return `{"subscription":{"name":"projects/test/subscriptions/jobs"` + fields + `},"updateMask":"` + mask + `"}`
}

func ackOf(sub, id string) string {
	return `{"subscription":"projects/test/subscriptions/` + sub + `","ackIds":["` + id + `"]}`
}

func extend(sub string, seconds int) string {
	return fmt.Sprintf(`{"subscription":"projects/test/subscriptions/%s","ackIds":["%s"],"ackDeadlineSeconds":%d}`, sub, strings.Repeat("0", 32), seconds)
}

func manyAttributes(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"k%d":"v"`, i)
	}
	return "{" + b.String()[1:] + "}"
}

func TestE07BadInputSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	r := start(t)
	conn := r.dial(t)
	for rpc, requests := range map[string][]string{
		"CreateTopic":  {`{"name":"projects/test/topics/jobs"}`},
		"CreateSchema": {`{"parent":"projects/test","schemaId":"person","schema":{"type":"AVRO","definition":"` + personV1 + `"}}`},
	} {
		for _, request := range requests {
			must(methods[rpc].call(soon(t), conn, request))(t)
		}
	}
	for _, request := range []string{
		`{"name":"projects/test/subscriptions/jobs","topic":"projects/test/topics/jobs"}`,
		`{"name":"projects/test/subscriptions/exact","topic":"projects/test/topics/jobs","enableExactlyOnceDelivery":true}`,
	} {
		must(methods["CreateSubscription"].call(soon(t), conn, request))(t)
	}
	for _, tt := range badInput {
		m := methods[tt.rpc]
		t.Run(tt.name, func(t *testing.T) {
			_, err := m.call(soon(t), conn, tt.request)
			wantError(t, err, tt.code, tt.says)
			if said := status.Convert(err).Message(); err != nil && (said == "" || len(said) > 2000) {
				t.Errorf("the message has %d bytes", len(said))
			}
			verb, path, body := m.rest(t, tt.request)
			wantRESTError(t, r, verb, path, body, tt.code, tt.says)
		})
	}
}

// wantRESTError wants Google's form of an error.
func wantRESTError(t *testing.T, r *rig, verb, path, body string, want codes.Code, says string) {
	t.Helper()
	httpCode, text := r.http(t, verb, path, body)
	answer, _ := parse(t, text).(map[string]any)
	problem, _ := answer["error"].(map[string]any)
	if want == codes.OK {
		if httpCode != 200 || problem != nil {
			t.Errorf("REST: %d %s, want OK", httpCode, text)
		}
		return
	}
	said, _ := problem["message"].(string)
	if problem["status"] != code.Code(want).String() || problem["code"] != float64(httpCode) || httpCode < 400 ||
		!strings.Contains(strings.ToLower(said), strings.ToLower(says)) {
		t.Errorf("REST %s %.100s: %d %.500s, want %s and a message that says %q", verb, path, httpCode, text, code.Code(want), says)
	}
}

// What only REST can get wrong.
func TestE07BadHTTPSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	r := start(t)
	const topic = "/v1/projects/test/topics/jobs"
	tests := []struct {
		name, verb, path, body string
		code                   codes.Code
		says                   string
	}{
		{"half an object", "PUT", topic, `{`, codes.InvalidArgument, "JSON"},
		{"an array", "PUT", topic, `[]`, codes.InvalidArgument, "JSON"},
		{"two objects", "PUT", topic, `{}{}`, codes.InvalidArgument, "JSON"},
		{"unknown field", "PUT", topic, `{"colour":"red"}`, codes.InvalidArgument, "colour"},
		{"field twice", "PUT", topic, `{"labels":{},"labels":{}}`, codes.InvalidArgument, "labels"},
		{"text for a number", "POST", "/v1/projects/test/subscriptions/jobs:pull", `{"maxMessages":"many"}`, codes.InvalidArgument, "many"},
		{"number out of range", "POST", "/v1/projects/test/subscriptions/jobs:pull", `{"maxMessages":4294967296}`, codes.InvalidArgument, "4294967296"},
		{"bad base64", "POST", topic + ":publish", `{"messages":[{"data":"%"}]}`, codes.InvalidArgument, "data"},
		{"bad UTF-8", "PUT", topic, "{\"labels\":{\"a\":\"\xff\"}}", codes.InvalidArgument, "UTF-8"},
		{"bad duration", "PUT", topic, `{"messageRetentionDuration":"an hour"}`, codes.InvalidArgument, "an hour"},
		{"bad time", "POST", "/v1/projects/test/subscriptions/jobs:seek", `{"time":"yesterday"}`, codes.InvalidArgument, "yesterday"},
		{"unknown enum", "GET", "/v1/projects/test/schemas?view=WHOLE", ``, codes.InvalidArgument, "view"},
		{"unknown parameter", "GET", topic + "?colour=red", ``, codes.InvalidArgument, "colour"},
		{"parameter twice", "GET", "/v1/projects/test/topics?pageSize=1&pageSize=2", ``, codes.InvalidArgument, "pageSize"},
		{"parameter that is no number", "GET", "/v1/projects/test/topics?pageSize=many", ``, codes.InvalidArgument, "pageSize"},
		{"body of a GET", "GET", topic, `{"a":1}`, codes.InvalidArgument, "body"},
		{"unknown verb", "POST", topic + ":frobnicate", `{}`, codes.NotFound, "frobnicate"},
		{"unknown collection", "GET", "/v1/projects/test/colours", ``, codes.NotFound, "colours"},
		{"wrong method", "DELETE", "/v1/projects/test/topics", ``, codes.NotFound, "DELETE"},
		{"no version", "GET", "/projects/test/topics", ``, codes.NotFound, "/projects/test/topics"},
		{"slash in a name", "GET", "/v1/projects/test/topics/a%2Fb", ``, codes.InvalidArgument, "projects/{project}/topics/{id}"},
		{"dots in a path", "GET", "/v1/projects/test/topics/..", ``, codes.InvalidArgument, "3 to 255"},
		{"body too large", "POST", topic + ":publish", strings.Repeat(" ", 17<<20), codes.InvalidArgument, "exceeds the limit"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			wantRESTError(t, r, tt.verb, tt.path, tt.body, tt.code, tt.says)
		})
	}
}

func TestE07BadStreamsSayWhatIsWrong(t *testing.T) {
	g := startGo(t, &pubsubpb.Subscription{})
	client := pubsubpb.NewSubscriberClient(g.dial(t))
	first := &pubsubpb.StreamingPullRequest{Subscription: subName, StreamAckDeadlineSeconds: 10}
	tests := []struct {
		name     string
		requests []*pubsubpb.StreamingPullRequest
		code     codes.Code
		says     string
	}{
		{"empty first request", []*pubsubpb.StreamingPullRequest{{}}, codes.InvalidArgument, "subscriptions"},
		{"unknown subscription", []*pubsubpb.StreamingPullRequest{{Subscription: subName + "x", StreamAckDeadlineSeconds: 10}}, codes.NotFound, "jobsx"},
		{"no deadline", []*pubsubpb.StreamingPullRequest{{Subscription: subName}}, codes.InvalidArgument, "stream_ack_deadline_seconds"},
		{"deadline too long", []*pubsubpb.StreamingPullRequest{{Subscription: subName, StreamAckDeadlineSeconds: 601}}, codes.InvalidArgument, "601"},
		{"later deadline too short", []*pubsubpb.StreamingPullRequest{first, {StreamAckDeadlineSeconds: 9}}, codes.InvalidArgument, "stream_ack_deadline_seconds 9"},
		{"subscription twice", []*pubsubpb.StreamingPullRequest{first, first}, codes.InvalidArgument, "first request"},
		{"client id later", []*pubsubpb.StreamingPullRequest{first, {ClientId: "x"}}, codes.InvalidArgument, "client_id"},
		{"limits later", []*pubsubpb.StreamingPullRequest{first, {MaxOutstandingMessages: 1}}, codes.InvalidArgument, "max_outstanding"},
		{"seconds without ids", []*pubsubpb.StreamingPullRequest{first, {ModifyDeadlineSeconds: []int32{10}}}, codes.InvalidArgument, "modify_deadline"},
		{"ids without seconds", []*pubsubpb.StreamingPullRequest{first, {ModifyDeadlineAckIds: []string{"a"}}}, codes.InvalidArgument, "modify_deadline"},
		{"extension too long", []*pubsubpb.StreamingPullRequest{first, {ModifyDeadlineAckIds: []string{strings.Repeat("0", 32)}, ModifyDeadlineSeconds: []int32{601}}}, codes.InvalidArgument, "600"},
		{"ack id that was never issued", []*pubsubpb.StreamingPullRequest{first, {AckIds: []string{"nonsense"}}}, codes.InvalidArgument, "nonsense"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			stream := must(client.StreamingPull(soon(t)))(t)
			for _, req := range tt.requests {
				_ = stream.Send(req) // the error comes with Recv
			}
			_, err := stream.Recv()
			wantError(t, err, tt.code, tt.says)
		})
	}
}
