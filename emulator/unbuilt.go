package emulator

import (
	"context"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
)

// schemas is google.pubsub.v1.SchemaService. None of it is built; the generated
// type answers UNIMPLEMENTED and the method's name.
type schemas struct {
	pubsubpb.UnimplementedSchemaServiceServer
}

func errSnapshots() error {
	return status.Error(codes.Unimplemented, "snapshots are not implemented by this server")
}

func (p publisher) ListTopicSnapshots(context.Context, *pubsubpb.ListTopicSnapshotsRequest) (*pubsubpb.ListTopicSnapshotsResponse, error) {
	return nil, errSnapshots()
}

func (s subscriber) GetSnapshot(context.Context, *pubsubpb.GetSnapshotRequest) (*pubsubpb.Snapshot, error) {
	return nil, errSnapshots()
}

func (s subscriber) ListSnapshots(context.Context, *pubsubpb.ListSnapshotsRequest) (*pubsubpb.ListSnapshotsResponse, error) {
	return nil, errSnapshots()
}

func (s subscriber) CreateSnapshot(context.Context, *pubsubpb.CreateSnapshotRequest) (*pubsubpb.Snapshot, error) {
	return nil, errSnapshots()
}

func (s subscriber) UpdateSnapshot(context.Context, *pubsubpb.UpdateSnapshotRequest) (*pubsubpb.Snapshot, error) {
	return nil, errSnapshots()
}

func (s subscriber) DeleteSnapshot(context.Context, *pubsubpb.DeleteSnapshotRequest) (*emptypb.Empty, error) {
	return nil, errSnapshots()
}

func (s subscriber) Seek(context.Context, *pubsubpb.SeekRequest) (*pubsubpb.SeekResponse, error) {
	return nil, status.Error(codes.Unimplemented, "seek is not implemented by this server")
}
