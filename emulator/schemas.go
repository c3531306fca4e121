package emulator

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/batchfleet/batchfleet/emulator/schema"
)

// schemas is google.pubsub.v1.SchemaService.
type schemas struct{ broker *broker }

func (s schemas) CreateSchema(_ context.Context, req *pubsubpb.CreateSchemaRequest) (*pubsubpb.Schema, error) {
	name := req.GetParent() + "/schemas/" + req.GetSchemaId()
	if err := cmp.Or(checkParent(req.GetParent()), checkName(name, "schemas")); err != nil {
		return nil, err
	}
	r, err := newRevision(name, req.GetSchema())
	if err != nil {
		return nil, err
	}
	return s.broker.schemas.create(r)
}

func (s schemas) GetSchema(_ context.Context, req *pubsubpb.GetSchemaRequest) (*pubsubpb.Schema, error) {
	r, err := s.broker.schemas.find(req.GetName())
	if err != nil {
		return nil, err
	}
	return r.show(req.GetView() != pubsubpb.SchemaView_BASIC), nil
}

func (s schemas) ListSchemas(_ context.Context, req *pubsubpb.ListSchemasRequest) (*pubsubpb.ListSchemasResponse, error) {
	store := s.broker.schemas
	latest := valuesOf(&store.mu, store.all, func(of []*revision) *revision { return of[len(of)-1] })
	part, next, err := pageOf(req.GetParent(), latest, func(r *revision) string { return r.pb.GetName() }, req)
	return &pubsubpb.ListSchemasResponse{Schemas: showAll(part, req.GetView()), NextPageToken: next}, err
}

// ListSchemaRevisions lists the oldest first, as Google's own emulator does.
func (s schemas) ListSchemaRevisions(_ context.Context, req *pubsubpb.ListSchemaRevisionsRequest) (*pubsubpb.ListSchemaRevisionsResponse, error) {
	revisions, err := s.broker.schemas.revisions(req.GetName())
	if err != nil {
		return nil, err
	}
	part, next, err := page(slices.Clone(revisions), (*revision).order, req)
	return &pubsubpb.ListSchemaRevisionsResponse{Schemas: showAll(part, req.GetView()), NextPageToken: next}, err
}

func (s schemas) CommitSchema(_ context.Context, req *pubsubpb.CommitSchemaRequest) (*pubsubpb.Schema, error) {
	if err := checkName(req.GetName(), "schemas"); err != nil {
		return nil, err
	}
	r, err := newRevision(req.GetName(), req.GetSchema())
	if err != nil {
		return nil, err
	}
	return s.broker.schemas.commit(r)
}

func (s schemas) RollbackSchema(_ context.Context, req *pubsubpb.RollbackSchemaRequest) (*pubsubpb.Schema, error) {
	if err := checkName(req.GetName(), "schemas"); err != nil {
		return nil, err
	}
	return s.broker.schemas.rollback(req.GetName(), req.GetRevisionId())
}

// DeleteSchemaRevision takes the revision from the name, and from the field that
// came before that only when the name has none.
func (s schemas) DeleteSchemaRevision(_ context.Context, req *pubsubpb.DeleteSchemaRevisionRequest) (*pubsubpb.Schema, error) {
	name, id, ok := strings.Cut(req.GetName(), "@")
	if !ok {
		id = req.GetRevisionId() //nolint:staticcheck // old clients send it
	}
	if err := checkName(name, "schemas"); err != nil {
		return nil, err
	}
	if id == "" {
		return nil, status.Errorf(codes.InvalidArgument, "invalid resource name %s: want projects/{project}/schemas/{id}@{revision}", clip(req.GetName()))
	}
	return s.broker.schemas.deleteRevision(name, id, s.broker.allTopics)
}

func (s schemas) DeleteSchema(_ context.Context, req *pubsubpb.DeleteSchemaRequest) (*emptypb.Empty, error) {
	return &emptypb.Empty{}, s.broker.schemas.delete(req.GetName(), s.broker.markSchemaDeleted)
}

func (s schemas) ValidateSchema(_ context.Context, req *pubsubpb.ValidateSchemaRequest) (*pubsubpb.ValidateSchemaResponse, error) {
	if err := checkParent(req.GetParent()); err != nil {
		return nil, err
	}
	_, err := compileSchema(req.GetSchema())
	return &pubsubpb.ValidateSchemaResponse{}, err
}

func (s schemas) ValidateMessage(_ context.Context, req *pubsubpb.ValidateMessageRequest) (*pubsubpb.ValidateMessageResponse, error) {
	if err := cmp.Or(checkParent(req.GetParent()), checkEncoding(req.GetEncoding())); err != nil {
		return nil, err
	}
	compiled, err := s.schemaOf(req)
	if err != nil {
		return nil, err
	}
	if err := compiled.Validate(req.GetEncoding(), req.GetMessage()); err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "Invalid message: %v", err)
	}
	return &pubsubpb.ValidateMessageResponse{}, nil
}

// schemaOf returns the schema a request names or brings along.
func (s schemas) schemaOf(req *pubsubpb.ValidateMessageRequest) (*schema.Schema, error) {
	switch spec := req.GetSchemaSpec().(type) {
	case *pubsubpb.ValidateMessageRequest_Name:
		r, err := s.broker.schemas.find(spec.Name)
		if err != nil {
			return nil, err
		}
		return r.compiled, nil
	case *pubsubpb.ValidateMessageRequest_Schema:
		return compileSchema(spec.Schema)
	default:
		return nil, status.Error(codes.InvalidArgument, "The request must have a name or a schema.")
	}
}

// showAll shows revisions as lists do, without definitions unless asked.
func showAll(revisions []*revision, view pubsubpb.SchemaView) []*pubsubpb.Schema {
	all := make([]*pubsubpb.Schema, len(revisions))
	for i, r := range revisions {
		all[i] = r.show(view == pubsubpb.SchemaView_FULL)
	}
	return all
}
