package emulator

import (
	"encoding/binary"
	"errors"
	"math"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/protobuf/proto"
)

var errShortRecord = errors.New("record ends too early")

// A recordReader reads the fields of a record. After an error all are zero.
type recordReader struct {
	rest []byte
	err  error
}

func (r *recordReader) fail() {
	r.rest, r.err = nil, errShortRecord
}

func (r *recordReader) uint() uint64 {
	n, size := binary.Uvarint(r.rest)
	if size <= 0 {
		r.fail()
		return 0
	}
	r.rest = r.rest[size:]
	return n
}

func (r *recordReader) int() int64 {
	n := r.uint()
	return int64(n>>1) ^ -int64(n&1) // as binary.AppendVarint writes it
}

func (r *recordReader) time() time.Duration { return time.Duration(r.int()) }

// until reads the time at the end of a record, long ago for one without.
func (r *recordReader) until() time.Duration {
	if len(r.rest) == 0 {
		return math.MinInt64
	}
	return r.time()
}

func (r *recordReader) bytes() []byte {
	n := r.uint()
	if n > uint64(len(r.rest)) {
		r.fail()
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *recordReader) string() string { return string(r.bytes()) }

func (r *recordReader) proto(m proto.Message) {
	b := r.bytes()
	if r.err == nil {
		r.err = proto.Unmarshal(b, m)
	}
}

func (r *recordReader) message() *message {
	m := &message{id: r.uint(), at: r.time(), pb: new(pubsubpb.PubsubMessage)}
	r.proto(m.pb)
	m.size = messageSize(m.pb)
	return m
}

func (r *recordReader) ids() []uint64 {
	n := r.uint()
	if n > uint64(len(r.rest)) { // each takes a byte at least
		r.fail()
		return nil
	}
	ids := make([]uint64, n)
	last := uint64(0)
	for i := range ids {
		last += uint64(r.int())
		ids[i] = last
	}
	return ids
}
