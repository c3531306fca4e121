package wire

import "encoding/binary"

// MaxCredit is the most that one Credit gives.
const MaxCredit = 10_000

// ParseCredit reads the payload of a Credit; an empty one stands for 1. More than [MaxCredit] counts as MaxCredit. It reports false for an invalid
// one, which must be ignored and counted: of another length, or below 1.
func ParseCredit(payload []byte) (n int, ok bool) {
	switch len(payload) {
	case 0:
		return 1, true
	case 4:
		n = int(int32(binary.LittleEndian.Uint32(payload)))
		return min(n, MaxCredit), n > 0
	}
	return 0, false
}

// AppendCredit appends the payload of a Credit of n, from 1 to [MaxCredit].
func AppendCredit(to []byte, n int) []byte { return binary.LittleEndian.AppendUint32(to, uint32(n)) }
