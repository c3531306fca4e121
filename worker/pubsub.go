package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	pubsub "cloud.google.com/go/pubsub/v2/apiv1"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/api/option"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/batchfleet/batchfleet/jobs"
)

// PubSub is a [Source] over one Pub/Sub subscription, by unary pulls of one
// message each over one connection.
type PubSub struct {
	client       *pubsub.SubscriptionAdminClient
	subscription string // projects/P/subscriptions/S
	rules        Rules
	log          *slog.Logger
	grace        time.Duration // replyGrace; tests have more
	asked        atomic.Int64  // when the deadline was last asked for, in seconds since 1970
	deadline     atomic.Int64  // the subscription's ack deadline in nanoseconds; 0 if it may not be asked
}

// maxAckDeadline is the longest lease Pub/Sub gives.
const maxAckDeadline = 600 * time.Second

// reconnect says how a service that is away is looked for. gRPC would wait longer
// each time, up to two minutes, and calls fail until it has looked again.
var reconnect = grpc.ConnectParams{
	Backoff:           backoff.Config{BaseDelay: 500 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second},
	MinConnectTimeout: 10 * time.Second, // a SYN that is lost is sent again after 1, 3 and 7 s
}

// PubSubOptions returns the client options for the emulator at host, or for
// Google's own Pub/Sub with the usual credentials when host is empty.
func PubSubOptions(host string) ([]option.ClientOption, error) {
	opts := []option.ClientOption{
		// A dead network shows within 30 s instead of minutes: the leases of
		// running jobs depend on this one connection.
		option.WithGRPCDialOption(grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 20 * time.Second, Timeout: 10 * time.Second})),
		option.WithGRPCConnectionPool(1),
		option.WithGRPCDialOption(grpc.WithConnectParams(reconnect)),
	}
	if host == "" {
		return opts, nil
	}
	if scheme, _, found := strings.Cut(host, "://"); found {
		return nil, fmt.Errorf("PUBSUB_EMULATOR_HOST is %q: give host:port without %q", host, scheme+"://")
	}
	if _, port, err := net.SplitHostPort(host); err != nil || port == "" {
		return nil, fmt.Errorf("PUBSUB_EMULATOR_HOST is %q: give host:port", host)
	}
	return append(opts,
		option.WithEndpoint(host),
		option.WithoutAuthentication(),
		option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials()))), nil
}

var (
	subscriptionPattern = regexp.MustCompile(`^projects/[^/]+/subscriptions/[^/]+$`)
	topicPattern        = regexp.MustCompile(`^projects/[^/]+/topics/[^/]+$`)
	idPattern           = regexp.MustCompile(`^[A-Za-z0-9._~+%-]*$`) // Pub/Sub's rule for the characters of a name
)

// SubscriptionName returns the full name of a subscription that the given
// variable, which errors name, holds bare or in full.
func SubscriptionName(variable, project, name string) (string, error) {
	return fullName(variable, project, "subscriptions", name, subscriptionPattern)
}

// TopicName is SubscriptionName for a topic.
func TopicName(variable, project, name string) (string, error) {
	return fullName(variable, project, "topics", name, topicPattern)
}

func fullName(variable, project, collection, name string, full *regexp.Regexp) (string, error) {
	switch {
	case name == "":
		return "", fmt.Errorf("%s is empty", variable)
	case !idPattern.MatchString(name[strings.LastIndexByte(name, '/')+1:]):
		return "", fmt.Errorf("%s is %q: a name holds only letters, digits and - _ . ~ + %%", variable, name)
	case full.MatchString(name):
		return name, nil
	case strings.Contains(name, "/"):
		return "", fmt.Errorf("%s is %q: give a bare name or projects/PROJECT/%s/NAME", variable, name, collection)
	case project == "":
		return "", fmt.Errorf("%s is the bare name %q, so GCP_PROJECT_ID must be set", variable, name)
	}
	return "projects/" + project + "/" + collection + "/" + name, nil
}

// OpenPubSub returns a source over the subscription with the given full name.
// It does not wait for the service. Close it after use.
func OpenPubSub(ctx context.Context, subscription string, rules Rules, log *slog.Logger, opts ...option.ClientOption) (*PubSub, error) {
	client, err := pubsub.NewSubscriptionAdminClient(ctx, opts...)
	if err != nil {
		return nil, fmt.Errorf("open pub/sub: %w", err)
	}
	// Retries are the worker's: it knows what it holds and for how long.
	client.CallOptions = &pubsub.SubscriptionAdminCallOptions{}
	return &PubSub{client: client, subscription: subscription, rules: rules, log: log, grace: replyGrace}, nil
}

// Beside returns a source over another subscription on the same connection, which
// stays the first one's to close.
func (s *PubSub) Beside(subscription string) *PubSub {
	return &PubSub{client: s.client, subscription: subscription, rules: s.rules, log: s.log, grace: s.grace}
}

// Close closes the connection.
func (s *PubSub) Close() error { return s.client.Close() }

// Check reports the subscription's ack deadline, or 0 if the subscription may
// be pulled from but not looked at. While it is unknown, every lease is extended
// as soon as it is taken.
func (s *PubSub) Check(ctx context.Context) (ackDeadline time.Duration, err error) {
	sub, err := s.client.GetSubscription(ctx, &pubsubpb.GetSubscriptionRequest{Subscription: s.subscription})
	if status.Code(unwrapStatus(err)) == codes.PermissionDenied {
		return 0, nil // the subscriber role may pull but not look
	}
	if err != nil {
		return 0, translate("look at subscription "+s.subscription, err)
	}
	ackDeadline = time.Duration(sub.GetAckDeadlineSeconds()) * time.Second
	s.deadline.Store(int64(ackDeadline))
	return ackDeadline, nil
}

// replyGrace is how long a pull may still be answered after it was called off.
// Calling it off at once would leave a message whose reply is on its way leased
// to nobody until its deadline.
const replyGrace = 200 * time.Millisecond

// pulling returns a context for a pull of at most limit. It outlives ctx by
// grace.
func pulling(ctx context.Context, limit, grace time.Duration) (context.Context, context.CancelFunc) {
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(grace, cancel) })
	return call, func() { stop(); cancel() }
}

// Lease implements [Source]. A lease may come back although ctx has ended, if
// its reply was on the way already.
func (s *PubSub) Lease(ctx context.Context) (jobs.Lease, error) {
	s.learn(ctx)
	for ctx.Err() == nil {
		began := time.Now()
		message, err := s.pull(ctx)
		if message == nil {
			if err != nil {
				return jobs.Lease{}, err
			}
			// A server that answers empty at once must not make us spin.
			if wait := time.Second - time.Since(began); wait > 0 {
				if err := jobs.Sleep(ctx, wait); err != nil {
					return jobs.Lease{}, err
				}
			}
			continue
		}
		m := message.GetMessage()
		lease := jobs.Lease{
			ID: message.GetAckId(), Until: time.Now().Add(time.Duration(s.deadline.Load())), Delivery: int(message.GetDeliveryAttempt()),
			Raw: jobs.Raw{ID: m.GetMessageId(), Queue: s.subscription, Ack: message.GetAckId(), Data: m.GetData(), Attributes: m.GetAttributes()},
		}
		lease.Job, lease.Invalid = s.rules.decode(lease.Raw.Data, lease.Raw.Attributes)
		return lease, nil
	}
	return jobs.Lease{}, context.Cause(ctx)
}

// learn asks for the ack deadline while it is unknown, at most once a minute.
func (s *PubSub) learn(ctx context.Context) {
	now := time.Now().Unix()
	if last := s.asked.Load(); s.deadline.Load() != 0 || now-last < 60 || !s.asked.CompareAndSwap(last, now) {
		return
	}
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if _, err := s.Check(call); err != nil {
		s.log.DebugContext(ctx, "ack deadline unknown, leases are extended at once", "err", err)
	}
}

// pull asks for one message and returns nil without an error when there is none.
func (s *PubSub) pull(ctx context.Context) (*pubsubpb.ReceivedMessage, error) {
	// Long polls: each deadline that strikes while a reply is on its way orphans
	// a message for a whole lease. At random, so that a fleet does not pull in step.
	call, cancel := pulling(ctx, 60*time.Second+rand.N(30*time.Second), s.grace)
	defer cancel()
	reply, err := s.client.Pull(call, &pubsubpb.PullRequest{Subscription: s.subscription, MaxMessages: 1})
	if err != nil {
		if isDeadline(err) || ctx.Err() != nil {
			return nil, nil //nolint:nilnil // no message is not an error
		}
		return nil, translate("pull from "+s.subscription, err)
	}
	if len(reply.GetReceivedMessages()) == 0 {
		return nil, nil //nolint:nilnil // see above
	}
	return reply.GetReceivedMessages()[0], nil
}

// isDeadline reports whether a call ran out of time: a status from gRPC is not
// the context's own error.
func isDeadline(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || status.Code(err) == codes.DeadlineExceeded
}

// Extend implements [Source].
func (s *PubSub) Extend(ctx context.Context, leases []jobs.Lease, ttl time.Duration) (map[string]error, error) {
	ids := make([]string, len(leases))
	for i, l := range leases {
		ids[i] = l.ID
	}
	return s.modify(ctx, ids, ttl)
}

// Ack implements [Source].
func (s *PubSub) Ack(ctx context.Context, lease jobs.Lease) error {
	err := s.client.Acknowledge(ctx, &pubsubpb.AcknowledgeRequest{Subscription: s.subscription, AckIds: []string{lease.ID}})
	if err == nil || permanentFailures(err)[lease.ID] != nil {
		return nil //nolint:nilerr // a lease that is gone needs no ack
	}
	return translate("ack", err)
}

// Nack implements [Source]. Pub/Sub counts in whole seconds, up to 600.
func (s *PubSub) Nack(ctx context.Context, lease jobs.Lease, delay time.Duration) error {
	_, err := s.modify(ctx, []string{lease.ID}, delay)
	return err
}

// Return implements [Returner]. An ack id belongs to the subscription and not to the
// connection over which it came.
func (s *PubSub) Return(ctx context.Context, queue string, acks []string) error {
	err := s.client.ModifyAckDeadline(ctx, &pubsubpb.ModifyAckDeadlineRequest{Subscription: queue, AckIds: acks})
	if err == nil || len(permanentFailures(err)) == len(acks) {
		return nil // a lease that is gone needs no handing back
	}
	return translate("hand back leases of "+queue, err)
}

func (s *PubSub) modify(ctx context.Context, ids []string, d time.Duration) (map[string]error, error) {
	d = max(0, min(d, maxAckDeadline))
	secs := int32((d + time.Second - 1) / time.Second) //nolint:gosec // at most 600
	err := s.client.ModifyAckDeadline(ctx, &pubsubpb.ModifyAckDeadlineRequest{
		Subscription: s.subscription, AckIds: ids, AckDeadlineSeconds: secs,
	})
	if err == nil {
		return nil, nil
	}
	lost := permanentFailures(err)
	if len(lost) == len(ids) {
		return lost, nil
	}
	return lost, translate("modify ack deadline", err)
}

// permanentFailures returns the ack ids that a subscription with exactly-once
// delivery says are no longer valid: someone else has the message, or nobody.
func permanentFailures(err error) map[string]error {
	lost := map[string]error{}
	for _, d := range status.Convert(unwrapStatus(err)).Details() {
		info, ok := d.(*errdetails.ErrorInfo)
		if !ok {
			continue
		}
		for id, reason := range info.GetMetadata() {
			if strings.HasPrefix(reason, "PERMANENT_FAILURE") {
				lost[id] = errors.New(reason)
			}
		}
	}
	return lost
}

// unwrapStatus finds the gRPC status inside the client library's own error.
func unwrapStatus(err error) error {
	if e := (interface {
		error
		GRPCStatus() *status.Status
	})(nil); errors.As(err, &e) {
		return e.GRPCStatus().Err()
	}
	return err
}

// translate names what was done and whether a person must mend it.
func translate(what string, err error) error {
	switch status.Code(unwrapStatus(err)) {
	case codes.NotFound, codes.PermissionDenied, codes.Unauthenticated, codes.InvalidArgument:
		return fmt.Errorf("%s: %w: %w", what, ErrRefused, err)
	default:
		return fmt.Errorf("%s: %w: %w", what, jobs.ErrUnavailable, err)
	}
}
