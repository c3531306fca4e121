package emulator

import (
	"cmp"
	"slices"
	"time"
)

// seekTime makes what was published before the given time acknowledged and the
// rest not, among the messages that are still retained: by the queue itself, or
// in log, which is what the topic retains, in the order published.
func (q *queue) seekTime(to time.Duration, log []*message) {
	v := q.lock()
	defer v.unlock()
	if q.closed != nil {
		return
	}
	backlog, done := q.retained()
	all := append(backlog, done...)
	for _, m := range log {
		if q.matches(m) {
			all = append(all, m)
		}
	}
	all = inOrderOnce(all)
	first, _ := slices.BinarySearchFunc(all, to, func(m *message, to time.Duration) int { return cmp.Compare(m.at, to) })
	q.reset(v.now, all[first:], all[:first])
}

// seekSnapshot makes exactly the given messages, in the order published, those
// that are not acknowledged.
func (q *queue) seekSnapshot(msgs []*message) {
	v := q.lock()
	defer v.unlock()
	if q.closed != nil {
		return
	}
	backlog, done := q.retained()
	unacked := make([]*message, 0, len(msgs))
	for _, m := range msgs {
		if q.matches(m) {
			unacked = append(unacked, m)
		}
	}
	rest := slices.DeleteFunc(inOrderOnce(append(backlog, done...)), func(m *message) bool {
		_, found := slices.BinarySearchFunc(unacked, m.id, compareID)
		return found
	})
	q.reset(v.now, unacked, rest)
}

func compareID(m *message, id uint64) int { return cmp.Compare(m.id, id) }

// inOrderOnce sorts messages by publication and drops duplicates.
func inOrderOnce(msgs []*message) []*message {
	slices.SortFunc(msgs, func(a, b *message) int { return compareID(a, b.id) })
	return slices.CompactFunc(msgs, func(a, b *message) bool { return a.id == b.id })
}

// retained returns the messages not acknowledged, in the order published, and
// those that were acknowledged and are retained.
func (q *queue) retained() (backlog, done []*message) {
	backlog = make([]*message, 0, q.order.n)
	for it := range q.order.all {
		backlog = append(backlog, it.msg)
	}
	for it := range q.ackedItems.all {
		done = append(done, it.msg)
	}
	return backlog, done
}

// reset replaces all messages. Every lease ends, and the retention of every message
// starts again: what was sought must not be dropped before it is delivered.
func (q *queue) reset(now time.Duration, unacked, done []*message) {
	q.clear()
	q.lastSeek = now
	q.lastActive = now
	for _, m := range unacked {
		q.add(m)
	}
	if q.retainAcked {
		for _, m := range done {
			q.ackedItems.pushBack(&item{msg: m, state: acked})
		}
	} else {
		done = nil
	}
	q.recordReset(now, unacked, done)
}

// backlog calls f with the messages not acknowledged, in the order published,
// and the age of the oldest, 0 if there is none. Nothing is acknowledged meanwhile:
// a record of the messages must come before those of their acks.
func (q *queue) backlog(f func(msgs []*message, oldest time.Duration) error) error {
	v := q.lock()
	defer v.unlock()
	msgs, _ := q.retained()
	oldest := time.Duration(0)
	if len(msgs) > 0 {
		oldest = v.now - msgs[0].at
	}
	return f(msgs, oldest)
}
