package worker

import "regexp"

// Reasons are shown to whoever may see a job, so what may be a secret goes.
var (
	urlPassword = regexp.MustCompile(`([a-zA-Z][a-zA-Z0-9+.-]*://)[^/\s]*@`)
	// A password may hold a slash. That a port before a path with an @ looks the
	// same costs the name of the host.
	urlUnescaped = regexp.MustCompile(`([a-zA-Z][a-zA-Z0-9+.-]*://)[^/\s@:]*:[^\s"'@]*@`)
	bearer       = regexp.MustCompile(`(?i)\b(bearer|basic)\s+[a-z0-9._~+/=-]{8,}`)
	// A name, perhaps quoted, a sign, and the value, perhaps quoted: as in JSON,
	// also inside of a quoted string, in query strings, headers and environments.
	named = regexp.MustCompile(`(?is)([a-z0-9_-]*(?:password|passwd|secret|token|signature|credential|api[_-]?key|access[_-]?key|private[_-]?key|authorization)[a-z0-9_-]*` +
		`\\*["']?\s*[=:]\s*(?:(?:bearer|basic)\s+)?)` +
		`(?:\\+".*?(?:\\+"|$)|"(?:[^"\\]|\\.)*"?|'[^']*'?|[^\s"'&,;\\]+)`)
)

// redact replaces what looks like a secret in s: passwords in URLs, bearer
// tokens, and values named password, token, signature and the like. When in
// doubt it takes too much.
func redact(s string) string {
	return RedactAddresses(named.ReplaceAllString(s, "$1[redacted]"))
}

// RedactAddresses replaces passwords in URLs, and what follows the words Bearer
// and Basic.
func RedactAddresses(s string) string {
	return bearer.ReplaceAllString(RedactURLs(s), "$1 [redacted]")
}

// RedactURLs replaces passwords in URLs.
func RedactURLs(s string) string {
	s = urlPassword.ReplaceAllString(s, "${1}[redacted]@")
	return urlUnescaped.ReplaceAllString(s, "${1}[redacted]@")
}
