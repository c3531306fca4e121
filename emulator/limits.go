package emulator

import "time"

// The limits of Google's service, from cloud.google.com/pubsub/quotas and the
// comments of pubsub.proto, unless a comment says otherwise.
const (
	maxMessageBytes   = 10_000_000 // of data, attributes and ordering key together
	maxPublishBytes   = 10_000_000
	maxPublishCount   = 1000
	maxAttributes     = 100
	maxAttributeKey   = 256  // bytes
	maxAttributeValue = 1024 // bytes
	maxOrderingKey    = 1024 // bytes
	maxLabels         = 64

	maxSchemas   = 10_000 // Google's limit for one project, here for all together
	maxRevisions = 20     // of one schema

	maxPullCount = 1000       // messages in one answer
	maxPullBytes = 10_000_000 // message bytes in one answer, unless one message alone is larger

	// maxStreamBytes bounds one answer on a stream in place of maxPullBytes. It is
	// ours: two answers at a time are buffered for a client that does not read.
	maxStreamBytes = 1 << 20

	// maxAckIDs is ours: Google bounds the request at 512 KiB, which its Go
	// client reads as 2500 ids and its Node client as 3000.
	maxAckIDs = 10_000

	defaultAckDeadline = 10 * time.Second
	minAckDeadline     = 10 * time.Second
	maxAckDeadline     = 600 * time.Second

	defaultRetention = 7 * 24 * time.Hour
	minRetention     = 10 * time.Minute
	maxRetention     = 31 * 24 * time.Hour

	defaultMinBackoff = 10 * time.Second
	maxBackoff        = 600 * time.Second

	defaultTTL = 31 * 24 * time.Hour
	minTTL     = 24 * time.Hour

	defaultPage = 100
	maxPage     = 1000

	// maxIdlePull ends an idle unary pull with an empty answer.
	maxIdlePull = 90 * time.Second
	// noDeadlinePull ends the idle pull of a client that sent no deadline. It is
	// shorter, because such a client may have a timeout of its own.
	noDeadlinePull = 10 * time.Second

	// maxRequestBytes bounds one gRPC request: a full publish and its envelope.
	maxRequestBytes = 12 << 20
	// maxBodyBytes bounds one REST body: the same publish in base64.
	maxBodyBytes = 16 << 20
)
