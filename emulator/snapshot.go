package emulator

import (
	"cmp"
	"context"
	"crypto/rand"
	"slices"
	"strings"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// A snapshot is the backlog of a subscription at one moment and everything
// published to its topic since.
type snapshot struct {
	pb    *pubsubpb.Snapshot // as topic.pb
	topic *topic             // nil once it is deleted; its lock guards msgs
	msgs  []*message         // in the order published
	end   *time.Timer        // deletes it when it expires
}

const (
	snapshotLife    = 7 * 24 * time.Hour // less the age of the oldest message in it
	minSnapshotLife = time.Hour
)

func (b *broker) createSnapshot(pb *pubsubpb.Snapshot, subscription string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.snapshots[pb.GetName()] != nil {
		return errExists(pb.GetName())
	}
	sub := b.subs[subscription]
	if sub == nil {
		return errNotFound(subscription)
	}
	if sub.topic == nil {
		return status.Errorf(codes.FailedPrecondition, "Subscription %s has no topic any more.", clip(subscription))
	}
	t := sub.topic
	t.mu.Lock() // nothing is published between the backlog and what follows it
	defer t.mu.Unlock()
	return sub.queue.backlog(func(msgs []*message, oldest time.Duration) error {
		life := snapshotLife - oldest
		if life < minSnapshotLife {
			return status.Errorf(codes.FailedPrecondition,
				"The oldest unacknowledged message of %s is %v old: a snapshot would expire in less than an hour.", clip(subscription), oldest.Round(time.Second))
		}
		pb.Topic = t.name
		pb.ExpireTime = timestamppb.New(time.Now().Add(life))
		snap := &snapshot{pb: pb, topic: t, msgs: msgs}
		b.snapshots[pb.GetName()] = snap
		t.snapshots = append(t.snapshots, snap)
		b.log.append(snapshotTakenRecord(pb, sub.queue.instance, msgs))
		b.watchExpiry(snap)
		return nil
	})
}

// watchExpiry sets the timer that deletes the snapshot when it expires. The caller
// holds b.mu.
func (b *broker) watchExpiry(snap *snapshot) {
	if snap.end != nil {
		snap.end.Stop()
	}
	snap.end = time.AfterFunc(time.Until(snap.pb.GetExpireTime().AsTime()), func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.snapshots[snap.pb.GetName()] == snap && !time.Now().Before(snap.pb.GetExpireTime().AsTime()) {
			b.removeSnapshot(snap)
		}
	})
}

// removeSnapshot deletes a snapshot. The caller holds b.mu.
func (b *broker) removeSnapshot(snap *snapshot) {
	name := snap.pb.GetName()
	delete(b.snapshots, name)
	b.log.deleted(recSnapshotDeleted, name)
	snap.end.Stop()
	if t := snap.topic; t != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.snapshots = slices.DeleteFunc(t.snapshots, func(other *snapshot) bool { return other == snap })
	}
}

func (b *broker) deleteSnapshot(name string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	snap := b.snapshots[name]
	if snap == nil {
		return errMissing(name, "snapshots")
	}
	b.removeSnapshot(snap)
	return nil
}

// snapshotFor returns the snapshot's configuration.
func (b *broker) snapshotFor(name string) (*pubsubpb.Snapshot, error) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	snap := b.snapshots[name]
	if snap == nil {
		return nil, errMissing(name, "snapshots")
	}
	return snap.pb, nil
}

// updateSnapshot applies change to a copy of the snapshot's configuration, which
// then replaces it.
func (b *broker) updateSnapshot(name string, change func(*pubsubpb.Snapshot) error) (*pubsubpb.Snapshot, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	snap := b.snapshots[name]
	if snap == nil {
		return nil, errNotFound(name)
	}
	pb := proto.CloneOf(snap.pb)
	if err := change(pb); err != nil {
		return nil, err
	}
	snap.pb = pb
	b.log.snapshot(pb)
	b.watchExpiry(snap)
	return pb, nil
}

// allSnapshots returns the configuration of every snapshot, in no order.
func (b *broker) allSnapshots() []*pubsubpb.Snapshot {
	return valuesOf(&b.mu, b.snapshots, func(snap *snapshot) *pubsubpb.Snapshot { return snap.pb })
}

// seek moves a subscription to a time or to a snapshot.
func (b *broker) seek(req *pubsubpb.SeekRequest) error {
	b.mu.RLock()
	defer b.mu.RUnlock()
	sub := b.subs[req.GetSubscription()]
	if sub == nil {
		return errNotFound(req.GetSubscription())
	}
	if why := sub.queue.whyClosed(); why != nil {
		return why
	}
	if req.GetSnapshot() == "" {
		to := req.GetTime().AsTime().Sub(b.epoch)
		sub.topic.retained(func(log []*message) { sub.queue.seekTime(to, log) })
		return nil
	}
	snap := b.snapshots[req.GetSnapshot()]
	switch {
	case snap == nil:
		return errNotFound(req.GetSnapshot())
	case snap.topic == nil || sub.topic == nil:
		// All deleted topics have one name, so names cannot be compared.
		return status.Errorf(codes.FailedPrecondition, "The topic of snapshot %s or of subscription %s is deleted.",
			clip(req.GetSnapshot()), clip(req.GetSubscription()))
	case snap.topic != sub.topic:
		return status.Errorf(codes.InvalidArgument, "Snapshot %s is of topic %s, subscription %s of topic %s.",
			clip(req.GetSnapshot()), clip(snap.pb.GetTopic()), clip(req.GetSubscription()), clip(sub.pb.GetTopic()))
	}
	sub.topic.retained(func([]*message) { sub.queue.seekSnapshot(snap.msgs) })
	return nil
}

func (p publisher) ListTopicSnapshots(_ context.Context, req *pubsubpb.ListTopicSnapshotsRequest) (*pubsubpb.ListTopicSnapshotsResponse, error) {
	if _, _, err := p.broker.topicFor(req.GetTopic()); err != nil {
		return nil, err
	}
	var names []string
	for _, snap := range p.broker.allSnapshots() {
		if snap.GetTopic() == req.GetTopic() {
			names = append(names, snap.GetName())
		}
	}
	part, next, err := page(names, func(s string) string { return s }, req)
	return &pubsubpb.ListTopicSnapshotsResponse{Snapshots: part, NextPageToken: next}, err
}

func (s subscriber) ListSnapshots(_ context.Context, req *pubsubpb.ListSnapshotsRequest) (*pubsubpb.ListSnapshotsResponse, error) {
	part, next, err := pageOf(req.GetProject(), s.broker.allSnapshots(), (*pubsubpb.Snapshot).GetName, req)
	return &pubsubpb.ListSnapshotsResponse{Snapshots: part, NextPageToken: next}, err
}

func (s subscriber) GetSnapshot(_ context.Context, req *pubsubpb.GetSnapshotRequest) (*pubsubpb.Snapshot, error) {
	return s.broker.snapshotFor(req.GetSnapshot())
}

// CreateSnapshot generates a name when the request has none.
func (s subscriber) CreateSnapshot(_ context.Context, req *pubsubpb.CreateSnapshotRequest) (*pubsubpb.Snapshot, error) {
	if err := checkName(req.GetSubscription(), "subscriptions"); err != nil {
		return nil, err
	}
	pb := &pubsubpb.Snapshot{Name: req.GetName(), Labels: req.GetLabels()}
	if pb.GetName() == "" {
		parts := strings.Split(req.GetSubscription(), "/")
		pb.Name = parts[0] + "/" + parts[1] + "/snapshots/snapshot-" + strings.ToLower(rand.Text())
	}
	if err := cmp.Or(checkName(pb.GetName(), "snapshots"), checkLabels(pb.GetLabels())); err != nil {
		return nil, err
	}
	return pb, s.broker.createSnapshot(pb, req.GetSubscription())
}

func (s subscriber) UpdateSnapshot(_ context.Context, req *pubsubpb.UpdateSnapshotRequest) (*pubsubpb.Snapshot, error) {
	from := req.GetSnapshot()
	if err := checkName(from.GetName(), "snapshots"); err != nil {
		return nil, err
	}
	paths, err := snapshotFields.maskPaths(req.GetUpdateMask(), from)
	if err != nil {
		return nil, err
	}
	return s.broker.updateSnapshot(from.GetName(), func(pb *pubsubpb.Snapshot) error {
		copyFields(pb, from, paths)
		if err := pb.GetExpireTime().CheckValid(); err != nil {
			return status.Errorf(codes.InvalidArgument, "invalid expire_time: %v", err)
		}
		if left := time.Until(pb.GetExpireTime().AsTime()); left <= 0 || left > snapshotLife {
			return status.Errorf(codes.InvalidArgument, "invalid expire_time: it must be in the next %v", snapshotLife)
		}
		return checkLabels(pb.GetLabels())
	})
}

func (s subscriber) DeleteSnapshot(_ context.Context, req *pubsubpb.DeleteSnapshotRequest) (*emptypb.Empty, error) {
	return &emptypb.Empty{}, s.broker.deleteSnapshot(req.GetSnapshot())
}

func (s subscriber) Seek(_ context.Context, req *pubsubpb.SeekRequest) (*pubsubpb.SeekResponse, error) {
	if err := checkName(req.GetSubscription(), "subscriptions"); err != nil {
		return nil, err
	}
	switch target := req.GetTarget().(type) {
	case *pubsubpb.SeekRequest_Time:
		if err := target.Time.CheckValid(); err != nil {
			return nil, status.Errorf(codes.InvalidArgument, "invalid time: %v", err)
		}
	case *pubsubpb.SeekRequest_Snapshot:
		if err := checkName(target.Snapshot, "snapshots"); err != nil {
			return nil, err
		}
	default:
		return nil, status.Error(codes.InvalidArgument, "a seek needs a time or a snapshot")
	}
	return &pubsubpb.SeekResponse{}, s.broker.seek(req)
}
