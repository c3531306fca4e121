package clienttest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
)

// A method is one RPC of google.pubsub.v1, read from its descriptor.
type method struct {
	desc protoreflect.MethodDescriptor
	rule *annotations.HttpRule // nil when it is not served over REST
}

// methods are all RPCs by their bare names.
var methods = func() map[string]method {
	all := map[string]method{}
	for _, file := range []protoreflect.FileDescriptor{
		pubsubpb.File_google_pubsub_v1_pubsub_proto, pubsubpb.File_google_pubsub_v1_schema_proto,
	} {
		for i := range file.Services().Len() {
			ms := file.Services().Get(i).Methods()
			for j := range ms.Len() {
				rule, _ := proto.GetExtension(ms.Get(j).Options(), annotations.E_Http).(*annotations.HttpRule)
				all[string(ms.Get(j).Name())] = method{ms.Get(j), rule}
			}
		}
	}
	return all
}()

// call makes the RPC over gRPC with a request written in JSON.
func (m method) call(ctx context.Context, conn *grpc.ClientConn, request string) (proto.Message, error) {
	req := dynamicpb.NewMessage(m.desc.Input())
	if err := protojson.Unmarshal([]byte(request), req); err != nil {
		return nil, fmt.Errorf("request of the test: %w", err)
	}
	resp := dynamicpb.NewMessage(m.desc.Output())
	return resp, conn.Invoke(ctx, fmt.Sprintf("/%s/%s", m.desc.Parent().FullName(), m.desc.Name()), req, resp)
}

// rest writes a request as its HTTP binding wants it. A value that does not fit
// the pattern of its place in the path is put there nevertheless.
func (m method) rest(t *testing.T, request string) (verb, path, body string) {
	t.Helper()
	var fields map[string]any
	if err := json.Unmarshal([]byte(request), &fields); err != nil {
		t.Fatal(err)
	}
	switch p := m.rule.GetPattern().(type) {
	case *annotations.HttpRule_Get:
		verb, path = "GET", p.Get
	case *annotations.HttpRule_Put:
		verb, path = "PUT", p.Put
	case *annotations.HttpRule_Post:
		verb, path = "POST", p.Post
	case *annotations.HttpRule_Delete:
		verb, path = "DELETE", p.Delete
	case *annotations.HttpRule_Patch:
		verb, path = "PATCH", p.Patch
	}
	before, rest, _ := strings.Cut(path, "{")
	variable, after, _ := strings.Cut(rest, "}")
	variable, _, _ = strings.Cut(variable, "=")
	path = before + pathEscape(take(fields, variable)) + after
	switch m.rule.GetBody() {
	case "*":
		b, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		return verb, path, string(b)
	case "":
	default:
		b, err := json.Marshal(fields[m.rule.GetBody()])
		if err != nil {
			t.Fatal(err)
		}
		body = string(b)
		delete(fields, m.rule.GetBody())
	}
	query := url.Values{}
	for name, value := range fields {
		query.Set(name, fmt.Sprint(value))
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return verb, path, body
}

// take removes the text at a path like topic.name and returns it.
func take(fields map[string]any, path string) string {
	name, rest, nested := strings.Cut(path, ".")
	if nested {
		inner, _ := fields[name].(map[string]any)
		return take(inner, rest)
	}
	text, _ := fields[name].(string)
	delete(fields, name)
	return text
}

func pathEscape(name string) string {
	parts := strings.Split(name, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return strings.Join(parts, "/")
}
