package emulator

import (
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/batchfleet/batchfleet/emulator/filter"
)

// settings are what a subscription's configuration asks of its queue.
type settings struct {
	lease     time.Duration // of a delivery, unless the puller says otherwise
	retention time.Duration // of a message, from its publication
	keep      bool          // acknowledged messages, until their retention ends
	ordered   bool          // messages of one ordering key, in order and to one puller at a time
	exact     bool          // an ack or extension that comes too late is an error
	filter    *filter.Filter
	dead      deadPolicy
	retry     retryPolicy
	ttl       time.Duration // of the subscription, without any activity; 0 for ever
}

// A deadPolicy says when a message is given up. The zero value never does.
type deadPolicy struct {
	topic       string
	maxAttempts int32
}

// A retryPolicy says how long a message that came back has to wait. The zero
// value says not at all.
type retryPolicy struct{ shortest, longest time.Duration }

// settingsOf reads a configuration that settleSubscription has completed. The
// error says what is wrong with its filter.
func settingsOf(pb *pubsubpb.Subscription) (settings, error) {
	s := settings{
		lease:     ackDeadline(pb),
		retention: pb.GetMessageRetentionDuration().AsDuration(),
		keep:      pb.GetRetainAckedMessages(),
		ordered:   pb.GetEnableMessageOrdering(),
		exact:     pb.GetEnableExactlyOnceDelivery(),
		ttl:       pb.GetExpirationPolicy().GetTtl().AsDuration(),
	}
	if text := pb.GetFilter(); text != "" {
		f, err := filter.Parse(text)
		if err != nil {
			return s, status.Errorf(codes.InvalidArgument, "invalid filter: %v", err)
		}
		s.filter = f
	}
	if p := pb.GetDeadLetterPolicy(); p != nil {
		s.dead = deadPolicy{p.GetDeadLetterTopic(), p.GetMaxDeliveryAttempts()}
	}
	if p := pb.GetRetryPolicy(); p != nil {
		s.retry = retryPolicy{p.GetMinimumBackoff().AsDuration(), p.GetMaximumBackoff().AsDuration()}
	}
	return s, nil
}

func ackDeadline(pb *pubsubpb.Subscription) time.Duration {
	return time.Duration(pb.GetAckDeadlineSeconds()) * time.Second
}

// wants reports whether the subscription's filter lets m through.
func (s *settings) wants(m *message) bool {
	return s.filter == nil || s.filter.Match(m.pb.GetAttributes())
}

// wait returns how long a message waits after so many deliveries: twice as long
// each time, from the shortest to the longest.
func (p retryPolicy) wait(deliveries int32) time.Duration {
	d := p.shortest
	for range deliveries - 1 {
		if d == 0 || d >= p.longest {
			break
		}
		d *= 2
	}
	return min(d, p.longest)
}

// spent reports whether a message has been delivered as often as it may be.
func (p deadPolicy) spent(deliveries int32) bool {
	return p.maxAttempts > 0 && deliveries >= p.maxAttempts
}
