package wire

import "encoding/binary"

// MaxCredit is the most that one Credit gives.
const MaxCredit = 10_000

// ParseCredit reads the payload of a Credit, which is one if it is empty. It reports false for what must be ignored and counted:
// another length, zero and less. More than [MaxCredit] counts as that.
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

// AppendCredit appends the payload of a Credit of 1 to [MaxCredit].
func AppendCredit(to []byte, n int) []byte { return binary.LittleEndian.AppendUint32(to, uint32(n)) }
