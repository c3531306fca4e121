package emulator

import (
	"fmt"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/batchfleet/batchfleet/emulator/schema"
)

// A revision is one version of a schema. It never changes once it is in a
// schemaStore, nor does what it points to.
type revision struct {
	pb       *pubsubpb.Schema // with its definition
	compiled *schema.Schema
}

// newRevision compiles what a client sent. The store gives it an id and a time.
func newRevision(name string, pb *pubsubpb.Schema) (*revision, error) {
	compiled, err := compileSchema(pb)
	if err != nil {
		return nil, err
	}
	return &revision{
		pb:       &pubsubpb.Schema{Name: name, Type: pb.GetType(), Definition: pb.GetDefinition()},
		compiled: compiled,
	}, nil
}

func compileSchema(pb *pubsubpb.Schema) (*schema.Schema, error) {
	switch {
	case pb.GetConfiguration() != nil:
		return nil, errUnimplemented(pb, "compiled_proto_schema")
	case pb.GetType() != pubsubpb.Schema_AVRO && pb.GetType() != pubsubpb.Schema_PROTOCOL_BUFFER:
		return nil, status.Errorf(codes.InvalidArgument, "Invalid schema type %v: want AVRO or PROTOCOL_BUFFER.", pb.GetType())
	case pb.GetDefinition() == "":
		return nil, status.Error(codes.InvalidArgument, "Invalid schema definition: it is empty.")
	}
	compiled, err := schema.Compile(pb.GetType(), pb.GetDefinition())
	if err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "Invalid schema definition: %v", err)
	}
	return compiled, nil
}

// show returns what clients see of a revision.
func (r *revision) show(definition bool) *pubsubpb.Schema {
	if definition {
		return r.pb
	}
	pb := proto.CloneOf(r.pb)
	pb.Definition = ""
	return pb
}

// order is a string by which the revisions of one schema sort by age.
func (r *revision) order() string {
	return fmt.Sprintf("%020d", r.pb.GetRevisionCreateTime().AsTime().UnixNano())
}
