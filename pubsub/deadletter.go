package pubsub

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/worker"
)

// DeadLetter is a message that was given up, and why. Anyone who may publish to the
// topic can write one, so nothing in it can be trusted.
type DeadLetter struct {
	// Job is what the message asks for, read as a worker would read it. It has
	// no ID when the message names none.
	Job     jobs.Job
	Data    []byte
	Message map[string]string // the attributes it came with
	// Cut is how long the data was, if the dead letter holds only its beginning; 0
	// if it is whole.
	Cut int

	Cause     string // "failed", "malformed", or "unknown" for what others have put there
	Reason    string
	At        time.Time // when it was given up
	Queue     string    // the subscription that the message was taken from
	MessageID string    // of the message, not of the dead letter
	Attempt   int       // starts of the job

	lease string // held by the reader that collected it
}

// messagePrefix begins the name of a dead letter without a job. A job id never
// holds a colon.
const messagePrefix = "message:"

// Name is what people call the dead letter: the job id, or "message:" and the id of
// the message when it names no job. Dead letters of one job have one name.
func (l DeadLetter) Name() string {
	if l.Job.ID != "" {
		return string(l.Job.ID)
	}
	return messagePrefix + l.MessageID
}

// CheckDeadLetterName returns an error unless s can be the name of a dead letter.
func CheckDeadLetterName(s string) error {
	if id, ok := strings.CutPrefix(s, messagePrefix); ok {
		if id == "" || len(id) > maxAttributeValue || strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
			return fmt.Errorf("%.80q is not %s and the id of a message", s, messagePrefix)
		}
		return nil
	}
	_, err := jobs.ParseID(s)
	return err
}

// The attributes of a dead letter, beside those of the message.
const (
	deadPrefix     = "dead_"
	deadCause      = "dead_cause"
	deadReason     = "dead_reason"
	deadJobID      = "dead_job_id"
	deadKind       = "dead_kind"
	deadAt         = "dead_failed_at"
	deadQueue      = "dead_subscription"
	deadMessageID  = "dead_message_id"
	deadAttempt    = "dead_attempts"
	deadDelivery   = "dead_delivery"
	deadCut        = "dead_data_bytes"         // only when the data was cut
	deadLeftOut    = "dead_attributes_omitted" // only when some were left out
	maxDeadFields  = 11
	causeUnknown   = "unknown"
	policyPrefix   = "CloudPubSubDeadLetter" // what Pub/Sub's own dead letter policy adds
	policyQueue    = "CloudPubSubDeadLetterSourceSubscription"
	reservedPrefix = "goog" // only Google may publish these
)

// Pub/Sub's limits on a message: a dead letter that broke one could never be
// published, and its message would come again without end.
const (
	maxAttributes     = 100
	maxAttributeValue = 1024
	maxMessageBytes   = 10_000_000 - 10_000 // the rest is for the request around it
)

// deadLetter returns the dead letter for the message behind a lease.
func deadLetter(lease jobs.Lease, info worker.DeadLetterInfo) *pubsubpb.PubsubMessage {
	attributes := passable(lease.Raw.Attributes)
	leftOut := len(lease.Raw.Attributes) - len(attributes)
	for _, name := range slices.Sorted(maps.Keys(attributes))[min(len(attributes), maxAttributes-maxDeadFields):] {
		delete(attributes, name)
		leftOut++
	}
	set := func(name, value string) {
		if value != "" {
			attributes[name] = jobs.Clip(value, maxAttributeValue, " …")
		}
	}
	set(deadCause, info.Cause)
	set(deadReason, info.Reason)
	set(deadJobID, string(lease.Job.ID))
	set(deadKind, string(lease.Job.Kind))
	set(deadAt, info.At.UTC().Format(time.RFC3339Nano))
	set(deadQueue, lease.Raw.Queue)
	set(deadMessageID, lease.Raw.ID)
	set(deadAttempt, strconv.Itoa(info.Attempt))
	if lease.Delivery > 0 {
		set(deadDelivery, strconv.Itoa(lease.Delivery))
	}
	if leftOut > 0 {
		set(deadLeftOut, strconv.Itoa(leftOut))
	}
	data := lease.Raw.Data
	room := maxMessageBytes - len(deadCut) - 20
	for name, value := range attributes {
		room -= len(name) + len(value)
	}
	if len(data) > room {
		set(deadCut, strconv.Itoa(len(data)))
		data = data[:room]
	}
	return &pubsubpb.PubsubMessage{Data: data, Attributes: attributes}
}

// passable returns the attributes that belong to a message itself and may be
// published again.
func passable(attributes map[string]string) map[string]string {
	own := map[string]string{}
	for name, value := range attributes {
		if !strings.HasPrefix(name, deadPrefix) && !strings.HasPrefix(name, reservedPrefix) && !strings.HasPrefix(name, policyPrefix) {
			own[name] = value
		}
	}
	return own
}

// decodeDeadLetter reads a dead letter. Whatever it holds, there is something to show.
func (r Rules) decodeDeadLetter(m *pubsubpb.PubsubMessage) DeadLetter {
	a := m.GetAttributes()
	l := DeadLetter{
		Data: m.GetData(), Message: passable(a),
		Cause: a[deadCause], Reason: a[deadReason], Queue: a[deadQueue], MessageID: a[deadMessageID],
		At: m.GetPublishTime().AsTime(), Attempt: count(a[deadAttempt]), Cut: count(a[deadCut]),
	}
	if at, err := time.Parse(time.RFC3339, a[deadAt]); err == nil {
		l.At = at.UTC()
	}
	if l.Cause != worker.CauseFailed && l.Cause != worker.CauseMalformed {
		l.Cause = causeUnknown
	}
	if l.Queue == "" {
		l.Queue = a[policyQueue]
	}
	if l.Reason == "" && a[policyQueue] != "" {
		l.Reason = "given up by the dead letter policy of the subscription"
	}
	if CheckDeadLetterName(messagePrefix+l.MessageID) != nil {
		l.MessageID = m.GetMessageId() // people must be able to name it
	}
	// The data decides which job this is, not the attribute: what is queued again
	// is the data.
	if l.Cut == 0 {
		l.Job, _ = r.decode(l.Data, l.Message)
	} else if id, err := jobs.ParseID(a[deadJobID]); err == nil {
		l.Job.ID = id
	}
	if kind := a[deadKind]; l.Job.ID != "" && l.Job.Kind == "" && kindPattern().MatchString(kind) {
		l.Job.Kind = jobs.Kind(kind)
	}
	return l
}

// count reads a number that cannot be negative; 0 if it is none.
func count(s string) int {
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil {
		return 0
	}
	return int(n) //nolint:gosec // 31 bits
}
