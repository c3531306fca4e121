package emulator

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"
)

// SubscriptionStats is what one subscription holds and has done.
type SubscriptionStats struct {
	Subscription string `json:"subscription"`
	Topic        string `json:"topic"`
	// Undelivered messages are those without a lease.
	Undelivered int `json:"undelivered"`
	// Leased messages were delivered and are not yet acknowledged; or they are, but
	// an earlier one of their ordering key is not.
	Leased int `json:"leased"`
	// OldestAgeSeconds is how long ago the oldest message, undelivered or leased, was
	// published; 0 when there is none.
	OldestAgeSeconds float64 `json:"oldest_age_seconds"`
	// WaitingPulls are the pulls and streams that wait for a message.
	WaitingPulls int `json:"waiting_pulls"`
	Counters
}

// Counters count messages, or deliveries of messages, since the subscription
// was created.
type Counters struct {
	Published   uint64 `json:"published"`
	Delivered   uint64 `json:"delivered"`
	Redelivered uint64 `json:"redelivered"` // of Delivered: not the message's first
	Acked       uint64 `json:"acked"`
	Nacked      uint64 `json:"nacked"`
	Expired     uint64 `json:"expired"` // leases
	Dropped     uint64 `json:"dropped"` // older than the retention
	// DeadLettered messages were published to the dead-letter topic.
	DeadLettered uint64 `json:"dead_lettered"`
}

// idle returns for how long the subscription has not been used, and its time to
// live, after which it is deleted; 0 means no end.
func (q *queue) idle() (idle, ttl time.Duration) {
	v := q.lock()
	defer v.unlock()
	if q.waiters.Len()+q.parked.Len() > 0 {
		q.lastActive = v.now
	}
	return v.now - q.lastActive, q.ttl
}

// stats returns the queue's part of the statistics.
func (q *queue) stats() SubscriptionStats {
	v := q.lock()
	defer v.unlock()
	s := SubscriptionStats{
		Undelivered:  q.order.n - len(q.outstanding),
		Leased:       len(q.outstanding),
		WaitingPulls: q.waiters.Len() + q.parked.Len(),
		Counters:     q.count,
	}
	if q.order.front != nil {
		s.OldestAgeSeconds = (v.now - q.order.front.msg.at).Seconds()
	}
	return s
}

// Stats returns the statistics of every subscription, sorted by name.
func (s *Server) Stats() []SubscriptionStats {
	subs := s.broker.allSubscriptions()
	all := make([]SubscriptionStats, 0, len(subs))
	for _, sub := range subs {
		st := sub.queue.stats()
		st.Subscription, st.Topic = sub.pb.GetName(), sub.pb.GetTopic()
		all = append(all, st)
	}
	slices.SortFunc(all, func(a, b SubscriptionStats) int {
		return strings.Compare(a.Subscription, b.Subscription)
	})
	return all
}

// serveStats answers with the statistics as a JSON array.
func (s *Server) serveStats(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	// Fails only when the client has left.
	_ = json.NewEncoder(w).Encode(s.Stats())
}
