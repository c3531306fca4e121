package access

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
)

// Token is an entry of a file of tokens. The token itself is nowhere in it.
type Token struct {
	Name    string // [A-Za-z0-9._-]{1,64}
	Scope   Scope
	Hash    [sha256.Size]byte // of the token
	Expires time.Time         // zero for never
}

// The limits of a file of tokens.
const (
	maxTokens    = 1000
	maxTokenFile = 1 << 20 // bytes
)

var errTokenName = errors.New("the name is there already")

// CheckTokenName returns an error unless a token may have that name.
func CheckTokenName(name string) error {
	if !tokenName().MatchString(name) {
		return errors.New("a name is 1 to 64 of A-Z a-z 0-9 . _ -")
	}
	return nil
}

var tokenName = jobs.Form(`^[A-Za-z0-9._-]{1,64}$`)

// NewToken returns a token, bft_ and 43 characters of base64url, and its hash as
// it stands in a file of tokens.
func NewToken() (token, hash string) {
	var secret [32]byte
	_, _ = rand.Read(secret[:]) // it never fails
	token = "bft_" + base64.RawURLEncoding.EncodeToString(secret[:])
	sum := sha256.Sum256([]byte(token))
	return token, hex.EncodeToString(sum[:])
}

// ParseTokens reads the text of a file of tokens: a line each, NAME SCOPE SHA256HEX
// [EXPIRES-RFC3339]. Empty lines and lines that begin with # count for nothing.
// The error names the first invalid line and quotes nothing of it: the token itself
// may stand there by mistake. The entries of all other lines are returned with it.
func ParseTokens(text []byte) (tokens []Token, wrong error) {
	if len(text) > maxTokenFile {
		return nil, fmt.Errorf("it is larger than %d bytes", maxTokenFile)
	}
	names := map[string]bool{}
	n := 0
	for line := range bytes.Lines(text) {
		n++
		t, ok, err := parseToken(string(line))
		switch {
		case err != nil:
		case !ok:
			continue
		case names[t.Name]:
			err = errTokenName
		case len(tokens) == maxTokens:
			err = fmt.Errorf("more than %d tokens", maxTokens)
		default:
			names[t.Name] = true
			tokens = append(tokens, t)
		}
		if err != nil && wrong == nil {
			wrong = fmt.Errorf("line %d: %w", n, err)
		}
	}
	return tokens, wrong
}

// parseToken reads a line; ok is false for one that has no token.
func parseToken(line string) (t Token, ok bool, err error) {
	words := strings.Fields(line)
	if len(words) == 0 || words[0][0] == '#' {
		return t, false, nil
	}
	if len(words) < 3 || len(words) > 4 {
		return t, false, errors.New("want NAME SCOPE SHA256HEX [EXPIRES]")
	}
	t.Name = words[0]
	if err := CheckTokenName(t.Name); err != nil {
		return t, false, err
	}
	if t.Scope, err = ParseScope(words[1]); err != nil {
		return t, false, errors.New("the scope is none of read, operate, admin")
	}
	hash, err := hex.DecodeString(words[2])
	if err != nil || len(hash) != sha256.Size {
		return t, false, errors.New("the hash is not 64 hexadecimal digits")
	}
	t.Hash = [sha256.Size]byte(hash)
	if len(words) == 4 {
		if t.Expires, err = time.Parse(time.RFC3339, words[3]); err != nil {
			return t, false, errors.New("the end is not RFC 3339, such as 2027-01-31T00:00:00Z")
		}
	}
	return t, true, nil
}

// line returns the entry as a line of the file.
func (t Token) line() string {
	s := t.Name + " " + t.Scope.String() + " " + hex.EncodeToString(t.Hash[:])
	if !t.Expires.IsZero() {
		s += " " + t.Expires.UTC().Format(time.RFC3339)
	}
	return s + "\n"
}
