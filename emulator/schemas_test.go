package emulator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	pubsubapi "cloud.google.com/go/pubsub/v2/apiv1"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/api/iterator"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/batchfleet/batchfleet/emulator/schema"
)

const (
	testProject = "projects/test"
	testSchema  = testProject + "/schemas/state"
	// A schema and a revision that may follow it.
	avroOne = `{"type":"record","name":"State","fields":[{"name":"name","type":"string"}]}`
	avroTwo = `{"type":"record","name":"State","fields":[{"name":"name","type":"string"},{"name":"area","type":"int","default":0}]}`
)

func avroSchema(definition string) *pubsubpb.Schema {
	return &pubsubpb.Schema{Type: pubsubpb.Schema_AVRO, Definition: definition}
}

// schemaClient returns Google's client.
func schemaClient(t *testing.T, addr string) *pubsubapi.SchemaClient {
	t.Helper()
	client, err := pubsubapi.NewSchemaClient(t.Context(), clientOptions(addr)...)
	must(t, err)
	t.Cleanup(func() { closeIt(t, client) })
	return client
}

// all reads an iterator of Google's client to its end.
func all(t *testing.T, it *pubsubapi.SchemaIterator) []*pubsubpb.Schema {
	t.Helper()
	var schemas []*pubsubpb.Schema
	for {
		s, err := it.Next()
		if errors.Is(err, iterator.Done) {
			return schemas
		}
		must(t, err)
		schemas = append(schemas, s)
	}
}

// createSchema makes testSchema.
func createSchema(t *testing.T, client *pubsubapi.SchemaClient, pb *pubsubpb.Schema) *pubsubpb.Schema {
	t.Helper()
	created, err := client.CreateSchema(soon(t), &pubsubpb.CreateSchemaRequest{Parent: testProject, SchemaId: "state", Schema: pb})
	must(t, err)
	return created
}

// commitTwo commits avroTwo to testSchema.
func commitTwo(t *testing.T, client *pubsubapi.SchemaClient) *pubsubpb.Schema {
	t.Helper()
	committed, err := client.CommitSchema(soon(t), &pubsubpb.CommitSchemaRequest{Name: testSchema, Schema: avroSchema(avroTwo)})
	must(t, err)
	return committed
}

func isRevisionID(id string) bool { return len(id) == 8 && strings.Trim(id, "0123456789abcdef") == "" }

func TestE01SchemaLife(t *testing.T) {
	_, addr := start(t)
	client := schemaClient(t, addr)
	one := createSchema(t, client, &pubsubpb.Schema{Name: "ignored", Type: pubsubpb.Schema_AVRO, Definition: avroOne})
	if one.GetName() != testSchema || one.GetDefinition() != avroOne || !isRevisionID(one.GetRevisionId()) || !one.GetRevisionCreateTime().IsValid() {
		t.Errorf("created %v", one)
	}
	two := commitTwo(t, client)
	three, err := client.RollbackSchema(soon(t), &pubsubpb.RollbackSchemaRequest{Name: testSchema, RevisionId: one.GetRevisionId()})
	must(t, err)
	if three.GetDefinition() != avroOne || three.GetRevisionId() == one.GetRevisionId() || !isRevisionID(three.GetRevisionId()) {
		t.Errorf("rolled back to %v", three)
	}

	get := func(name string, view pubsubpb.SchemaView) *pubsubpb.Schema {
		t.Helper()
		s, err := client.GetSchema(soon(t), &pubsubpb.GetSchemaRequest{Name: name, View: view})
		must(t, err)
		return s
	}
	if s := get(testSchema, pubsubpb.SchemaView_SCHEMA_VIEW_UNSPECIFIED); s.GetRevisionId() != three.GetRevisionId() || s.GetDefinition() != avroOne {
		t.Errorf("the latest is %v, want %v", s, three)
	}
	if s := get(testSchema+"@"+two.GetRevisionId(), pubsubpb.SchemaView_BASIC); s.GetRevisionId() != two.GetRevisionId() || s.GetDefinition() != "" || s.GetType() != pubsubpb.Schema_AVRO {
		t.Errorf("revision two without its definition is %v", s)
	}

	revisions := all(t, client.ListSchemaRevisions(soon(t), &pubsubpb.ListSchemaRevisionsRequest{Name: testSchema, PageSize: 1, View: pubsubpb.SchemaView_FULL}))
	if got := revisionIDs(revisions); got != revisionIDs([]*pubsubpb.Schema{one, two, three}) || revisions[1].GetDefinition() != avroTwo {
		t.Errorf("revisions %v", revisions)
	}
	listed := all(t, client.ListSchemas(soon(t), &pubsubpb.ListSchemasRequest{Parent: testProject}))
	if len(listed) != 1 || listed[0].GetName() != testSchema || listed[0].GetDefinition() != "" || listed[0].GetRevisionId() != three.GetRevisionId() {
		t.Errorf("schemas %v", listed)
	}
	if other := all(t, client.ListSchemas(soon(t), &pubsubpb.ListSchemasRequest{Parent: "projects/tes"})); len(other) != 0 {
		t.Errorf("another project has %v", other)
	}

	deleted, err := client.DeleteSchemaRevision(soon(t), &pubsubpb.DeleteSchemaRevisionRequest{Name: testSchema + "@" + three.GetRevisionId()})
	if err != nil || deleted.GetRevisionId() != three.GetRevisionId() {
		t.Errorf("deleted %v, %v", deleted, err)
	}
	if s := get(testSchema, pubsubpb.SchemaView_FULL); s.GetRevisionId() != two.GetRevisionId() {
		t.Errorf("the latest is %v, want %v", s, two)
	}
	must(t, client.DeleteSchema(soon(t), &pubsubpb.DeleteSchemaRequest{Name: testSchema}))
	if _, err := client.GetSchema(soon(t), &pubsubpb.GetSchemaRequest{Name: testSchema}); status.Code(err) != codes.NotFound {
		t.Errorf("after the delete: %v", err)
	}
}

func revisionIDs(schemas []*pubsubpb.Schema) string {
	var ids []string
	for _, s := range schemas {
		ids = append(ids, s.GetRevisionId())
	}
	return strings.Join(ids, " ")
}

func TestE01SchemaRequestsAreChecked(t *testing.T) {
	_, addr := start(t)
	client := schemaClient(t, addr)
	topics, _ := clients(t, addr)
	one := createSchema(t, client, avroSchema(avroOne))
	first, last := commitTwo(t, client), commitTwo(t, client)
	create := func(id string, pb *pubsubpb.Schema) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := client.CreateSchema(ctx, &pubsubpb.CreateSchemaRequest{Parent: testProject, SchemaId: id, Schema: pb})
			return err
		}
	}
	commit := func(name string, pb *pubsubpb.Schema) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := client.CommitSchema(ctx, &pubsubpb.CommitSchemaRequest{Name: name, Schema: pb})
			return err
		}
	}
	get := func(name string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := client.GetSchema(ctx, &pubsubpb.GetSchemaRequest{Name: name})
			return err
		}
	}
	rollback := func(name, id string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := client.RollbackSchema(ctx, &pubsubpb.RollbackSchemaRequest{Name: name, RevisionId: id})
			return err
		}
	}
	deleteRevision := func(name string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := client.DeleteSchemaRevision(ctx, &pubsubpb.DeleteSchemaRevisionRequest{Name: name})
			return err
		}
	}
	validate := func(req *pubsubpb.ValidateMessageRequest) func(context.Context) error {
		req.Parent = testProject
		return func(ctx context.Context) error {
			_, err := client.ValidateMessage(ctx, req)
			return err
		}
	}
	named := func(name, message string) *pubsubpb.ValidateMessageRequest {
		return &pubsubpb.ValidateMessageRequest{SchemaSpec: &pubsubpb.ValidateMessageRequest_Name{Name: name}, Message: []byte(message), Encoding: pubsubpb.Encoding_JSON}
	}
	topic := func(id string, set *pubsubpb.SchemaSettings) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := topics.CreateTopic(ctx, &pubsubpb.Topic{Name: testProject + "/topics/" + id, SchemaSettings: set})
			return err
		}
	}
	json := pubsubpb.Encoding_JSON
	tests := []struct {
		name string
		call func(context.Context) error
		want codes.Code
		says string
	}{
		{"exists", create("state", avroSchema(avroOne)), codes.AlreadyExists, testSchema},
		{"bad id", create("1x", avroSchema(avroOne)), codes.InvalidArgument, "3 to 255"},
		{"no id", create("", avroSchema(avroOne)), codes.InvalidArgument, "3 to 255"},
		{"id with a revision", create("state@x", avroSchema(avroOne)), codes.InvalidArgument, "letters, digits"},
		{"no schema", create("new", nil), codes.InvalidArgument, "schema type"},
		{"no type", create("new", &pubsubpb.Schema{Definition: avroOne}), codes.InvalidArgument, "schema type"},
		{"no definition", create("new", avroSchema("")), codes.InvalidArgument, "empty"},
		{"bad definition", create("new", avroSchema("{")), codes.InvalidArgument, "Invalid schema definition: not JSON"},
		{"bad proto", create("new", &pubsubpb.Schema{Type: pubsubpb.Schema_PROTOCOL_BUFFER, Definition: "message {"}), codes.InvalidArgument, "schema.proto:1:9"},
		{"compiled proto", create("new", &pubsubpb.Schema{Type: pubsubpb.Schema_PROTOCOL_BUFFER, Configuration: &pubsubpb.Schema_CompiledProtoSchema{}}), codes.Unimplemented, "Schema.compiled_proto_schema"},
		{"definition too large", create("new", avroSchema(strings.Repeat(" ", schema.MaxDefinitionBytes)+`"int"`)), codes.InvalidArgument, "300000"},
		{"largest definition", create("large", avroSchema(strings.Repeat(" ", schema.MaxDefinitionBytes-5)+`"int"`)), codes.OK, ""},
		{"commit to nothing", commit(testProject+"/schemas/none", avroSchema(avroOne)), codes.NotFound, "none"},
		{"commit of another type", commit(testSchema, &pubsubpb.Schema{Type: pubsubpb.Schema_PROTOCOL_BUFFER, Definition: "message A {}"}), codes.InvalidArgument, "cannot be changed"},
		{"commit that cannot follow", commit(testSchema, avroSchema(`"int"`)), codes.InvalidArgument, "cannot follow revision " + last.GetRevisionId()},
		{"commit to a revision", commit(testSchema+"@"+one.GetRevisionId(), avroSchema(avroOne)), codes.InvalidArgument, "letters, digits"},
		{"get nothing", get(testProject + "/schemas/none"), codes.NotFound, "none"},
		{"get no revision", get(testSchema + "@00000000x"), codes.NotFound, "@00000000x"},
		{"get a topic", get(testTopic), codes.InvalidArgument, "schemas/{id}"},
		{"roll back nothing", rollback(testProject+"/schemas/none", one.GetRevisionId()), codes.NotFound, "none"},
		{"roll back to nothing", rollback(testSchema, "x"), codes.NotFound, "@x"},
		{"delete no revision", deleteRevision(testSchema), codes.InvalidArgument, "{id}@{revision}"},
		{"delete an unknown revision", deleteRevision(testSchema + "@x"), codes.NotFound, "@x"},
		{"delete the last revision", func(ctx context.Context) error {
			large, err := client.GetSchema(ctx, &pubsubpb.GetSchemaRequest{Name: testProject + "/schemas/large"})
			if err != nil {
				return err
			}
			return deleteRevision(large.GetName() + "@" + large.GetRevisionId())(ctx)
		}, codes.InvalidArgument, "DeleteSchema"},
		{"delete nothing", func(ctx context.Context) error {
			return client.DeleteSchema(ctx, &pubsubpb.DeleteSchemaRequest{Name: testProject + "/schemas/none"})
		}, codes.NotFound, "none"},
		{"list revisions of nothing", func(ctx context.Context) error {
			_, err := client.ListSchemaRevisions(ctx, &pubsubpb.ListSchemaRevisionsRequest{Name: testProject + "/schemas/none"}).Next()
			return err
		}, codes.NotFound, "none"},
		{"validate a schema", func(ctx context.Context) error {
			_, err := client.ValidateSchema(ctx, &pubsubpb.ValidateSchemaRequest{Parent: testProject, Schema: avroSchema(avroOne)})
			return err
		}, codes.OK, ""},
		{"validate a bad schema", func(ctx context.Context) error {
			_, err := client.ValidateSchema(ctx, &pubsubpb.ValidateSchemaRequest{Parent: testProject, Schema: avroSchema("[")})
			return err
		}, codes.InvalidArgument, "definition"},
		{"validate a message", validate(named(testSchema, `{"name":"x","area":1}`)), codes.OK, ""},
		{"validate a message of a revision", validate(named(testSchema+"@"+one.GetRevisionId(), `{"name":"x"}`)), codes.OK, ""},
		{"validate a message of another revision", validate(named(testSchema, `{"name":"x"}`)), codes.InvalidArgument, "field area of State is missing"},
		{"validate a message of nothing", validate(named(testProject+"/schemas/none", ``)), codes.NotFound, "none"},
		{"validate a message of a schema sent along", validate(&pubsubpb.ValidateMessageRequest{
			SchemaSpec: &pubsubpb.ValidateMessageRequest_Schema{Schema: avroSchema(`"int"`)}, Message: []byte{2}, Encoding: pubsubpb.Encoding_BINARY,
		}), codes.OK, ""},
		{"validate a message without a schema", validate(&pubsubpb.ValidateMessageRequest{Encoding: json}), codes.InvalidArgument, "a name or a schema"},
		{"validate a message without an encoding", validate(&pubsubpb.ValidateMessageRequest{
			SchemaSpec: &pubsubpb.ValidateMessageRequest_Name{Name: testSchema},
		}), codes.InvalidArgument, "encoding"},
		{"topic", topic("good", &pubsubpb.SchemaSettings{Schema: testSchema, Encoding: json, FirstRevisionId: first.GetRevisionId(), LastRevisionId: last.GetRevisionId()}), codes.OK, ""},
		{"topic without an encoding", topic("new", &pubsubpb.SchemaSettings{Schema: testSchema}), codes.InvalidArgument, "encoding"},
		{"topic without a schema", topic("new", &pubsubpb.SchemaSettings{Encoding: json}), codes.InvalidArgument, "schemas/{id}"},
		{"topic of no schema", topic("new", &pubsubpb.SchemaSettings{Schema: testSchema + "x", Encoding: json}), codes.NotFound, testSchema + "x"},
		{"topic of no first revision", topic("new", &pubsubpb.SchemaSettings{Schema: testSchema, Encoding: json, FirstRevisionId: "x"}), codes.NotFound, "@x"},
		{"topic of no last revision", topic("new", &pubsubpb.SchemaSettings{Schema: testSchema, Encoding: json, LastRevisionId: "x"}), codes.NotFound, "@x"},
		{"topic of revisions the wrong way round", topic("new", &pubsubpb.SchemaSettings{Schema: testSchema, Encoding: json, FirstRevisionId: last.GetRevisionId(), LastRevisionId: first.GetRevisionId()}), codes.InvalidArgument, "newer"},
		{"delete the first revision of a topic", deleteRevision(testSchema + "@" + first.GetRevisionId()), codes.FailedPrecondition, "topics/good"},
		{"delete the last revision of a topic", deleteRevision(testSchema + "@" + last.GetRevisionId()), codes.FailedPrecondition, "topics/good"},
		{"delete a revision of no topic", deleteRevision(testSchema + "@" + one.GetRevisionId()), codes.OK, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.call(soon(t))
			if status.Code(err) != tt.want {
				t.Errorf("error %v, want code %v", err, tt.want)
			}
			if err != nil && !strings.Contains(err.Error(), tt.says) {
				t.Errorf("error %v does not say %q", err, tt.says)
			}
		})
	}
}

func TestE01SchemaHasAtMost20Revisions(t *testing.T) {
	s := schemas{newBroker()}
	if _, err := s.CreateSchema(t.Context(), &pubsubpb.CreateSchemaRequest{Parent: testProject, SchemaId: "state", Schema: avroSchema(avroOne)}); err != nil {
		t.Fatal(err)
	}
	commit := func() (*pubsubpb.Schema, error) {
		return s.CommitSchema(t.Context(), &pubsubpb.CommitSchemaRequest{Name: testSchema, Schema: avroSchema(avroOne)})
	}
	var last *pubsubpb.Schema
	for i := 1; i < maxRevisions; i++ {
		pb, err := commit()
		if err != nil {
			t.Fatalf("revision %d: %v", i+1, err)
		}
		last = pb
	}
	if _, err := commit(); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("one too many: %v", err)
	}
	if _, err := s.RollbackSchema(t.Context(), &pubsubpb.RollbackSchemaRequest{Name: testSchema, RevisionId: last.GetRevisionId()}); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("one too many by rolling back: %v", err)
	}
	if _, err := s.DeleteSchemaRevision(t.Context(), &pubsubpb.DeleteSchemaRevisionRequest{Name: testSchema + "@" + last.GetRevisionId()}); err != nil {
		t.Fatal(err)
	}
	if _, err := commit(); err != nil {
		t.Errorf("with room again: %v", err)
	}
}

func TestE01SchemasAreLimited(t *testing.T) {
	s := schemas{newBroker()}
	create := func(i int) error {
		_, err := s.CreateSchema(t.Context(), &pubsubpb.CreateSchemaRequest{Parent: testProject, SchemaId: fmt.Sprintf("s%05d", i), Schema: avroSchema(`"int"`)})
		return err
	}
	for i := range maxSchemas {
		if err := create(i); err != nil {
			t.Fatalf("schema %d: %v", i, err)
		}
	}
	if err := create(maxSchemas); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("one too many: %v", err)
	}
}

func TestE01SchemaOverREST(t *testing.T) {
	_, addr := start(t)
	base := "http://" + addr + "/v1/"
	const one = `{"type":"AVRO","definition":"\"int\""}`
	created := mustGet(t, 200, "POST", base+testProject+"/schemas?schemaId=state", one)
	first, _ := created.body["revisionId"].(string)
	if created.body["name"] != testSchema || created.body["type"] != "AVRO" || !isRevisionID(first) {
		t.Errorf("created %s", created.text)
	}
	if a := mustGet(t, 200, "GET", base+testSchema+"?view=BASIC", ""); a.body["definition"] != nil || a.body["revisionId"] != first {
		t.Errorf("without its definition: %s", a.text)
	}
	committed := mustGet(t, 200, "POST", base+testSchema+":commit", `{"schema":`+one+`}`)
	second, _ := committed.body["revisionId"].(string)
	if !isRevisionID(second) || second == first {
		t.Errorf("committed %s", committed.text)
	}
	rolled := mustGet(t, 200, "POST", base+testSchema+":rollback", `{"revisionId":"`+first+`"}`)
	if a := mustGet(t, 200, "GET", base+testSchema+":listRevisions", ""); len(a.body["schemas"].([]any)) != 3 {
		t.Errorf("revisions %s", a.text)
	}
	if a := mustGet(t, 200, "GET", base+testSchema+"@"+second, ""); a.body["definition"] != `"int"` || a.body["revisionId"] != second {
		t.Errorf("the second is %s", a.text)
	}
	mustGet(t, 200, "DELETE", base+testSchema+"@"+second+":deleteRevision", "")
	mustGet(t, 200, "DELETE", base+testSchema+":deleteRevision?revisionId="+first, "")
	mustGet(t, 400, "DELETE", base+testSchema+"@"+rolled.body["revisionId"].(string)+":deleteRevision", "")
	if a := mustGet(t, 200, "GET", base+testProject+"/schemas?view=FULL", ""); len(a.body["schemas"].([]any)) != 1 || !strings.Contains(a.text, "definition") {
		t.Errorf("schemas %s", a.text)
	}
	mustGet(t, 200, "POST", base+testProject+"/schemas:validate", `{"schema":`+one+`}`)
	mustGet(t, 400, "POST", base+testProject+"/schemas:validate", `{"schema":{"type":"AVRO","definition":"x"}}`)
	mustGet(t, 200, "POST", base+testProject+"/schemas:validateMessage", `{"name":"`+testSchema+`","encoding":"JSON","message":"MQ=="}`)
	mustGet(t, 400, "POST", base+testProject+"/schemas:validateMessage", `{"name":"`+testSchema+`","encoding":"JSON","message":"eA=="}`)

	mustGet(t, 200, "PUT", base+testProject+"/topics/ints", `{"schemaSettings":{"schema":"`+testSchema+`","encoding":"JSON"}}`)
	mustGet(t, 200, "POST", base+testProject+"/topics/ints:publish", `{"messages":[{"data":"MQ=="}]}`)
	if a := mustGet(t, 400, "POST", base+testProject+"/topics/ints:publish", `{"messages":[{"data":"MQ=="},{"data":"eA=="}]}`); !strings.Contains(a.text, "message 1: ") {
		t.Errorf("a bad message: %s", a.text)
	}
	mustGet(t, 200, "DELETE", base+testSchema, "")
	if a := mustGet(t, 200, "GET", base+testProject+"/topics/ints", ""); !strings.Contains(a.text, `"schema": "_deleted-schema_"`) {
		t.Errorf("topic of a deleted schema: %s", a.text)
	}
	mustGet(t, 404, "POST", base+testProject+"/topics/ints:publish", `{"messages":[{"data":"MQ=="}]}`)
}
