package emulator

import (
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/batchfleet/batchfleet/emulator/filter"
)

// settings are the parts of a subscription's configuration that its queue needs.
type settings struct {
	lease            time.Duration // of a delivery, unless the puller sets one
	retention        time.Duration // of a message, from its publication
	retainAcked      bool          // acknowledged messages, until their retention ends
	ordered          bool          // messages of one ordering key, in order and to one puller at a time
	exact            bool          // an ack or extension that comes too late is an error
	filter           filter.Filter
	deadLetterPolicy deadLetterPolicy
	retry            retryPolicy
	ttl              time.Duration // of the subscription, without any activity; 0 means no end
}

// A deadLetterPolicy limits the delivery attempts of a message. The zero value has
// no limit.
type deadLetterPolicy struct {
	topic       string
	maxAttempts int32
}

// A retryPolicy is the delay before a message is delivered again. The zero value
// has none.
type retryPolicy struct{ shortest, longest time.Duration }

// settingsOf reads a configuration that completeSubscription has completed. The
// error is that of its filter.
func settingsOf(pb *pubsubpb.Subscription) (settings, error) {
	f, err := filter.Parse(pb.GetFilter())
	if err != nil {
		return settings{}, status.Errorf(codes.InvalidArgument, "invalid filter: %v", err)
	}
	s := settings{
		filter:      f,
		lease:       ackDeadline(pb),
		retention:   pb.GetMessageRetentionDuration().AsDuration(),
		retainAcked: pb.GetRetainAckedMessages(),
		ordered:     pb.GetEnableMessageOrdering(),
		exact:       pb.GetEnableExactlyOnceDelivery(),
		ttl:         pb.GetExpirationPolicy().GetTtl().AsDuration(),
	}
	if p := pb.GetDeadLetterPolicy(); p != nil {
		s.deadLetterPolicy = deadLetterPolicy{p.GetDeadLetterTopic(), p.GetMaxDeliveryAttempts()}
	}
	if p := pb.GetRetryPolicy(); p != nil {
		s.retry = retryPolicy{p.GetMinimumBackoff().AsDuration(), p.GetMaximumBackoff().AsDuration()}
	}
	return s, nil
}

func ackDeadline(pb *pubsubpb.Subscription) time.Duration {
	return time.Duration(pb.GetAckDeadlineSeconds()) * time.Second
}

// matches reports whether m passes the subscription's filter.
func (s *settings) matches(m *message) bool {
	return s.filter.Match(m.pb.GetAttributes())
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

// exhausted reports whether a message has used up its delivery attempts.
func (p deadLetterPolicy) exhausted(deliveries int32) bool {
	return p.maxAttempts > 0 && deliveries >= p.maxAttempts
}
