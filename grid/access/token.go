package access

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	tokens "github.com/batchfleet/batchfleet/jobapi/access"
)

const hashPrefix = "sha256:"

// NewToken returns a token, to be given to a peer and kept nowhere else, and its hash as it stands in tokens of a file of rules.
func NewToken() (token, hash string) {
	token, digits := tokens.NewToken()
	return token, hashPrefix + digits
}

// parseHash reads what NewToken has returned.
func parseHash(s string) (sum [sha256.Size]byte, ok bool) {
	digits, found := strings.CutPrefix(s, hashPrefix)
	raw, err := hex.DecodeString(digits)
	if !found || err != nil || len(raw) != len(sum) {
		return sum, false
	}
	return [sha256.Size]byte(raw), true
}
