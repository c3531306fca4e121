// Package subject matches subjects with patterns as NATS does, except for names that are refused here.
//
// A subject is tokens with dots between them: job.assign.gpu.train. In a pattern the token * stands for any one token, and > at
// the end for one or more. Case counts. Unlike with NATS, * and > are not allowed within a token.
package subject

import (
	"fmt"
	"strings"
)

// MaxLen is the length of the longest subject or pattern, in bytes.
const MaxLen = 512

// CheckSubject returns why s is no valid subject, or nil. A subject has no wildcards.
func CheckSubject(s string) error { return check("subject", s, false) }

// CheckPattern returns why s is no valid pattern, or nil. A subject is a pattern, too.
func CheckPattern(s string) error { return check("pattern", s, true) }

func check(what, s string, wild bool) error {
	if len(s) > MaxLen {
		return fmt.Errorf("%s %.80q has %d bytes, at most %d", what, s, len(s), MaxLen)
	}
	for rest, more := s, true; more; {
		var token string
		token, rest, more = strings.Cut(rest, ".")
		switch {
		case token == "":
			return fmt.Errorf("%s %.80q has an empty token; tokens have one dot between them", what, s)
		case wild && token == "*", wild && token == ">" && !more:
		case token == ">" && wild:
			return fmt.Errorf("%s %.80q has a > that is not its last token", what, s)
		case strings.ContainsAny(token, "*>"):
			if !wild {
				return fmt.Errorf("%s %.80q has a wildcard: only patterns have them", what, s)
			}
			return fmt.Errorf("%s %.80q has a wildcard within a token: * and > are whole tokens", what, s)
		case strings.ContainsAny(token, "\x00 \t\r\n\f"):
			return fmt.Errorf("%s %.80q has a blank, a line end or a NUL", what, s)
		}
	}
	return nil
}

// Match reports whether a pattern matches a subject. Both must have passed their checks.
func Match(pattern, subject string) bool {
	for {
		p, patterns, morePatterns := strings.Cut(pattern, ".")
		if p == ">" {
			return true // what is left of the subject is at least one token
		}
		s, subjects, moreSubjects := strings.Cut(subject, ".")
		if p != "*" && p != s {
			return false
		}
		if !morePatterns || !moreSubjects {
			return morePatterns == moreSubjects
		}
		pattern, subject = patterns, subjects
	}
}
