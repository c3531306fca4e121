package emulator

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
)

func TestE01SchemaIsEnforcedAtPublish(t *testing.T) {
	s, addr := start(t)
	client := schemaClient(t, addr)
	topics, subs := clients(t, addr)
	one := createSchema(t, client, avroSchema(avroOne))
	two := commitTwo(t, client)
	const topic, sub = testProject + "/topics/states", testProject + "/subscriptions/states"
	_, err := topics.CreateTopic(soon(t), &pubsubpb.Topic{Name: topic, SchemaSettings: &pubsubpb.SchemaSettings{Schema: testSchema, Encoding: pubsubpb.Encoding_JSON}})
	must(t, err)
	if _, err := subs.CreateSubscription(soon(t), &pubsubpb.Subscription{Name: sub, Topic: topic}); err != nil {
		t.Fatal(err)
	}
	const follows1, follows2 = `{"name":"x"}`, `{"name":"x","area":1}`
	publish := func(data ...string) error {
		var msgs []*pubsubpb.PubsubMessage
		for _, d := range data {
			msgs = append(msgs, &pubsubpb.PubsubMessage{Data: []byte(d)})
		}
		_, err := topics.Publish(soon(t), &pubsubpb.PublishRequest{Topic: topic, Messages: msgs})
		return err
	}
	update := func(set *pubsubpb.SchemaSettings, paths ...string) error {
		_, err := topics.UpdateTopic(soon(t), &pubsubpb.UpdateTopicRequest{
			Topic: &pubsubpb.Topic{Name: topic, SchemaSettings: set}, UpdateMask: &fieldmaskpb.FieldMask{Paths: paths},
		})
		return err
	}
	want := func(err error, code codes.Code, says string) {
		t.Helper()
		if status.Code(err) != code || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("error %v, want %v that says %q", err, code, says)
		}
	}

	// Every message may follow a revision of its own, and says which.
	want(publish(follows1, follows2), codes.OK, "")
	pulled, err := subs.Pull(soon(t), &pubsubpb.PullRequest{Subscription: sub, MaxMessages: 10})
	must(t, err)
	for i, revision := range []*pubsubpb.Schema{one, two} {
		got := fmt.Sprint(pulled.GetReceivedMessages()[i].GetMessage().GetAttributes())
		if want := fmt.Sprint(map[string]string{
			"googclient_schemaname": testSchema, "googclient_schemaencoding": "JSON", "googclient_schemarevisionid": revision.GetRevisionId(),
		}); got != want {
			t.Errorf("attributes of message %d are %s, want %s", i, got, want)
		}
	}
	// One bad message keeps all out; the error is that of the newest revision.
	want(publish(follows1, `{"nome":"x"}`), codes.InvalidArgument, "message 1: Invalid data for revision "+two.GetRevisionId())
	if st := s.Stats()[1]; st.Subscription != sub || st.Undelivered+st.Leased != 2 {
		t.Errorf("stats %+v, want the two messages that were good", st)
	}

	want(update(&pubsubpb.SchemaSettings{FirstRevisionId: two.GetRevisionId()}, "schema_settings.first_revision_id"), codes.OK, "")
	want(publish(follows1), codes.InvalidArgument, "message 0: ")
	want(publish(follows2), codes.OK, "")
	want(update(&pubsubpb.SchemaSettings{FirstRevisionId: one.GetRevisionId(), LastRevisionId: one.GetRevisionId()},
		"schema_settings.first_revision_id", "schema_settings.last_revision_id"), codes.OK, "")
	want(publish(follows2), codes.InvalidArgument, "message 0: Invalid data for revision "+one.GetRevisionId())
	want(publish(follows1), codes.OK, "")

	want(update(&pubsubpb.SchemaSettings{FirstRevisionId: two.GetRevisionId()}, "schema_settings.first_revision_id"), codes.InvalidArgument, "newer")
	want(update(&pubsubpb.SchemaSettings{LastRevisionId: "x"}, "schema_settings.last_revision_id"), codes.NotFound, "@x")
	want(update(&pubsubpb.SchemaSettings{}, "schema_settings.colour"), codes.InvalidArgument, "colour")
	want(publish(follows1), codes.OK, "") // what was refused changed nothing

	want(update(&pubsubpb.SchemaSettings{Schema: testSchema, Encoding: pubsubpb.Encoding_BINARY}, "schema_settings"), codes.OK, "")
	want(publish("\x02x"), codes.OK, "")
	want(publish(follows1), codes.InvalidArgument, "message 0: ")

	must(t, client.DeleteSchema(soon(t), &pubsubpb.DeleteSchemaRequest{Name: testSchema}))
	want(publish("\x02x"), codes.NotFound, "Schema associated with topic deleted.")
	got, err := topics.GetTopic(soon(t), &pubsubpb.GetTopicRequest{Topic: topic})
	if err != nil || got.GetSchemaSettings().GetSchema() != "_deleted-schema_" || got.GetSchemaSettings().GetEncoding() != pubsubpb.Encoding_BINARY {
		t.Errorf("topic %v, %v", got, err)
	}
	// A new schema of the same name is another schema.
	createSchema(t, client, avroSchema(avroOne))
	want(publish("\x02x"), codes.NotFound, "deleted")
	want(update(&pubsubpb.SchemaSettings{Encoding: pubsubpb.Encoding_JSON}, "schema_settings.encoding"), codes.InvalidArgument, "_deleted-schema_")
	want(update(nil, "labels"), codes.OK, "")
	want(update(nil, "schema_settings"), codes.OK, "")
	want(publish("anything"), codes.OK, "")
}

func TestE01SchemaOfProtocolBuffersIsEnforced(t *testing.T) {
	b := newBroker()
	p, service := publisher{b}, schemas{b}
	definition := `syntax = "proto3"; message StateProto { string name = 1; string post_abbr = 2; }`
	_, err := service.CreateSchema(t.Context(), &pubsubpb.CreateSchemaRequest{Parent: testProject, SchemaId: "state", Schema: &pubsubpb.Schema{Type: pubsubpb.Schema_PROTOCOL_BUFFER, Definition: definition}})
	must(t, err)
	for encoding, data := range map[pubsubpb.Encoding]string{pubsubpb.Encoding_JSON: `{"name":"Alaska"}`, pubsubpb.Encoding_BINARY: "\x0a\x06Alaska"} {
		topic := testProject + "/topics/" + encoding.String()
		if _, err := p.CreateTopic(t.Context(), &pubsubpb.Topic{Name: topic, SchemaSettings: &pubsubpb.SchemaSettings{Schema: testSchema, Encoding: encoding}}); err != nil {
			t.Fatal(err)
		}
		publish := func(data string) error {
			_, err := p.Publish(t.Context(), &pubsubpb.PublishRequest{Topic: topic, Messages: []*pubsubpb.PubsubMessage{{Data: []byte(data)}}})
			return err
		}
		if err := publish(data); err != nil {
			t.Errorf("%v: %v", encoding, err)
		}
		if err := publish("!"); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%v of another form: %v", encoding, err)
		}
	}
}

// A told is one call of schemaStore.changed.
type told struct {
	name      string
	revisions []*pubsubpb.Schema
}

func TestE01SchemaStoreTellsWhatChanged(t *testing.T) {
	b := newBroker()
	service := schemas{b}
	var calls []told
	b.schemas.changed = func(name string, revisions []*pubsubpb.Schema) { calls = append(calls, told{name, revisions}) }
	check := func(definitions ...string) {
		t.Helper()
		if len(calls) != 1 {
			t.Fatalf("%d calls, want 1", len(calls))
		}
		call := calls[0]
		calls = nil
		var got []string
		for _, r := range call.revisions {
			got = append(got, r.GetDefinition())
			if r.GetName() != testSchema || !isRevisionID(r.GetRevisionId()) || !r.GetRevisionCreateTime().IsValid() {
				t.Errorf("told of revision %v", r)
			}
		}
		if call.name != testSchema || fmt.Sprint(got) != fmt.Sprint(definitions) || (call.revisions == nil) != (definitions == nil) {
			t.Errorf("told of %s: %q, want %q", call.name, got, definitions)
		}
	}
	one, err := service.CreateSchema(t.Context(), &pubsubpb.CreateSchemaRequest{Parent: testProject, SchemaId: "state", Schema: avroSchema(avroOne)})
	must(t, err)
	check(avroOne)
	if _, err := service.CommitSchema(t.Context(), &pubsubpb.CommitSchemaRequest{Name: testSchema, Schema: avroSchema(avroTwo)}); err != nil {
		t.Fatal(err)
	}
	check(avroOne, avroTwo)
	if _, err := service.RollbackSchema(t.Context(), &pubsubpb.RollbackSchemaRequest{Name: testSchema, RevisionId: one.GetRevisionId()}); err != nil {
		t.Fatal(err)
	}
	check(avroOne, avroTwo, avroOne)
	if _, err := service.DeleteSchemaRevision(t.Context(), &pubsubpb.DeleteSchemaRevisionRequest{Name: testSchema + "@" + one.GetRevisionId()}); err != nil {
		t.Fatal(err)
	}
	check(avroTwo, avroOne)
	if _, err := service.CommitSchema(t.Context(), &pubsubpb.CommitSchemaRequest{Name: testSchema, Schema: avroSchema(`"int"`)}); err == nil || len(calls) > 0 {
		t.Errorf("a refused commit: %v, told %v", err, calls)
	}
	if _, err := service.DeleteSchema(t.Context(), &pubsubpb.DeleteSchemaRequest{Name: testSchema}); err != nil {
		t.Fatal(err)
	}
	check()
}

// listSchemas returns all revisions of all schemas with their definitions, oldest
// first.
func listSchemas(s *schemaStore) []*pubsubpb.Schema {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var all []*pubsubpb.Schema
	for _, revisions := range s.all {
		all = append(all, full(revisions)...)
	}
	slices.SortStableFunc(all, func(a, b *pubsubpb.Schema) int {
		if c := a.GetRevisionCreateTime().AsTime().Compare(b.GetRevisionCreateTime().AsTime()); c != 0 {
			return c
		}
		return strings.Compare(a.GetName(), b.GetName())
	})
	return all
}

func TestE01SchemaStoreIsRestored(t *testing.T) {
	b := newBroker()
	service := schemas{b}
	for _, id := range []string{"state", "other"} {
		if _, err := service.CreateSchema(t.Context(), &pubsubpb.CreateSchemaRequest{Parent: testProject, SchemaId: id, Schema: avroSchema(avroOne)}); err != nil {
			t.Fatal(err)
		}
	}
	two, err := service.CommitSchema(t.Context(), &pubsubpb.CommitSchemaRequest{Name: testSchema, Schema: avroSchema(avroTwo)})
	must(t, err)
	list := listSchemas(b.schemas)
	if len(list) != 3 || list[2] != two {
		t.Errorf("list %v, want three, the newest last", list)
	}
	restored := newBroker()
	restored.schemas.changed = func(name string, _ []*pubsubpb.Schema) { t.Errorf("told of %s", name) }
	must(t, restored.schemas.restore(list))
	again := listSchemas(restored.schemas)
	for i := range list {
		if !proto.Equal(list[i], again[i]) {
			t.Errorf("restored %v, want %v", again[i], list[i])
		}
	}
	_, err = schemas{restored}.ValidateMessage(t.Context(), &pubsubpb.ValidateMessageRequest{
		Parent: testProject, SchemaSpec: &pubsubpb.ValidateMessageRequest_Name{Name: testSchema},
		Message: []byte(`{"name":"x","area":1}`), Encoding: pubsubpb.Encoding_JSON,
	})
	if err != nil {
		t.Errorf("a message of the restored schema: %v", err)
	}
	for name, change := range map[string]func(*pubsubpb.Schema){
		"name":        func(s *pubsubpb.Schema) { s.Name = "x" },
		"definition":  func(s *pubsubpb.Schema) { s.Definition = "{" },
		"revision id": func(s *pubsubpb.Schema) { s.RevisionId = "" },
	} {
		bad := proto.CloneOf(list[0])
		change(bad)
		if err := restored.schemas.restore([]*pubsubpb.Schema{list[1], bad}); err == nil || len(listSchemas(restored.schemas)) != 3 {
			t.Errorf("restored a bad %s: %v", name, err)
		}
	}
	if err := restored.schemas.restore([]*pubsubpb.Schema{list[0], list[0]}); err == nil {
		t.Error("restored one revision twice")
	}
}

func TestE01SchemaRevisionFollowsTheOneItWasComparedWith(t *testing.T) {
	b := newBroker()
	one, err := newRevision(testSchema, avroSchema(avroOne))
	must(t, err)
	if _, err := b.schemas.create(one); err != nil {
		t.Fatal(err)
	}
	two, three := &revision{pb: proto.CloneOf(one.pb), compiled: one.compiled}, &revision{pb: proto.CloneOf(one.pb), compiled: one.compiled}
	if done, err := b.schemas.follow(one, two); !done || err != nil {
		t.Fatalf("the second: %v, %v", done, err)
	}
	if done, err := b.schemas.follow(one, three); done || err != nil {
		t.Errorf("a third that was compared with the first: %v, %v", done, err)
	}
	if done, err := b.schemas.follow(two, three); !done || err != nil {
		t.Errorf("a third that was compared with the second: %v, %v", done, err)
	}
}

func TestE01SchemaMessageFollowsTheNewestRevision(t *testing.T) {
	// Time stands still here: revisions are in order all the same.
	synctest.Test(t, func(t *testing.T) {
		b := newBroker()
		service := schemas{b}
		if _, err := service.CreateSchema(t.Context(), &pubsubpb.CreateSchemaRequest{Parent: testProject, SchemaId: "state", Schema: avroSchema(avroOne)}); err != nil {
			t.Fatal(err)
		}
		var ids []string
		for range 5 {
			r, err := service.CommitSchema(t.Context(), &pubsubpb.CommitSchemaRequest{Name: testSchema, Schema: avroSchema(avroOne)})
			must(t, err)
			ids = append(ids, r.GetRevisionId())
		}
		enforce := func(first, last string) (string, error) {
			m := &pubsubpb.PubsubMessage{Data: []byte(`{"name":"x"}`)}
			set := &pubsubpb.SchemaSettings{Schema: testSchema, Encoding: pubsubpb.Encoding_JSON, FirstRevisionId: first, LastRevisionId: last}
			err := b.schemas.enforce(set, []*pubsubpb.PubsubMessage{m})
			return m.GetAttributes()[attributeSchemaRevision], err
		}
		if got, err := enforce("", ""); got != ids[4] || err != nil {
			t.Errorf("followed %q, %v; want the last of %q", got, err, ids)
		}
		if got, err := enforce(ids[1], ids[3]); got != ids[3] || err != nil {
			t.Errorf("followed %q, %v; want the fourth of %q", got, err, ids)
		}
		for _, ends := range [][2]string{{ids[3], ids[1]}, {"x", ""}, {"", "x"}} {
			if _, err := enforce(ends[0], ends[1]); status.Code(err) != codes.NotFound {
				t.Errorf("from %s to %s: %v", ends[0], ends[1], err)
			}
		}
		seen, token := "", ""
		for more := true; more; more = token != "" {
			part, err := service.ListSchemaRevisions(t.Context(), &pubsubpb.ListSchemaRevisionsRequest{Name: testSchema, PageSize: 1, PageToken: token})
			must(t, err)
			seen += " " + revisionIDs(part.GetSchemas())
			token = part.GetNextPageToken()
		}
		if !strings.HasSuffix(seen, " "+strings.Join(ids, " ")) {
			t.Errorf("listed %s, want %q at the end", seen, ids)
		}
	})
}

// However creates and deletes fall together, no topic keeps the name of a schema
// that is gone, and no revision is lost.
func TestE01SchemaChangesAreAtomic(t *testing.T) {
	b := newBroker()
	p, service := publisher{b}, schemas{b}
	must(t, b.createTopic(&pubsubpb.Topic{Name: testTopic}))
	r, err := newRevision(testSchema, avroSchema(avroOne))
	must(t, err)
	for round := range 20 {
		if _, err := b.schemas.create(&revision{pb: proto.CloneOf(r.pb), compiled: r.compiled}); err != nil {
			t.Fatal(err)
		}
		set := &pubsubpb.SchemaSettings{Schema: testSchema, Encoding: pubsubpb.Encoding_JSON}
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				_, err := p.CreateTopic(t.Context(), &pubsubpb.Topic{Name: fmt.Sprintf("%s/topics/t%d-%d", testProject, round, i), SchemaSettings: set})
				if err != nil && status.Code(err) != codes.NotFound {
					t.Error(err)
				}
			})
			wg.Go(func() {
				_, err := p.UpdateTopic(t.Context(), &pubsubpb.UpdateTopicRequest{
					Topic:      &pubsubpb.Topic{Name: testTopic, SchemaSettings: set},
					UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"schema_settings"}},
				})
				if err != nil && status.Code(err) != codes.NotFound {
					t.Error(err)
				}
			})
			wg.Go(func() {
				_, err := service.CommitSchema(t.Context(), &pubsubpb.CommitSchemaRequest{Name: testSchema, Schema: avroSchema(avroOne)})
				if err != nil && status.Code(err) != codes.NotFound {
					t.Error(err)
				}
			})
		}
		wg.Go(func() {
			if err := b.schemas.delete(testSchema, b.markSchemaDeleted); err != nil {
				t.Error(err)
			}
		})
		wg.Wait()
		for _, topic := range b.allTopics() {
			if set := topic.GetSchemaSettings(); set != nil && set.GetSchema() != deletedSchema {
				t.Fatalf("topic %v", topic)
			}
		}
	}
	if _, err := b.schemas.create(r); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range maxRevisions - 1 {
		wg.Go(func() {
			if _, err := service.CommitSchema(t.Context(), &pubsubpb.CommitSchemaRequest{Name: testSchema, Schema: avroSchema(avroOne)}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := len(listSchemas(b.schemas)); n != maxRevisions {
		t.Errorf("%d revisions, want %d", n, maxRevisions)
	}
}
