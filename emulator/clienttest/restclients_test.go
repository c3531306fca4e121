package clienttest

import (
	"context"
	"testing"

	pubsubapi "cloud.google.com/go/pubsub/v2/apiv1"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/api/option"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
)

// overREST are what points Google's clients for REST to the server.
func (r *rig) overREST() []option.ClientOption {
	return []option.ClientOption{
		option.WithEndpoint("http://" + r.addr), option.WithoutAuthentication(), option.WithTelemetryDisabled(),
	}
}

func TestE01GoRESTClients(t *testing.T) {
	t.Parallel()
	r := start(t)
	topics := must(pubsubapi.NewTopicAdminRESTClient(t.Context(), r.overREST()...))(t)
	subs := must(pubsubapi.NewSubscriptionAdminRESTClient(t.Context(), r.overREST()...))(t)
	schemas := must(pubsubapi.NewSchemaRESTClient(t.Context(), r.overREST()...))(t)
	t.Cleanup(func() {
		closeIt(t, topics)
		closeIt(t, subs)
		closeIt(t, schemas)
	})

	topic := must(topics.CreateTopic(soon(t), &pubsubpb.Topic{Name: topicName, Labels: map[string]string{"a": "b"}}))(t)
	if got := must(topics.GetTopic(soon(t), &pubsubpb.GetTopicRequest{Topic: topicName}))(t); !proto.Equal(got, topic) || got.GetState() != pubsubpb.Topic_ACTIVE {
		t.Errorf("topic %v, created as %v", got, topic)
	}
	topic = must(topics.UpdateTopic(soon(t), &pubsubpb.UpdateTopicRequest{Topic: &pubsubpb.Topic{Name: topicName}, UpdateMask: mask("labels")}))(t)
	if len(topic.GetLabels()) != 0 {
		t.Errorf("topic %v, want no labels", topic)
	}
	sub := must(subs.CreateSubscription(soon(t), &pubsubpb.Subscription{Name: subName, Topic: topicName, AckDeadlineSeconds: 20}))(t)
	if got := must(subs.GetSubscription(soon(t), &pubsubpb.GetSubscriptionRequest{Subscription: subName}))(t); !proto.Equal(got, sub) {
		t.Errorf("subscription %v, created as %v", got, sub)
	}
	published := must(topics.Publish(soon(t), &pubsubpb.PublishRequest{
		Topic: topicName, Messages: []*pubsubpb.PubsubMessage{{Data: []byte{0, 0xff}, Attributes: map[string]string{"k": "ü"}, OrderingKey: "o"}},
	}))(t)
	pulled := must(subs.Pull(soon(t), &pubsubpb.PullRequest{Subscription: subName, MaxMessages: 1}))(t)
	m := pulled.GetReceivedMessages()[0]
	if got := m.GetMessage(); string(got.GetData()) != "\x00\xff" || got.GetAttributes()["k"] != "ü" || got.GetMessageId() != published.GetMessageIds()[0] {
		t.Errorf("pulled %v, published as %v", got, published)
	}
	err := subs.ModifyAckDeadline(soon(t), &pubsubpb.ModifyAckDeadlineRequest{Subscription: subName, AckIds: []string{m.GetAckId()}, AckDeadlineSeconds: 30})
	wantError(t, err, codes.OK, "")
	err = subs.Acknowledge(soon(t), &pubsubpb.AcknowledgeRequest{Subscription: subName, AckIds: []string{m.GetAckId()}})
	wantError(t, err, codes.OK, "")
	if st := r.Stats()[0]; st.Acked != 1 {
		t.Errorf("stats %+v, want one ack", st)
	}
	listed := 0
	for s, err := range subs.ListSubscriptions(soon(t), &pubsubpb.ListSubscriptionsRequest{Project: "projects/test"}).All() {
		if must(s, err)(t).GetName() == subName {
			listed++
		}
	}
	if listed != 1 {
		t.Errorf("the subscription is listed %d times", listed)
	}
	_, err = topics.GetTopic(soon(t), &pubsubpb.GetTopicRequest{Topic: topicName + "x"})
	wantError(t, err, codes.NotFound, "jobsx")
	err = topics.DeleteTopic(soon(t), &pubsubpb.DeleteTopicRequest{Topic: topicName})
	wantError(t, err, codes.OK, "")
	t.Run("schemas", func(t *testing.T) { useSchemas(soon(t), t, schemas) })
}

func useSchemas(ctx context.Context, t *testing.T, schemas *pubsubapi.SchemaClient) {
	t.Helper()
	const name = "projects/test/schemas/person"
	definition := `{"type":"record","name":"Person","fields":[{"name":"name","type":"string"}]}`
	made := must(schemas.CreateSchema(ctx, &pubsubpb.CreateSchemaRequest{
		Parent: "projects/test", SchemaId: "person",
		Schema: &pubsubpb.Schema{Type: pubsubpb.Schema_AVRO, Definition: definition},
	}))(t)
	if made.GetName() != name || made.GetRevisionId() == "" {
		t.Errorf("created %v, want %s with a revision", made, name)
	}
	got := must(schemas.GetSchema(ctx, &pubsubpb.GetSchemaRequest{Name: name, View: pubsubpb.SchemaView_FULL}))(t)
	if got.GetDefinition() != definition {
		t.Errorf("schema is %v", got)
	}
	_, err := schemas.ValidateMessage(ctx, &pubsubpb.ValidateMessageRequest{
		Parent: "projects/test", SchemaSpec: &pubsubpb.ValidateMessageRequest_Name{Name: name},
		Message: []byte(`{"nom":1}`), Encoding: pubsubpb.Encoding_JSON,
	})
	wantError(t, err, codes.InvalidArgument, "")
	wantError(t, schemas.DeleteSchema(ctx, &pubsubpb.DeleteSchemaRequest{Name: name}), codes.OK, "")
}
