package emulator

import (
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// A broker holds the topics, the subscriptions and the snapshots. Its methods
// may be called concurrently; their errors are gRPC statuses.
//
// Locks are taken in this order: schemas, broker, topic, queue.
type broker struct {
	epoch  time.Time     // where its clock starts
	lastID atomic.Uint64 // of a message
	log    *stableLog    // nil without a data directory
	load   *load

	schemas *schemaStore

	mu        sync.RWMutex
	topics    map[string]*topic
	subs      map[string]*subscription
	snapshots map[string]*snapshot
}

// A subscription is a queue and its configuration.
type subscription struct {
	pb    *pubsubpb.Subscription // as topic.pb
	topic *topic                 // nil once the topic is deleted or the subscription detached
	queue *queue
	end   *time.Timer // checks whether it has been idle for too long; nil if it never expires
}

func newBroker() *broker {
	b := &broker{
		epoch:     time.Now(),
		load:      newLoad(),
		schemas:   newSchemaStore(),
		topics:    make(map[string]*topic),
		subs:      make(map[string]*subscription),
		snapshots: make(map[string]*snapshot),
	}
	// Message ids rise across restarts: consumers may remember them.
	b.lastID.Store(uint64(b.epoch.UnixMicro()))
	return b
}

func (b *broker) createTopic(pb *pubsubpb.Topic) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.topics[pb.GetName()] != nil {
		return errExists(pb.GetName())
	}
	b.topics[pb.GetName()] = newTopic(pb, b.epoch)
	b.log.append(topicRecord(pb, 0))
	return nil
}

// topicFor returns the topic and its configuration.
func (b *broker) topicFor(name string) (*topic, *pubsubpb.Topic, error) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	t := b.topics[name]
	if t == nil {
		return nil, nil, errMissing(name, "topics")
	}
	return t, t.pb, nil
}

// updateTopic applies change to a copy of the topic's configuration, which then
// replaces it.
func (b *broker) updateTopic(name string, change func(*pubsubpb.Topic) error) (*pubsubpb.Topic, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.topics[name]
	if t == nil {
		return nil, errNotFound(name)
	}
	pb := proto.CloneOf(t.pb)
	if err := change(pb); err != nil {
		return nil, err
	}
	t.pb = pb
	t.retain(pb.GetMessageRetentionDuration().AsDuration(), func(now time.Duration) { b.log.append(topicRecord(pb, now)) })
	return pb, nil
}

// deleteTopic deletes the topic. Its subscriptions and snapshots keep their
// messages.
func (b *broker) deleteTopic(name string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.topics[name]
	if t == nil {
		return errMissing(name, "topics")
	}
	delete(b.topics, name)
	t.close()
	b.log.deleted(recTopicDeleted, name)
	for _, sub := range b.subs {
		pb := proto.CloneOf(sub.pb)
		if sub.topic == t {
			sub.topic = nil
			pb.Topic = deletedTopic
		}
		if p := pb.GetDeadLetterPolicy(); p.GetDeadLetterTopic() == name {
			p.DeadLetterTopic = deletedTopic
		}
		if !proto.Equal(pb, sub.pb) {
			if err := b.configure(sub, pb); err != nil {
				return err
			}
		}
	}
	for _, snap := range b.snapshots {
		if snap.topic == t {
			snap.topic = nil
			snap.pb = proto.CloneOf(snap.pb)
			snap.pb.Topic = deletedTopic
			b.log.snapshot(snap.pb)
		}
	}
	return nil
}

// publish sets the ids and the publish time of msgs and adds them to every
// subscription of the topic. The caller must not use msgs any more.
func (b *broker) publish(t *topic, msgs []*pubsubpb.PubsubMessage) ([]string, error) {
	ids := make([]string, len(msgs))
	all := make([]*message, len(msgs))

	// Under the topic's lock all its queues see the messages in one order, which
	// is that of their ids.
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, errNotFound(t.name)
	}
	at := time.Now()
	stamp := timestamppb.New(at)
	last := b.lastID.Add(uint64(len(msgs)))
	for i, pb := range msgs {
		id := last - uint64(len(msgs)-1-i)
		ids[i] = strconv.FormatUint(id, 10)
		pb.MessageId, pb.PublishTime = ids[i], stamp
		all[i] = &message{pb: pb, id: id, size: messageSize(pb), at: at.Sub(b.epoch)}
	}
	b.log.published(t.name, all)
	t.deliver(all)
	return ids, nil
}

func (b *broker) createSubscription(pb *pubsubpb.Subscription) error {
	s, err := settingsOf(pb)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.subs[pb.GetName()] != nil {
		return errExists(pb.GetName())
	}
	t := b.topics[pb.GetTopic()]
	if t == nil {
		return errNotFound(pb.GetTopic())
	}
	if err := b.checkDeadLetterTopic(pb); err != nil {
		return err
	}
	pb.TopicMessageRetentionDuration = t.pb.GetMessageRetentionDuration()
	sub := &subscription{pb: pb, topic: t, queue: b.newQueue(s, pb.GetName())}
	b.subs[pb.GetName()] = sub
	t.attach(sub.queue, func() { b.log.append(subscriptionRecord(pb, sub.queue.instance, 0)) })
	b.watchIdle(sub)
	return nil
}

// checkDeadLetterTopic returns an error unless the dead-letter topic of pb, if
// it has one, exists. The caller holds b.mu.
func (b *broker) checkDeadLetterTopic(pb *pubsubpb.Subscription) error {
	name := pb.GetDeadLetterPolicy().GetDeadLetterTopic()
	if name != "" && name != deletedTopic && b.topics[name] == nil {
		return errNotFound(name)
	}
	return nil
}

// newQueue returns a queue with the broker's clock, journal and dead-letter topics.
func (b *broker) newQueue(s settings, name string) *queue {
	q := newQueue(b.epoch, s)
	q.load = b.load
	q.log = b.log
	q.publishDeadLetter = func(m *message, deliveries int32) error { return b.publishDeadLetter(q, name, m, deliveries) }
	return q
}

// subscriptionFor returns a copy of the subscription as it is now.
func (b *broker) subscriptionFor(name string) (subscription, error) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	sub := b.subs[name]
	if sub == nil {
		return subscription{}, errMissing(name, "subscriptions")
	}
	return *sub, nil
}

// updateSubscription applies change to a copy of the subscription's configuration,
// which then replaces it.
func (b *broker) updateSubscription(name string, change func(*pubsubpb.Subscription) error) (*pubsubpb.Subscription, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	sub := b.subs[name]
	if sub == nil {
		return nil, errNotFound(name)
	}
	pb := proto.CloneOf(sub.pb)
	if err := change(pb); err != nil {
		return nil, err
	}
	if err := b.checkDeadLetterTopic(pb); err != nil {
		return nil, err
	}
	if err := b.configure(sub, pb); err != nil {
		return nil, err
	}
	b.watchIdle(sub)
	return pb, nil
}

// configure gives the subscription another configuration. The caller holds
// b.mu.
func (b *broker) configure(sub *subscription, pb *pubsubpb.Subscription) error {
	s, err := settingsOf(pb)
	if err != nil {
		return err
	}
	sub.pb = pb
	sub.queue.configure(s, func(now time.Duration) { b.log.append(subscriptionRecord(pb, sub.queue.instance, now)) })
	return nil
}

// deleteSubscription ends every pull from it.
func (b *broker) deleteSubscription(name string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	sub := b.subs[name]
	if sub == nil {
		return errMissing(name, "subscriptions")
	}
	b.removeSubscription(sub)
	return nil
}

// removeSubscription deletes a subscription. The caller holds b.mu.
func (b *broker) removeSubscription(sub *subscription) {
	name := sub.pb.GetName()
	delete(b.subs, name)
	b.log.deleted(recSubscriptionDeleted, name)
	b.detach(sub)
	sub.queue.close(errNotFound(name))
	if sub.end != nil {
		sub.end.Stop()
	}
}

// detachSubscription keeps the subscription's name and drops its messages.
func (b *broker) detachSubscription(name string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	sub := b.subs[name]
	if sub == nil {
		return errMissing(name, "subscriptions")
	}
	b.detach(sub)
	sub.pb = proto.CloneOf(sub.pb)
	sub.pb.Detached = true
	sub.queue.close(errDetached(name))
	b.log.append(subscriptionRecord(sub.pb, sub.queue.instance, 0))
	return nil
}

// detach removes the subscription's queue from its topic. The caller holds b.mu.
func (b *broker) detach(sub *subscription) {
	if sub.topic != nil {
		sub.topic.detach(sub.queue)
		sub.topic = nil
	}
}

// watchIdle sets the timer that deletes the subscription when it has not been used
// for the time to live of its expiration policy. The caller holds b.mu.
func (b *broker) watchIdle(sub *subscription) {
	if sub.end != nil {
		sub.end.Stop()
		sub.end = nil
	}
	if idle, ttl := sub.queue.idle(); ttl > 0 {
		sub.end = time.AfterFunc(ttl-idle, func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			if b.subs[sub.pb.GetName()] != sub {
				return
			}
			if idle, ttl := sub.queue.idle(); ttl > 0 && idle >= ttl {
				b.removeSubscription(sub)
				return
			}
			b.watchIdle(sub)
		})
	}
}

// allTopics returns the configuration of every topic, in no order.
func (b *broker) allTopics() []*pubsubpb.Topic {
	return valuesOf(&b.mu, b.topics, func(t *topic) *pubsubpb.Topic { return t.pb })
}

// allSubscriptions returns a copy of every subscription, in no order.
func (b *broker) allSubscriptions() []subscription {
	return valuesOf(&b.mu, b.subs, func(sub *subscription) subscription { return *sub })
}

// valuesOf returns, with mu locked, f of every value of m.
func valuesOf[V, T any](mu *sync.RWMutex, m map[string]V, f func(V) T) []T {
	mu.RLock()
	defer mu.RUnlock()
	all := make([]T, 0, len(m))
	for _, v := range m {
		all = append(all, f(v))
	}
	return all
}

// messageSize returns what a message counts against the limits.
func messageSize(m *pubsubpb.PubsubMessage) int {
	n := len(m.GetData()) + len(m.GetOrderingKey())
	for k, v := range m.GetAttributes() {
		n += len(k) + len(v)
	}
	return n
}
