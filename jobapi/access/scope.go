// Package access keeps the tokens of the Job API in a file: their names and their
// scopes. The file has hashes, never a token.
package access

import (
	"fmt"
	"slices"
	"strconv"
)

// Scope is how far a token reaches: each scope includes those before it. The
// zero value reaches nowhere.
type Scope uint8

// The scopes of tokens.
const (
	Read    Scope = iota + 1 // look at jobs
	Operate                  // and change them
	Admin                    // and the fleet as a whole
)

var scopes = [...]string{Read: "read", Operate: "operate", Admin: "admin"}

// String returns the scope in lower case, or "scope(N)" for a number that is none.
func (s Scope) String() string {
	if s < Read || s > Admin {
		return "scope(" + strconv.Itoa(int(s)) + ")"
	}
	return scopes[s]
}

// ParseScope returns the scope that a word names.
func ParseScope(word string) (Scope, error) {
	s := slices.Index(scopes[:], word)
	if s < int(Read) {
		return 0, fmt.Errorf("%.16q is no scope of a token: want read, operate or admin", word)
	}
	return Scope(s), nil //nolint:gosec // one of three
}
