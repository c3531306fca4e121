package emulator

import (
	"encoding/binary"
	"encoding/hex"
	"strconv"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// ackIDLength is two 64-bit numbers in hexadecimal: the queue's instance, then
// the number of the delivery.
const ackIDLength = 32

// ackID returns the name by which a client settles delivery number n.
func (q *queue) ackID(n uint64) string {
	var b [ackIDLength / 2]byte
	binary.BigEndian.PutUint64(b[:8], q.instance)
	binary.BigEndian.PutUint64(b[8:], n)
	var id [ackIDLength]byte
	hex.Encode(id[:], b[:])
	return string(id[:])
}

// deliveries returns the number in each of ids: 0, which no delivery has, for
// those of another queue, or of a deleted subscription of the same name. They are
// as stale as those of an ended lease. The error is INVALID_ARGUMENT for strings
// that are no ack ids of this server.
func (q *queue) deliveries(ids []string) ([]uint64, error) {
	if len(ids) > maxAckIDs {
		return nil, status.Errorf(codes.InvalidArgument, "too many ack ids: %d, at most %d", len(ids), maxAckIDs)
	}
	numbers := make([]uint64, 0, len(ids))
	for _, id := range ids {
		instance, n, ok := parseAckID(id)
		if !ok {
			return nil, status.Errorf(codes.InvalidArgument,
				"You have passed an invalid ack ID to the service (ack_id=%s).", clip(id))
		}
		if instance != q.instance {
			n = 0
		}
		numbers = append(numbers, n)
	}
	return numbers, nil
}

func parseAckID(id string) (instance, n uint64, ok bool) {
	if len(id) != ackIDLength {
		return 0, 0, false
	}
	instance, err1 := strconv.ParseUint(id[:16], 16, 64)
	n, err2 := strconv.ParseUint(id[16:], 16, 64)
	return instance, n, err1 == nil && err2 == nil
}
