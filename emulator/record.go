package emulator

import (
	"encoding/binary"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/protobuf/proto"
)

// A recordKind is the kind of a change. The numbers are on disk: they never change.
type recordKind byte

const (
	recEpoch               recordKind = 1  // where the broker's clock starts
	recTopic               recordKind = 2  // created or changed
	recTopicDeleted        recordKind = 3  // deleted
	recSubscription        recordKind = 4  // created, changed or detached
	recSubscriptionDeleted recordKind = 5  // deleted
	recSnapshot            recordKind = 6  // changed
	recSnapshotTaken       recordKind = 7  // created, with its messages
	recSnapshotDeleted     recordKind = 8  // deleted
	recSchema              recordKind = 9  // all revisions of one schema
	recPublished           recordKind = 10 // messages, to a topic
	recLeased              recordKind = 11 // a message was delivered
	recUndone              recordKind = 12 // a delivery does not count: it never arrived, or an earlier message of its key was returned
	recAcked               recordKind = 13
	recExtended            recordKind = 14
	recReturned            recordKind = 15 // by a nack
	recDeadLettered        recordKind = 16 // published to the dead-letter topic
	recReset               recordKind = 17 // a seek
	recAckedEarly          recordKind = 18 // acknowledged before an earlier message of its ordering key

	// Only in checkpoints:
	recBody   recordKind = 32 // a message that others refer to by its id
	recQueue  recordKind = 33 // a subscription's numbers
	recItem   recordKind = 34 // a message in a subscription
	recLogged recordKind = 35 // what a topic retains
	recLastID recordKind = 36 // the last id of a message, which may be deleted
)

// A recordWriter appends the fields of one record.
type recordWriter []byte

func newRecord(kind recordKind) recordWriter {
	return append(make(recordWriter, 0, 64), byte(kind))
}

func (w *recordWriter) uint(n uint64)        { *w = binary.AppendUvarint(*w, n) }
func (w *recordWriter) time(d time.Duration) { *w = binary.AppendVarint(*w, int64(d)) }
func (w *recordWriter) string(s string)      { w.uint(uint64(len(s))); *w = append(*w, s...) }
func (w *recordWriter) ids(msgs []*message) {
	w.uint(uint64(len(msgs)))
	last := uint64(0)
	for _, m := range msgs { // most are sorted: differences are short
		*w = binary.AppendVarint(*w, int64(m.id-last))
		last = m.id
	}
}

// proto appends a message of the API. One that was accepted can be marshaled.
func (w *recordWriter) proto(m proto.Message) {
	w.uint(uint64(proto.Size(m)))
	b, err := proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(*w, m)
	if err != nil {
		panic("emulator: " + err.Error())
	}
	*w = b
}

// message appends a published message and when that was.
func (w *recordWriter) message(m *message) {
	w.uint(m.id)
	w.time(m.at)
	w.proto(m.pb)
}

// epochRecord holds the start of a broker's clock.
func epochRecord(epoch time.Time) recordWriter {
	w := newRecord(recEpoch)
	w.time(time.Duration(epoch.UnixNano()))
	return w
}

func lastIDRecord(id uint64) recordWriter {
	w := newRecord(recLastID)
	w.uint(id)
	return w
}

// topicRecord also holds the time until which the earlier configuration was valid
// and dropped messages by its retention. Records of older versions do not.
func topicRecord(pb *pubsubpb.Topic, until time.Duration) recordWriter {
	w := newRecord(recTopic)
	w.proto(pb)
	w.time(until)
	return w
}

// deleted records that the resource of a name is deleted.
func (l *stableLog) deleted(kind recordKind, name string) {
	w := newRecord(kind)
	w.string(name)
	l.append(w)
}

// subscriptionRecord holds the time until which the earlier configuration was
// valid, as topicRecord does.
func subscriptionRecord(pb *pubsubpb.Subscription, instance uint64, until time.Duration) recordWriter {
	w := newRecord(recSubscription)
	w.uint(instance)
	w.proto(pb)
	w.time(until)
	return w
}

func (l *stableLog) snapshot(pb *pubsubpb.Snapshot) {
	w := newRecord(recSnapshot)
	w.proto(pb)
	l.append(w)
}

// snapshotTakenRecord names the queue the snapshot was taken of by its instance;
// 0 in a checkpoint, where the messages stand before it.
func snapshotTakenRecord(pb *pubsubpb.Snapshot, instance uint64, msgs []*message) recordWriter {
	w := newRecord(recSnapshotTaken)
	w.proto(pb)
	w.uint(instance)
	w.ids(msgs)
	return w
}

// schemaRecord holds all revisions of a schema; none mean that it is deleted.
func schemaRecord(name string, revisions []*pubsubpb.Schema) recordWriter {
	w := newRecord(recSchema)
	w.string(name)
	w.uint(uint64(len(revisions)))
	for _, pb := range revisions {
		w.proto(pb)
	}
	return w
}

func (l *stableLog) schema(name string, revisions []*pubsubpb.Schema) {
	l.append(schemaRecord(name, revisions))
}

func (l *stableLog) published(topic string, msgs []*message) {
	if l == nil {
		return
	}
	w := newRecord(recPublished)
	w.string(topic)
	w.uint(uint64(len(msgs)))
	for _, m := range msgs {
		w.message(m)
	}
	l.append(w)
}

// queueRecord begins the record of a change in the queue of an instance.
func queueRecord(kind recordKind, instance, n uint64) recordWriter {
	w := newRecord(kind)
	w.uint(instance)
	w.uint(n)
	return w
}

// record records a change in the queue. The caller holds q.mu, here and below, so
// that records are in the order of the changes.
func (q *queue) record(kind recordKind, n uint64, times ...time.Duration) {
	if q.log == nil {
		return
	}
	w := queueRecord(kind, q.instance, n)
	for _, t := range times {
		w.time(t)
	}
	q.log.append(w)
}

func (q *queue) recordLease(it *item) {
	if q.log == nil {
		return
	}
	w := queueRecord(recLeased, q.instance, it.ack)
	w.uint(it.msg.id)
	w.time(it.due)
	w.uint(uint64(it.deliveries))
	q.log.append(w)
}

func (q *queue) recordReset(at time.Duration, unacked, done []*message) {
	w := newRecord(recReset)
	w.uint(q.instance)
	w.time(at)
	w.ids(unacked)
	w.ids(done)
	q.log.append(w)
}
