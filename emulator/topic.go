package emulator

import (
	"slices"
	"sync"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
)

// A topic adds published messages to its queues, to its snapshots, and to its own
// log if it retains messages.
type topic struct {
	name  string
	epoch time.Time // where its clock starts, the broker's
	// pb is never changed, only replaced: one that was read under broker.mu stays
	// valid.
	pb *pubsubpb.Topic

	mu        sync.Mutex
	closed    bool // the topic is deleted
	queues    []*queue
	snapshots []*snapshot

	retention time.Duration // 0 if the topic retains nothing itself
	log       []*message    // what it retains, in the order published
	prune     *time.Timer   // drops what is too old
}

func newTopic(pb *pubsubpb.Topic, epoch time.Time) *topic {
	return &topic{name: pb.GetName(), epoch: epoch, pb: pb, retention: pb.GetMessageRetentionDuration().AsDuration()}
}

// deliver adds new messages to the queues, the snapshots and the log. The caller
// holds t.mu.
func (t *topic) deliver(msgs []*message) {
	for _, q := range t.queues {
		q.publish(msgs)
	}
	for _, snap := range t.snapshots {
		snap.msgs = append(snap.msgs, msgs...)
	}
	if t.retention > 0 {
		t.log = append(t.log, msgs...)
		t.dropOld()
	}
}

// retain changes how long the topic retains messages. What was too old until now
// stays dropped; record is called before anything else is published.
func (t *topic) retain(d time.Duration, record func(now time.Duration)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	record(t.dropOld())
	t.retention = d
	t.stopPruning() // the next message may be too old sooner
	t.dropOld()
}

// dropOld removes what is too old from the log, and sets the timer for the next
// message. The caller holds t.mu.
func (t *topic) dropOld() (now time.Duration) {
	now = time.Since(t.epoch)
	n := 0
	for n < len(t.log) && t.log[n].at+t.retention <= now {
		n++
	}
	switch {
	case n == len(t.log):
		t.log = nil
		t.stopPruning()
		return now
	case n > 0:
		clear(t.log[:n]) // so that the bodies can be freed
		t.log = t.log[n:]
	}
	if wait := t.log[0].at + t.retention - now; t.prune == nil {
		t.prune = time.AfterFunc(wait, func() {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.dropOld()
		})
	} else if n > 0 {
		t.prune.Reset(wait)
	}
	return now
}

// stopPruning ends the timer, for the next message to set it. The caller holds
// t.mu.
func (t *topic) stopPruning() {
	if t.prune != nil {
		t.prune.Stop()
		t.prune = nil
	}
}

// retained calls f with the messages the topic retains. None is published
// meanwhile. A nil topic retains nothing.
func (t *topic) retained(f func(log []*message)) {
	if t == nil {
		f(nil)
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.dropOld()
	f(t.log)
}

// attach adds a queue, which gets what is published from now on. record is called
// before anything is published.
func (t *topic) attach(q *queue, record func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	record()
	t.queues = append(t.queues, q)
}

func (t *topic) detach(q *queue) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.queues = slices.DeleteFunc(t.queues, func(other *queue) bool { return other == q })
}

// close ends the topic: nothing can be published any more.
func (t *topic) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	t.queues, t.snapshots, t.log = nil, nil, nil
	t.stopPruning()
}
