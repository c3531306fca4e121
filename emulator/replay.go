package emulator

import (
	"fmt"
	"slices"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
)

// apply applies a record to the image. A record that refers to something that is
// not there, because a damaged journal has lost it, is ignored. The record is not
// used after apply returns.
func (img *image) apply(record []byte) error {
	if len(record) == 0 {
		return errShortRecord
	}
	kind, r := recordKind(record[0]), &recordReader{rest: record[1:]}
	if do := configurations[kind]; do != nil {
		do(img, r)
	} else if do := changes[kind]; do != nil {
		if s := img.queues[r.uint()]; s != nil {
			do(s, img, r)
		}
	} else {
		return fmt.Errorf("record of unknown kind %d", kind)
	}
	if r.err != nil {
		return fmt.Errorf("record of kind %d: %w", kind, r.err)
	}
	return nil
}

// configurations are what a record does to topics, subscriptions, snapshots and
// schemas as a whole.
var configurations = [1 << 8]func(*image, *recordReader){
	recEpoch:               (*image).begin,
	recTopic:               (*image).topic,
	recTopicDeleted:        (*image).topicDeleted,
	recSubscription:        (*image).subscription,
	recSubscriptionDeleted: (*image).subscriptionDeleted,
	recSnapshot:            (*image).snapshot,
	recSnapshotTaken:       (*image).snapshotTaken,
	recSnapshotDeleted:     (*image).snapshotDeleted,
	recSchema:              (*image).schema,
	recPublished:           (*image).published,
	recBody:                (*image).body,
	recLogged:              (*image).logged,
	recLastID:              (*image).lastMessageID,
}

func (img *image) begin(r *recordReader) {
	at := r.int()
	if r.err != nil {
		return
	}
	// With a monotonic reading, which a time from a file does not have.
	now := time.Now()
	img.epoch = now.Add(time.Duration(at - now.UnixNano()))
}

func (img *image) topic(r *recordReader) {
	pb := new(pubsubpb.Topic)
	if r.proto(pb); r.err != nil {
		return
	}
	if t := img.topics[pb.GetName()]; t != nil {
		t.drop(r.until())
		t.pb = pb
		return
	}
	img.topics[pb.GetName()] = &topicImage{pb: pb}
}

func (img *image) topicDeleted(r *recordReader) {
	name := r.string()
	t := img.topics[name]
	if t == nil {
		return
	}
	delete(img.topics, name)
	for _, s := range t.subs {
		s.pb.Topic = deletedTopic
	}
	for _, snap := range t.snaps {
		snap.pb.Topic = deletedTopic
	}
}

func (img *image) subscription(r *recordReader) {
	instance, pb := r.uint(), new(pubsubpb.Subscription)
	if r.proto(pb); r.err != nil {
		return
	}
	set, err := settingsOf(pb)
	if err != nil {
		r.err = err
		return
	}
	s := img.queues[instance]
	if s == nil {
		s = &subImage{instance: instance, items: make(map[uint64]*item), outstanding: make(map[uint64]*item)}
		img.subs[pb.GetName()] = s
		img.queues[instance] = s
		if t := img.topics[pb.GetTopic()]; t != nil && !pb.GetDetached() {
			t.subs = append(t.subs, s)
		}
	}
	s.drop(r.until())
	s.pb, s.settings = pb, set
	if pb.GetDetached() {
		img.detach(s)
		clear(s.items)
		clear(s.outstanding)
	}
	if !set.retainAcked {
		for id, it := range s.items {
			if it.state == acked {
				delete(s.items, id)
			}
		}
	}
}

// drop removes the messages whose retention has ended at a time.
func (t *topicImage) drop(now time.Duration) {
	retention := t.pb.GetMessageRetentionDuration().AsDuration()
	t.log = slices.DeleteFunc(t.log, func(m *message) bool { return m.at+retention <= now })
}

func (s *subImage) drop(now time.Duration) {
	for id, it := range s.items {
		if max(it.msg.at, s.lastSeek)+s.settings.retention <= now {
			delete(s.items, id)
			delete(s.outstanding, it.ack)
		}
	}
}

func (img *image) detach(s *subImage) {
	if t := img.topics[s.pb.GetTopic()]; t != nil {
		t.subs = slices.DeleteFunc(t.subs, func(other *subImage) bool { return other == s })
	}
}

func (img *image) subscriptionDeleted(r *recordReader) {
	name := r.string()
	if s := img.subs[name]; s != nil {
		img.detach(s)
		delete(img.subs, name)
		delete(img.queues, s.instance)
	}
}

func (img *image) snapshot(r *recordReader) {
	pb := new(pubsubpb.Snapshot)
	if r.proto(pb); r.err != nil {
		return
	}
	if snap := img.snaps[pb.GetName()]; snap != nil {
		snap.pb = pb
	}
}

func (img *image) snapshotTaken(r *recordReader) {
	pb := new(pubsubpb.Snapshot)
	r.proto(pb)
	source := img.queues[r.uint()] // none in a checkpoint
	ids := r.ids()
	if r.err != nil {
		return
	}
	snap := &snapImage{pb: pb, msgs: img.find(ids, source, pb.GetTopic())}
	img.snaps[pb.GetName()] = snap
	if t := img.topics[pb.GetTopic()]; t != nil {
		t.snaps = append(t.snaps, snap)
	}
}

func (img *image) snapshotDeleted(r *recordReader) {
	name := r.string()
	snap := img.snaps[name]
	if snap == nil {
		return
	}
	delete(img.snaps, name)
	if t := img.topics[snap.pb.GetTopic()]; t != nil {
		t.snaps = slices.DeleteFunc(t.snaps, func(other *snapImage) bool { return other == snap })
	}
}

func (img *image) schema(r *recordReader) {
	name, n := r.string(), r.uint()
	var revisions []*pubsubpb.Schema
	for range n {
		pb := new(pubsubpb.Schema)
		if r.proto(pb); r.err != nil {
			return
		}
		revisions = append(revisions, pb)
	}
	if len(revisions) == 0 {
		delete(img.schemas, name)
	} else {
		img.schemas[name] = revisions
	}
}

func (img *image) published(r *recordReader) {
	t := img.topics[r.string()]
	n := r.uint()
	for range n {
		m := r.message()
		if r.err != nil {
			return
		}
		img.lastID = max(img.lastID, m.id)
		if t == nil {
			continue
		}
		for _, s := range t.subs {
			if s.settings.matches(m) {
				s.items[m.id] = &item{msg: m, state: available}
			}
		}
		for _, snap := range t.snaps {
			snap.msgs = append(snap.msgs, m)
		}
		if t.pb.GetMessageRetentionDuration() != nil {
			t.log = append(t.log, m)
		}
	}
}

func (img *image) body(r *recordReader) {
	if m := r.message(); r.err == nil {
		img.bodies[m.id] = m
		img.lastID = max(img.lastID, m.id)
	}
}

func (img *image) lastMessageID(r *recordReader) { img.lastID = max(img.lastID, r.uint()) }

func (img *image) logged(r *recordReader) {
	t := img.topics[r.string()]
	if ids := r.ids(); t != nil {
		t.log = img.find(ids, nil, t.pb.GetName())
	}
}

// find returns the messages of the given ids, wherever they are: in the
// checkpoint, in the subscription, if there is one, or in what its topic or a
// snapshot retains.
func (img *image) find(ids []uint64, s *subImage, topic string) []*message {
	var retained [][]*message
	if t := img.topics[topic]; t != nil {
		retained = append(retained, t.log)
	}
	for _, snap := range img.snaps {
		retained = append(retained, snap.msgs)
	}
	msgs := make([]*message, 0, len(ids))
	for _, id := range ids {
		if s != nil && s.items[id] != nil {
			msgs = append(msgs, s.items[id].msg)
			continue
		}
		if m := img.bodies[id]; m != nil {
			msgs = append(msgs, m)
			continue
		}
		for _, list := range retained {
			if i, found := slices.BinarySearchFunc(list, id, compareID); found {
				msgs = append(msgs, list[i])
				break
			}
		}
	}
	return msgs
}
