package emulator

import (
	"cmp"
	"slices"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// deletedSchema is the schema of a topic whose schema is deleted.
const deletedSchema = "_deleted-schema_"

// The attributes that are added to a message of a topic with a schema.
const (
	attributeSchemaName     = "googclient_schemaname"
	attributeSchemaEncoding = "googclient_schemaencoding"
	attributeSchemaRevision = "googclient_schemarevisionid"
)

// attach calls store, which adds a topic with these settings, if their schema and
// revisions exist. No schema is deleted meanwhile.
func (s *schemaStore) attach(set *pubsubpb.SchemaSettings, store func() error) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.checkSettings(set); err != nil {
		return err
	}
	return store()
}

// updateTopicAndSchema is updateTopic for a change that may touch the schema
// settings. No schema is deleted meanwhile.
func (b *broker) updateTopicAndSchema(name string, change func(*pubsubpb.Topic) error) (*pubsubpb.Topic, error) {
	b.schemas.mu.RLock()
	defer b.schemas.mu.RUnlock()
	return b.updateTopic(name, func(pb *pubsubpb.Topic) error {
		before := proto.CloneOf(pb.GetSchemaSettings())
		if err := change(pb); err != nil {
			return err
		}
		if proto.Equal(before, pb.GetSchemaSettings()) {
			return nil // it may be that of a deleted schema
		}
		return b.schemas.checkSettings(pb.GetSchemaSettings())
	})
}

// checkSettings checks the schema settings of a topic, which may be nil. The caller
// holds s.mu.
func (s *schemaStore) checkSettings(set *pubsubpb.SchemaSettings) error {
	if set == nil {
		return nil
	}
	if err := cmp.Or(checkName(set.GetSchema(), "schemas"), checkEncoding(set.GetEncoding())); err != nil {
		return err
	}
	revisions := s.all[set.GetSchema()]
	if revisions == nil {
		return errNotFound(set.GetSchema())
	}
	for _, id := range []string{set.GetFirstRevisionId(), set.GetLastRevisionId()} {
		if id != "" && revisionIndex(revisions, id) < 0 {
			return errNotFound(set.GetSchema() + "@" + id)
		}
	}
	if len(inRange(revisions, set)) == 0 {
		return status.Errorf(codes.InvalidArgument, "Invalid schema settings: first revision %s is newer than last revision %s.",
			set.GetFirstRevisionId(), set.GetLastRevisionId())
	}
	return nil
}

func checkEncoding(encoding pubsubpb.Encoding) error {
	if encoding != pubsubpb.Encoding_JSON && encoding != pubsubpb.Encoding_BINARY {
		return status.Errorf(codes.InvalidArgument, "Invalid schema encoding %v: want JSON or BINARY.", encoding)
	}
	return nil
}

// inRange returns the revisions a topic takes messages of.
func inRange(revisions []*revision, set *pubsubpb.SchemaSettings) []*revision {
	first, last := 0, len(revisions)-1
	if id := set.GetFirstRevisionId(); id != "" {
		first = revisionIndex(revisions, id)
	}
	if id := set.GetLastRevisionId(); id != "" {
		last = revisionIndex(revisions, id)
	}
	if first < 0 || last < first {
		return nil
	}
	return revisions[first : last+1]
}

// enforce validates messages that are published to a topic with these settings, if
// it has any, and adds the schema and the revision to their attributes. Each may
// match another revision; the newest is tried first.
func (s *schemaStore) enforce(set *pubsubpb.SchemaSettings, msgs []*pubsubpb.PubsubMessage) error {
	if set == nil {
		return nil
	}
	all, err := s.revisions(set.GetSchema())
	if err != nil {
		return status.Error(codes.NotFound, "Schema associated with topic deleted.")
	}
	revisions := inRange(all, set)
	if len(revisions) == 0 {
		return status.Errorf(codes.NotFound, "Revisions associated with topic deleted: %s to %s of %s.",
			set.GetFirstRevisionId(), set.GetLastRevisionId(), clip(set.GetSchema()))
	}
	matches := make([]*revision, len(msgs))
	for i, m := range msgs {
		matches[i], err = matchingRevision(revisions, set.GetEncoding(), m.GetData())
		if err != nil {
			newest := revisions[len(revisions)-1].pb
			return status.Errorf(codes.InvalidArgument, "message %d: Invalid data for revision %s of schema %s: %v",
				i, newest.GetRevisionId(), clip(newest.GetName()), err)
		}
	}
	for i, m := range msgs {
		if m.Attributes == nil {
			m.Attributes = make(map[string]string)
		}
		m.Attributes[attributeSchemaName] = set.GetSchema()
		m.Attributes[attributeSchemaEncoding] = set.GetEncoding().String()
		m.Attributes[attributeSchemaRevision] = matches[i].pb.GetRevisionId()
	}
	return nil
}

// matchingRevision returns the newest revision that data matches. The error is that
// of the newest one.
func matchingRevision(revisions []*revision, encoding pubsubpb.Encoding, data []byte) (*revision, error) {
	var first error
	for _, r := range slices.Backward(revisions) {
		err := r.compiled.Validate(encoding, data)
		if err == nil {
			return r, nil
		}
		if first == nil {
			first = err
		}
	}
	return nil, first
}

// markSchemaDeleted marks the topics of a schema that is deleted.
func (b *broker) markSchemaDeleted(name string) {
	for _, t := range b.allTopics() {
		if t.GetSchemaSettings().GetSchema() != name {
			continue
		}
		// The only error is that the topic was deleted meanwhile.
		_, _ = b.updateTopic(t.GetName(), func(pb *pubsubpb.Topic) error {
			if set := pb.GetSchemaSettings(); set.GetSchema() == name {
				set = proto.CloneOf(set)
				set.Schema = deletedSchema
				pb.SchemaSettings = set
			}
			return nil
		})
	}
}
