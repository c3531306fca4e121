package emulator

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/batchfleet/batchfleet/emulator/schema"
)

// A schemaStore holds the schemas. Its methods may be called concurrently; the
// errors of those that requests call are gRPC statuses. Its lock is taken before
// the broker's, never while that is held.
type schemaStore struct {
	// changed, unless it is nil, is called with the revisions a schema has now,
	// oldest first, or nil when it is deleted. It is called under the lock, so the
	// calls are in order and must not call back. The slice is shared and must not
	// be changed.
	changed func(name string, revisions []*pubsubpb.Schema)

	mu sync.RWMutex
	// all has the revisions of each schema by name, oldest first, at least one.
	// The slices are never changed, only replaced: one that was read under mu stays
	// valid.
	all map[string][]*revision
}

func newSchemaStore() *schemaStore { return &schemaStore{all: make(map[string][]*revision)} }

// put replaces the revisions of a schema, or deletes it when there are none. The
// caller holds s.mu.
func (s *schemaStore) put(name string, revisions []*revision) {
	if len(revisions) == 0 {
		delete(s.all, name)
	} else {
		s.all[name] = revisions
	}
	if s.changed != nil {
		s.changed(name, full(revisions))
	}
}

// full returns the revisions with their definitions, nil for none.
func full(revisions []*revision) []*pubsubpb.Schema {
	var all []*pubsubpb.Schema
	for _, r := range revisions {
		all = append(all, r.pb)
	}
	return all
}

// create adds the first revision of a schema.
func (s *schemaStore) create(r *revision) (*pubsubpb.Schema, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all[r.pb.GetName()] != nil {
		return nil, errExists(r.pb.GetName())
	}
	if len(s.all) >= maxSchemas {
		return nil, status.Errorf(codes.ResourceExhausted, "Too many schemas: at most %d.", maxSchemas)
	}
	return r.pb, s.add(r)
}

// add sets the id and the time of a revision and makes it the latest, unless the
// schema has as many as it may have. The caller holds s.mu.
func (s *schemaStore) add(r *revision) error {
	before := s.all[r.pb.GetName()]
	if len(before) >= maxRevisions {
		return status.Errorf(codes.FailedPrecondition, "The schema has %d revisions, at most %d: delete one first.", len(before), maxRevisions)
	}
	for again := true; again; again = revisionIndex(before, r.pb.GetRevisionId()) >= 0 {
		r.pb.RevisionId = fmt.Sprintf("%08x", rand.Uint32()) // Google's form
	}
	at := time.Now()
	if n := len(before); n > 0 { // lists are in this order, so no two are alike
		if next := before[n-1].pb.GetRevisionCreateTime().AsTime().Add(1); at.Before(next) {
			at = next
		}
	}
	r.pb.RevisionCreateTime = timestamppb.New(at)
	s.put(r.pb.GetName(), append(slices.Clip(before), r))
	return nil
}

// revisions returns the revisions of a schema, oldest first.
func (s *schemaStore) revisions(name string) ([]*revision, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.all[name] == nil {
		return nil, errMissing(name, "schemas")
	}
	return s.all[name], nil
}

// find returns the latest revision of a schema, or the one named after an @.
func (s *schemaStore) find(name string) (*revision, error) {
	base, id, pinned := strings.Cut(name, "@")
	revisions, err := s.revisions(base)
	if err != nil {
		return nil, err
	}
	if !pinned {
		return revisions[len(revisions)-1], nil
	}
	i := revisionIndex(revisions, id)
	if i < 0 {
		return nil, errNotFound(name)
	}
	return revisions[i], nil
}

// commit adds a revision that is compatible with the latest.
func (s *schemaStore) commit(r *revision) (*pubsubpb.Schema, error) {
	for {
		latest, err := s.find(r.pb.GetName())
		if err != nil {
			return nil, err
		}
		if latest.pb.GetType() != r.pb.GetType() {
			return nil, status.Errorf(codes.InvalidArgument, "The type of a schema cannot be changed: it is %v, not %v.", latest.pb.GetType(), r.pb.GetType())
		}
		// Not under the lock: large definitions take a while.
		if err := schema.Compatible(r.pb.GetType(), latest.pb.GetDefinition(), r.pb.GetDefinition()); err != nil {
			return nil, status.Errorf(codes.InvalidArgument, "The definition cannot follow revision %s: %v", latest.pb.GetRevisionId(), err)
		}
		if done, err := s.follow(latest, r); done || err != nil {
			return r.pb, err
		}
	}
}

// follow adds r if latest is still the latest revision.
func (s *schemaStore) follow(latest, r *revision) (done bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	revisions := s.all[r.pb.GetName()]
	if len(revisions) == 0 || revisions[len(revisions)-1] != latest {
		return false, nil
	}
	return true, s.add(r)
}

// rollback adds a copy of an earlier revision as the latest.
func (s *schemaStore) rollback(name, id string) (*pubsubpb.Schema, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	revisions := s.all[name]
	i := revisionIndex(revisions, id)
	if i < 0 {
		return nil, errNotFound(name + "@" + id)
	}
	r := &revision{proto.CloneOf(revisions[i].pb), revisions[i].compiled}
	return r.pb, s.add(r)
}

// deleteRevision deletes a revision that is not the last one and that no topic
// names as an end of its range: the range would have no end then.
func (s *schemaStore) deleteRevision(name, id string, topics func() []*pubsubpb.Topic) (*pubsubpb.Schema, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	revisions := s.all[name]
	i := revisionIndex(revisions, id)
	if i < 0 {
		return nil, errNotFound(name + "@" + id)
	}
	if len(revisions) == 1 {
		return nil, status.Errorf(codes.InvalidArgument, "Cannot delete the last revision of %s. Please use DeleteSchema.", clip(name))
	}
	for _, t := range topics() {
		set := t.GetSchemaSettings()
		if set.GetSchema() == name && (set.GetFirstRevisionId() == id || set.GetLastRevisionId() == id) {
			return nil, status.Errorf(codes.FailedPrecondition, "Revision %s of %s is the first or last revision of topic %s.", id, clip(name), clip(t.GetName()))
		}
	}
	s.put(name, slices.Delete(slices.Clone(revisions), i, i+1))
	return revisions[i].pb, nil
}

// delete deletes a schema and calls deleted before another schema can have its
// name.
func (s *schemaStore) delete(name string, deleted func(name string)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all[name] == nil {
		return errMissing(name, "schemas")
	}
	s.put(name, nil)
	deleted(name)
	return nil
}

// restore adds schemas, all revisions of each, oldest first. It does not
// call changed. On an error nothing has changed.
func (s *schemaStore) restore(all []*pubsubpb.Schema) error {
	restored := make(map[string][]*revision)
	for _, pb := range all {
		name := pb.GetName()
		if err := checkName(name, "schemas"); err != nil {
			return fmt.Errorf("restore schema: %w", err)
		}
		compiled, err := compileSchema(pb)
		if err != nil {
			return fmt.Errorf("restore schema %s@%s: %w", name, pb.GetRevisionId(), err)
		}
		if pb.GetRevisionId() == "" || revisionIndex(restored[name], pb.GetRevisionId()) >= 0 {
			return fmt.Errorf("restore schema %s: revision id %q is empty or there twice", name, pb.GetRevisionId())
		}
		restored[name] = append(restored[name], &revision{pb, compiled})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.Copy(s.all, restored)
	return nil
}

// revisionIndex returns where the revision of an id is, or -1.
func revisionIndex(revisions []*revision, id string) int {
	return slices.IndexFunc(revisions, func(r *revision) bool { return r.pb.GetRevisionId() == id })
}
