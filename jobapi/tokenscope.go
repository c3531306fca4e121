package jobapi

import (
	"fmt"
	"strconv"
)

// TokenScope is how far a token reaches: each scope includes those before it. The
// zero value reaches nowhere.
type TokenScope uint8

// The scopes of tokens.
const (
	Read    TokenScope = iota + 1 // look at jobs
	Operate                       // and change them
	Admin                         // and the fleet as a whole
)

var tokenScopes = [...]string{Read: "read", Operate: "operate", Admin: "admin"}

// String returns the scope in lower case, or "scope(N)" for a number that is none.
func (s TokenScope) String() string {
	if s < Read || s > Admin {
		return "scope(" + strconv.Itoa(int(s)) + ")"
	}
	return tokenScopes[s]
}

// ParseTokenScope returns the scope that a word names.
func ParseTokenScope(word string) (TokenScope, error) {
	for s := Read; s <= Admin; s++ {
		if s.String() == word {
			return s, nil
		}
	}
	return 0, fmt.Errorf("%.16q is no scope of a token: want read, operate or admin", word)
}
