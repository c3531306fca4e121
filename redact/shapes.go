package redact

import (
	"regexp"
	"strings"
	"sync"
)

// maxBase64 and maxHex are how long base64 and hex may be. A digest of 64 bytes is
// 128 digits; signed transactions are longer.
const (
	maxBase64 = 256
	maxHex    = 128
)

// edge is where a word may begin: also behind a character that is written as an
// escape, and behind what sets a color.
const edge = `\b|\\[nrt]|(?:\\x[0-9a-f]{2}|\x1b)(?:\[[0-9;]*[A-Za-z])?|\\u[0-9a-f]{4}|\\U[0-9a-f]{8}`

// tokens are the forms of well-known tokens: a part that each has, and all of it. Their
// beginnings are also in suspicious, which sees a text first: its function mayMatch, and
// firstWords.
var tokens = [...]struct{ part, form string }{
	{"zp", `(?:zpw|zpe)_[A-Za-z0-9_-]{6,}`}, // ours
	{"bft_", `bft_[A-Za-z0-9_-]{6,}`},
	{"KIA", `AKIA[A-Z0-9]{16}\b`}, // AWS
	{"SIA", `ASIA[A-Z0-9]{16}\b`},
	{"AIza", `AIza[A-Za-z0-9_-]{30,}`}, // Google
	{"ya29.", `ya29\.[A-Za-z0-9._-]{10,}`},
	{"GOCSPX-", `GOCSPX-[A-Za-z0-9_-]{10,}`},
	{"gh", `gh[pousr]_[A-Za-z0-9]{16,}`}, // GitHub
	{"github_pat_", `github_pat_[A-Za-z0-9_]{16,}`},
	{"glpat-", `glpat-[A-Za-z0-9_-]{16,}`}, // GitLab
	{"xox", `xox[a-z]-[A-Za-z0-9-]{8,}`},   // Slack
	{"xapp-", `xapp-[0-9]-[A-Za-z0-9-]{8,}`},
	{"k_", `[srp]k_(?:live|test)_\w{10,}`}, // Stripe
	{"sk-", `sk-[A-Za-z0-9_-]{20,}`},
	{"npm_", `npm_[A-Za-z0-9]{30,}`},
	{"hf_", `hf_[A-Za-z0-9]{30,}`},
	{"SG.", `SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}`},
}

// shape matches the forms of tokens, JWT and JWE. It is compiled when it is first needed:
// an idle worker does not need it.
var shape = sync.OnceValue(func() *regexp.Regexp {
	var forms []string
	for _, t := range tokens {
		forms = append(forms, t.form)
	}
	return regexp.MustCompile(`(` + edge + `)(?:` + strings.Join(forms, "|") + `)|eyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]{5,}(?:\.[A-Za-z0-9_-]*)*`)
})

// shapes hides tokens. It looks for their parts first, for a regular expression with so
// many beginnings is slow.
func shapes(s string) string {
	found := strings.Contains(s, "eyJ")
	for i := 0; i < len(tokens) && !found; i++ {
		found = strings.Contains(s, tokens[i].part)
	}
	if !found {
		return s
	}
	return shape().ReplaceAllString(s, "${1}"+Mark)
}

var (
	pemBlock = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?s)-{4,5} ?BEGIN [A-Za-z0-9 ]{1,64}-{4,5}.*?(?:-{4,5} ?END [A-Za-z0-9 ]{1,64}-{4,5}|$)`)
	})
	pemBegin = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`-{4,5} ?BEGIN [A-Za-z0-9 ]{1,64}-{4,5}`) })
	pemEnd   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`-{4,5} ?END [A-Za-z0-9 ]{1,64}-{4,5}`) })
)

// pem hides blocks of PEM; one that does not end, to the end of the text.
func pem(s string) string {
	if !strings.Contains(s, "BEGIN ") {
		return s
	}
	return pemBlock().ReplaceAllLiteralString(s, Mark)
}

var (
	urlPassword = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`([a-zA-Z][a-zA-Z0-9+.-]*://)[^/\s]*@`) })
	// A password may hold a slash. That a port before a path with an @ looks the
	// same costs the name of the host.
	urlUnescaped = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`([a-zA-Z][a-zA-Z0-9+.-]*://)[^/\s@:]*:[^\s"'@]*@`) })
)

// urls hides the user and the password in URLs.
func urls(s string) string {
	if !strings.Contains(s, "://") || !strings.Contains(s, "@") {
		return s
	}
	s = urlPassword().ReplaceAllString(s, "${1}"+Mark+"@")
	return urlUnescaped().ReplaceAllString(s, "${1}"+Mark+"@")
}

// scheme matches credentials in HTTP's Authorization. Prose has the same words, so
// what follows must not look like a word; see [random].
var scheme = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)(?:` + edge + `)(?:bearer|basic)\s+([a-z0-9._~+/=-]{8,})`)
})

func schemes(s string) string {
	if !hasScheme(s) {
		return s
	}
	var b strings.Builder
	from := 0
	for _, at := range scheme().FindAllStringSubmatchIndex(s, -1) {
		if random(s[at[2]:at[3]]) {
			b.WriteString(s[from:at[2]])
			b.WriteString(Mark)
			from = at[3]
		}
	}
	if from == 0 {
		return s
	}
	return b.String() + s[from:]
}

// schemeAt reports whether one of the words of scheme begins at i.
func schemeAt(s string, i int) bool {
	rest := s[i:]
	return len(rest) > 6 && (strings.EqualFold(rest[:6], "bearer") || strings.EqualFold(rest[:5], "basic"))
}

func hasScheme(s string) bool {
	for i := range len(s) {
		if s[i]|0x20 == 'b' && schemeAt(s, i) {
			return true
		}
	}
	return false
}

// random reports whether s looks like no word: it has a digit, a sign of base64,
// a capital inside, or is longer than words are.
func random(s string) bool {
	if len(s) >= 24 || strings.ContainsAny(s, "0123456789+=_~") {
		return true
	}
	for i := 1; i < len(s); i++ {
		if s[i] >= 'A' && s[i] <= 'Z' && s[i-1] >= 'a' && s[i-1] <= 'z' {
			return true
		}
	}
	return false
}

// runs hides base64 that is longer than maxBase64, also when it is broken into
// lines, and hex that is longer than maxHex.
func runs(s string) string {
	var b []byte
	from := 0
	for i := 0; i < len(s); {
		if classes[s[i]]&base64 == 0 {
			i++
			continue
		}
		end, length := runAt(s, i)
		hex, digests := hexIn(s[i:end])
		if hex > maxHex || length-digests > maxBase64 && manyLetters(s[i:end]) {
			b = append(append(b, s[from:i]...), Mark...)
			from = end
		}
		i = end
	}
	if from == 0 {
		return s
	}
	return string(append(b, s[from:]...))
}

// runAt returns where the run of base64 that begins at i ends, and how many
// characters of it there are. Lines of at least minLine characters go on in the
// next line, but for those that are a digest each.
func runAt(s string, i int) (end, length int) {
	for {
		start := i
		for i < len(s) && classes[s[i]]&base64 != 0 {
			i++
		}
		segment := s[start:i]
		if length > 0 && len(segment) == 0 {
			return end, length
		}
		for i < len(s) && s[i] == '=' {
			i++
		}
		length, end = length+len(segment), i
		next := lineBreak(s, i)
		if next == i || len(segment) < minLine || isDigest(segment) {
			return end, length
		}
		i = next
	}
}

// minLine is the least length of a full line of base64: PEM has 64, MIME 76.
const minLine = 60

// lineBreak returns what follows a line break at i, real or written as an escape.
func lineBreak(s string, i int) int {
	rest := s[i:]
	switch {
	case strings.HasPrefix(rest, `\r\n`):
		return i + 4
	case strings.HasPrefix(rest, `\n`), strings.HasPrefix(rest, "\r\n"):
		i += 2
	case strings.HasPrefix(rest, "\n"):
		i++
	default:
		return i
	}
	for i < len(s) && (s[i] == ' ' || s[i] == '\t') {
		i++
	}
	return i
}

// hexIn returns how many digits the longest hex in a run has, and how many all its
// digests, which stand beside each other with signs of base64 between them.
func hexIn(run string) (longest, digests int) {
	for i := 0; i < len(run); i++ {
		n := hexLen(run[i:])
		longest = max(longest, n)
		edges := (i == 0 || classes[run[i-1]]&alnum == 0 || afterEscape(run, i)) && (i+n == len(run) || classes[run[i+n]]&alnum == 0)
		switch n {
		case 32, 40, 56, 64, 96, 128: // of MD5 to SHA-512
			if edges {
				digests += n
			}
		}
		i += n
	}
	return longest, digests
}

func hexLen(s string) int {
	for i := range len(s) {
		if c := s[i] | 0x20; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return i
		}
	}
	return len(s)
}

func isDigest(s string) bool { return len(s) <= maxHex && hexLen(s) == len(s) }

// manyLetters tells data from a line that was drawn.
func manyLetters(s string) bool {
	n := 0
	for i := range len(s) {
		if classes[s[i]]&alnum != 0 {
			n++
		}
	}
	return n > maxHex
}
