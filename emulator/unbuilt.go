package emulator

import "cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"

// schemas is google.pubsub.v1.SchemaService. None of it is built; the generated
// type answers UNIMPLEMENTED and the method's name.
type schemas struct {
	pubsubpb.UnimplementedSchemaServiceServer
}
