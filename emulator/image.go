package emulator

import (
	"context"
	"slices"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"

	"github.com/batchfleet/batchfleet/journal"
)

// An image is the state of a broker as plain data, without locks and timers:
// what a journal is read into, and what a checkpoint is written from. One
// goroutine uses it.
type image struct {
	epoch  time.Time // zero until a record has it
	lastID uint64
	topics map[string]*topicImage
	subs   map[string]*subImage
	queues map[uint64]*subImage // the same, by instance
	snaps  map[string]*snapImage
	// schemas holds the revisions of each, oldest first.
	schemas map[string][]*pubsubpb.Schema
	bodies  map[uint64]*message // those of a checkpoint, by id
}

type topicImage struct {
	pb    *pubsubpb.Topic
	log   []*message
	subs  []*subImage
	snaps []*snapImage
}

type subImage struct {
	pb          *pubsubpb.Subscription
	settings    settings
	instance    uint64
	lastSeek    time.Duration
	last        uint64           // delivery
	copies      []item           // what it holds, in an image that is to be written
	items       map[uint64]*item // what it holds, in one that is being read, by id of the message
	outstanding map[uint64]*item // those leased, by the number of the delivery
}

type snapImage struct {
	pb   *pubsubpb.Snapshot
	msgs []*message
}

func newImage() *image {
	return &image{
		topics:  make(map[string]*topicImage),
		subs:    make(map[string]*subImage),
		queues:  make(map[uint64]*subImage),
		snaps:   make(map[string]*snapImage),
		schemas: make(map[string][]*pubsubpb.Schema),
		bodies:  make(map[uint64]*message),
	}
}

// image returns the state as it is. The caller holds all locks.
func (b *broker) image() *image {
	img := newImage()
	img.epoch, img.lastID = b.epoch, b.lastID.Load()
	for name, revisions := range b.schemas.all {
		img.schemas[name] = full(revisions)
	}
	for name, t := range b.topics {
		img.topics[name] = &topicImage{pb: t.pb, log: slices.Clone(t.log)}
	}
	for name, snap := range b.snapshots {
		img.snaps[name] = &snapImage{pb: snap.pb, msgs: slices.Clone(snap.msgs)}
	}
	for name, sub := range b.subs {
		q := sub.queue
		s := &subImage{pb: sub.pb, instance: q.instance, lastSeek: q.lastSeek, last: q.lastDelivery}
		s.copies = make([]item, 0, q.order.n+q.ackedItems.n)
		for _, l := range []*itemList{&q.order, &q.ackedItems} {
			for it := range l.all {
				s.copies = append(s.copies, item{msg: it.msg, state: it.state, deliveries: it.deliveries, due: it.due, ack: it.ack})
			}
		}
		img.subs[name] = s
	}
	return img
}

// write adds the records of the state to a checkpoint.
func (img *image) write(ctx context.Context, c *journal.Checkpoint) error {
	w := checkpointWriter{c: c, stopped: ctx.Err, bodies: make(map[uint64]struct{})}
	w.add(epochRecord(img.epoch))
	w.add(lastIDRecord(img.lastID))
	for name, revisions := range img.schemas {
		w.add(schemaRecord(name, revisions))
	}
	for _, t := range img.topics {
		w.add(topicRecord(t.pb, 0))
	}
	for _, s := range img.subs {
		w.add(subscriptionRecord(s.pb, s.instance, 0))
		w.queue(s)
	}
	for name, t := range img.topics {
		if len(t.log) > 0 {
			w.needs(t.log)
			r := newRecord(recLogged)
			r.string(name)
			r.ids(t.log)
			w.add(r)
		}
	}
	for _, snap := range img.snaps {
		w.needs(snap.msgs)
		w.add(snapshotTakenRecord(snap.pb, 0, snap.msgs))
	}
	return w.err
}

// A checkpointWriter adds records until one fails. Each body is written once,
// before the first record that refers to it.
type checkpointWriter struct {
	c       *journal.Checkpoint
	stopped func() error
	bodies  map[uint64]struct{}
	err     error
}

func (w *checkpointWriter) add(r recordWriter) {
	if w.err == nil {
		w.err = w.stopped()
	}
	if w.err == nil {
		w.err = w.c.Add(r)
	}
}

func (w *checkpointWriter) needs(msgs []*message) {
	for _, m := range msgs {
		if _, have := w.bodies[m.id]; have {
			continue
		}
		w.bodies[m.id] = struct{}{}
		r := newRecord(recBody)
		r.message(m)
		w.add(r)
	}
}

func (w *checkpointWriter) queue(s *subImage) {
	r := newRecord(recQueue)
	r.uint(s.instance)
	r.time(s.lastSeek)
	r.uint(s.last)
	w.add(r)
	for i := range s.copies {
		it := &s.copies[i]
		w.needs([]*message{it.msg})
		r := queueRecord(recItem, s.instance, it.msg.id)
		r.uint(uint64(it.state))
		r.uint(it.ack)
		r.time(it.due)
		r.uint(uint64(it.deliveries))
		w.add(r)
	}
}
