package emulator

import (
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// A broker holds the topics and the subscriptions. Its methods may be called
// concurrently; their errors are gRPC statuses.
type broker struct {
	epoch  time.Time     // where its clock starts
	lastID atomic.Uint64 // of a message

	mu     sync.RWMutex
	topics map[string]*topic
	subs   map[string]*subscription
}

// A topic hands what is published to its queues.
type topic struct {
	// pb is never changed, only replaced: who has read it under broker.mu may
	// keep it.
	pb *pubsubpb.Topic

	mu     sync.Mutex // keeps the order of messages the same in all queues
	queues []*queue
}

// A subscription is a queue and what was asked of it.
type subscription struct {
	pb    *pubsubpb.Subscription // as topic.pb
	topic *topic                 // nil once the topic is deleted or the subscription detached
	queue *queue
}

func newBroker() *broker {
	b := &broker{
		epoch:  time.Now(),
		topics: make(map[string]*topic),
		subs:   make(map[string]*subscription),
	}
	// Message ids go on rising over a restart: consumers may remember them.
	b.lastID.Store(uint64(b.epoch.UnixMicro()))
	return b
}

func (b *broker) createTopic(pb *pubsubpb.Topic) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.topics[pb.GetName()] != nil {
		return errExists(pb.GetName())
	}
	b.topics[pb.GetName()] = &topic{pb: pb}
	return nil
}

// topicFor returns the topic and what it is configured to be.
func (b *broker) topicFor(name string) (*topic, *pubsubpb.Topic, error) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	t := b.topics[name]
	if t == nil {
		return nil, nil, errNotFound(name)
	}
	return t, t.pb, nil
}

// updateTopic replaces the topic's configuration by what change makes of a
// copy.
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
	return pb, nil
}

// deleteTopic leaves the topic's subscriptions with the messages they have.
func (b *broker) deleteTopic(name string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.topics[name]
	if t == nil {
		return errNotFound(name)
	}
	delete(b.topics, name)
	for _, sub := range b.subs {
		if sub.topic == t {
			b.separate(sub)
			sub.pb = proto.CloneOf(sub.pb)
			sub.pb.Topic = deletedTopic
		}
	}
	return nil
}

// publish gives msgs ids and a time and hands them to every subscription of the
// topic. It takes msgs over.
func (b *broker) publish(t *topic, msgs []*pubsubpb.PubsubMessage) []string {
	at := time.Now()
	stamp := timestamppb.New(at)
	last := b.lastID.Add(uint64(len(msgs)))
	ids := make([]string, len(msgs))
	all := make([]*message, len(msgs))
	for i, pb := range msgs {
		ids[i] = strconv.FormatUint(last-uint64(len(msgs)-1-i), 10)
		pb.MessageId, pb.PublishTime = ids[i], stamp
		all[i] = &message{pb: pb, size: messageSize(pb), at: at.Sub(b.epoch)}
	}

	t.mu.Lock()
	defer t.mu.Unlock()
	for _, q := range t.queues {
		q.publish(all)
	}
	return ids
}

func (b *broker) createSubscription(pb *pubsubpb.Subscription) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.subs[pb.GetName()] != nil {
		return errExists(pb.GetName())
	}
	t := b.topics[pb.GetTopic()]
	if t == nil {
		return errNotFound(pb.GetTopic())
	}
	q := newQueue(b.epoch, ackDeadline(pb), pb.GetMessageRetentionDuration().AsDuration())
	b.subs[pb.GetName()] = &subscription{pb: pb, topic: t, queue: q}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.queues = append(t.queues, q)
	return nil
}

// subscriptionFor returns a copy of the subscription as it is now.
func (b *broker) subscriptionFor(name string) (subscription, error) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	sub := b.subs[name]
	if sub == nil {
		return subscription{}, errNotFound(name)
	}
	return *sub, nil
}

// updateSubscription replaces the subscription's configuration by what change
// makes of a copy.
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
	sub.pb = pb
	sub.queue.configure(ackDeadline(pb), pb.GetMessageRetentionDuration().AsDuration())
	return pb, nil
}

// deleteSubscription ends every pull from it.
func (b *broker) deleteSubscription(name string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	sub := b.subs[name]
	if sub == nil {
		return errNotFound(name)
	}
	delete(b.subs, name)
	b.separate(sub)
	sub.queue.close(errSubscriptionDeleted)
	return nil
}

// detachSubscription keeps the subscription's name and drops its messages.
func (b *broker) detachSubscription(name string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	sub := b.subs[name]
	if sub == nil {
		return errNotFound(name)
	}
	b.separate(sub)
	sub.pb = proto.CloneOf(sub.pb)
	sub.pb.Detached = true
	sub.queue.close(errSubscriptionDetached)
	return nil
}

// separate takes the subscription's queue away from its topic. The caller holds
// b.mu.
func (b *broker) separate(sub *subscription) {
	if sub.topic == nil {
		return
	}
	sub.topic.mu.Lock()
	defer sub.topic.mu.Unlock()
	sub.topic.queues = slices.DeleteFunc(sub.topic.queues, func(q *queue) bool { return q == sub.queue })
	sub.topic = nil
}

// allTopics returns the configuration of every topic, in no order.
func (b *broker) allTopics() []*pubsubpb.Topic {
	b.mu.RLock()
	defer b.mu.RUnlock()
	all := make([]*pubsubpb.Topic, 0, len(b.topics))
	for t := range maps.Values(b.topics) {
		all = append(all, t.pb)
	}
	return all
}

// allSubscriptions returns a copy of every subscription, in no order.
func (b *broker) allSubscriptions() []subscription {
	b.mu.RLock()
	defer b.mu.RUnlock()
	all := make([]subscription, 0, len(b.subs))
	for sub := range maps.Values(b.subs) {
		all = append(all, *sub)
	}
	return all
}

func ackDeadline(pb *pubsubpb.Subscription) time.Duration {
	return time.Duration(pb.GetAckDeadlineSeconds()) * time.Second
}

// messageSize returns what a message counts against the limits.
func messageSize(m *pubsubpb.PubsubMessage) int {
	n := len(m.GetData()) + len(m.GetOrderingKey())
	for k, v := range m.GetAttributes() {
		n += len(k) + len(v)
	}
	return n
}
