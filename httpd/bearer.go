package httpd

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"
)

// maxToken is the longest token that is looked at.
const maxToken = 512

// TokenError is why a request has no bearer token. It is one of a few words,
// good for the label of a metric, and its text never holds the token:
// "missing", "several" Authorization headers, another "scheme", an "empty"
// token, a "malformed" one.
type TokenError string

func (e TokenError) Error() string {
	switch e {
	case "missing":
		return "missing header: Authorization: Bearer <token>"
	case "several":
		return "more than one Authorization header"
	case "scheme":
		return "the scheme of Authorization must be Bearer"
	case "empty":
		return "empty bearer token"
	default:
		return "malformed bearer token"
	}
}

// Bearer returns the token of the request's one Authorization header. The error
// is a [StatusError] of 401 with WWW-Authenticate, around a [TokenError].
func Bearer(r *http.Request) (string, error) {
	headers := r.Header.Values("Authorization")
	switch {
	case len(headers) == 0:
		return "", unauthorized("missing")
	case len(headers) > 1:
		return "", unauthorized("several")
	}
	scheme, token, _ := strings.Cut(headers[0], " ")
	token = strings.Trim(token, " ")
	switch {
	case !strings.EqualFold(scheme, "Bearer"):
		return "", unauthorized("scheme")
	case token == "":
		return "", unauthorized("empty")
	case !isToken(token):
		return "", unauthorized("malformed")
	}
	return token, nil
}

func isToken(s string) bool { return len(s) <= maxToken && TokenChars(s) }

// TokenChars reports whether s matches ^[A-Za-z0-9._~+/=-]+$, which can be sent after
// "Bearer "; every request asks, and a regexp takes microseconds.
func TokenChars(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("._~+/=-", c) >= 0:
		default:
			return false
		}
	}
	return s != ""
}

func unauthorized(why TokenError) error {
	return &StatusError{http.StatusUnauthorized, http.Header{"Www-Authenticate": {"Bearer"}}, why}
}

// SameToken reports whether two secrets are equal. Its time tells nothing of
// where they differ or how long they are.
func SameToken(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}
