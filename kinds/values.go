package kinds

import (
	"errors"
	"fmt"
	"math"
	"path"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/batchfleet/batchfleet/jobs"
)

// Limits of what a kind may say. docs/kinds.md has them, too.
const (
	minTime    = time.Second
	maxTimeout = 168 * time.Hour
	maxCPU     = 10_000 * time.Hour // 59 processors for a week

	minSize int64 = 1 << 20
	maxSize int64 = 100 << 40

	maxFiles   = 10_000
	maxSlots   = 256
	maxGPUs    = 64
	maxRetries = 100

	minBackoff        = 100 * time.Millisecond
	maxBackoff        = 24 * time.Hour
	defaultBackoff    = 10 * time.Second
	defaultBackoffMax = 10 * time.Minute

	maxArguments   = 1000
	maxArgument    = 16 << 10 // bytes, as the file has it
	maxOutputs     = 100
	maxPattern     = 256 // bytes of a pattern of outputs and of the name of a variable
	maxEnv         = 100
	maxRegexp      = 1 << 10
	maxRegexpSteps = 20_000 // of a compiled expression: each may be visited for each byte
	maxDescription = 1 << 10
)

func (s *source) want(key string, v value, want string) {
	s.wrong(v.at, key, "is %s: want %s", v.shown(), want)
}

// text returns a string that is not empty.
func (s *source) text(key string, v value, most int) (string, bool) {
	switch {
	case v.kind != unstable.String:
		s.want(key, v, "a string")
	case v.text == "":
		s.wrong(v.at, key, "is empty: leave it out or say something")
	case len(v.text) > most:
		s.wrong(v.at, key, "has %d bytes: at most %d are allowed", len(v.text), most)
	default:
		return v.text, true
	}
	return "", false
}

func (s *source) description(key string, v value) string {
	text, ok := s.text(key, v, maxDescription)
	if ok && jobs.Visible(text) != text {
		s.wrong(v.at, key, "holds control characters or invisible ones")
	}
	return text
}

func (s *source) boolean(key string, v value) bool {
	if v.kind != unstable.Bool {
		s.want(key, v, "true or false")
	}
	return v.text == "true"
}

func (s *source) number(key string, v value, low, high int64) int {
	n, ok := v.integer()
	if !ok || n < low || n > high {
		s.want(key, v, fmt.Sprintf("a whole number from %d to %d", low, high))
		return int(low)
	}
	return int(n)
}

// texts returns a list of strings; things says what they are.
func (s *source) texts(key string, v value, most, longest int, things string) (all []string) {
	if v.kind != unstable.Array {
		s.want(key, v, `a list of strings, such as ["a", "b"]`)
		return nil
	}
	if len(v.list) > most {
		s.wrong(v.at, key, "has %d %s: at most %d are allowed", len(v.list), things, most)
		return nil
	}
	for _, one := range v.list {
		switch {
		case one.kind != unstable.String:
			s.wrong(one.at, key, "has %s: want only strings in the list", one.shown())
		case len(one.text) > longest:
			s.wrong(one.at, key, "has a string of %d bytes: at most %d are allowed", len(one.text), longest)
		case strings.Contains(one.text, "\x00"):
			s.wrong(one.at, key, "has a string with a NUL byte, which a program cannot be given")
		case one.text == "" && things != "arguments":
			s.wrong(one.at, key, "has an empty string")
		}
		all = append(all, one.text)
	}
	return all
}

func (s *source) codes(key string, v value) (all []int) {
	if v.kind != unstable.Array {
		s.want(key, v, "a list of exit codes, such as [3, 4]")
		return nil
	}
	for _, one := range v.list {
		n, ok := one.integer()
		switch {
		case !ok || n < 1 || n > 255:
			s.wrong(one.at, key, "has %s: want exit codes from 1 to 255", one.shown())
		case contains(all, int(n)):
			s.wrong(one.at, key, "has %d twice", n)
		default:
			all = withCode(all, int(n))
		}
	}
	return all
}

func contains(codes []int, code int) bool { return slices.Contains(codes, code) }

// withCode returns the codes with one more, in order.
func withCode(codes []int, code int) []int {
	i, there := slices.BinarySearch(codes, code)
	if there {
		return codes
	}
	return slices.Insert(codes, i, code)
}

func (s *source) duration(key string, v value, low, high time.Duration) time.Duration {
	d, ok := parseDuration(v)
	if !ok || d < low || d > high {
		s.want(key, v, fmt.Sprintf(`a duration from %s to %s, such as "90s", "2m" or "1h30m"`, FormatDuration(low), FormatDuration(high)))
		return low
	}
	return d
}

// parseDuration reads a duration as Go writes it, or a number of seconds.
func parseDuration(v value) (time.Duration, bool) {
	if n, ok := v.integer(); ok {
		return time.Duration(n) * time.Second, 0 <= n && n <= math.MaxInt64/int64(time.Second)
	}
	if v.kind != unstable.String {
		return 0, false
	}
	d, err := time.ParseDuration(strings.TrimSpace(v.text))
	return d, err == nil
}

// FormatDuration writes a duration without the parts that are zero: 2m, 1h30m.
func FormatDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// backoff reads "10s..10m", or "10s" for a wait that stays the same.
func (s *source) backoff(k *Kind, key string, v value) {
	first, last, isRange := strings.Cut(v.text, "..")
	low, ok := parseDuration(value{kind: v.kind, text: first})
	high, ok2 := low, ok
	if isRange {
		high, ok2 = parseDuration(value{kind: v.kind, text: last})
	}
	if !ok || !ok2 || low < minBackoff || high > maxBackoff || low > high {
		s.want(key, v, fmt.Sprintf(`a duration or a range such as "10s..10m", from %s to %s`, FormatDuration(minBackoff), FormatDuration(maxBackoff)))
		return
	}
	k.Backoff, k.BackoffMax = low, high
}

// units of sizes. K, M and G alone are refused: programs do not agree on what they mean.
var units = map[string]int64{
	"": 1, "B": 1,
	"KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
	"KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "TIB": 1 << 40,
}

func (s *source) size(key string, v value, low int64) int64 {
	n, ok := parseSize(v)
	if !ok || n < low || n > maxSize {
		s.want(key, v, fmt.Sprintf(`a size from %s to %s, such as "500MB" or "1GiB", or a number of bytes`, FormatSize(low), FormatSize(maxSize)))
		return low
	}
	return n
}

func parseSize(v value) (int64, bool) {
	if n, ok := v.integer(); ok {
		return n, true
	}
	if v.kind != unstable.String {
		return 0, false
	}
	text := strings.TrimSpace(v.text)
	digits := strings.TrimRight(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz ")
	unit, known := units[strings.ToUpper(strings.TrimSpace(text[len(digits):]))]
	if !known || digits == "" || strings.Trim(digits, "0123456789.") != "" {
		return 0, false
	}
	f, err := strconv.ParseFloat(digits, 64)
	f *= float64(unit)
	return int64(f), err == nil && f < 1<<62
}

// FormatSize writes a number of bytes with the largest unit of which it is a whole number: 10GiB.
func FormatSize(n int64) string {
	for _, u := range []struct {
		is   int64
		name string
	}{{1 << 40, "TiB"}, {1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if n >= u.is && n%u.is == 0 {
			return fmt.Sprintf("%d%s", n/u.is, u.name)
		}
	}
	if n == 1 {
		return "1 byte"
	}
	return fmt.Sprintf("%d bytes", n)
}

// badPattern says why a pattern of outputs cannot match a file of {output}.
func badPattern(pattern string) string {
	if _, err := path.Match(pattern, ""); err != nil {
		return "it is no pattern: want *, ? and [a-z] in names"
	}
	if strings.HasPrefix(pattern, "/") || slices.ContainsFunc(strings.Split(pattern, "/"), func(part string) bool { return part == "" || part == "." || part == ".." }) {
		return "want a pattern of files in {output}, without /, . or .. at its ends"
	}
	if strings.Contains(pattern, "/") && !strings.Contains(pattern, "[") { // [^/] matches names, too
		return "want a pattern of files in {output} itself: what is in directories below it is not kept"
	}
	if !utf8.ValidString(pattern) || !jobs.IsVisible(pattern) {
		return "it holds control characters"
	}
	return ""
}

// compile compiles a regular expression of the file. A whole one matches a text only from
// its beginning to its end.
func compile(text string, whole bool) (*regexp.Regexp, error) {
	tree, err := syntax.Parse(text, syntax.Perl)
	if err == nil && strings.Contains(text, "{") { // nothing but repeats makes it much longer than its text
		var prog *syntax.Prog
		if prog, err = syntax.Compile(tree.Simplify()); err == nil && len(prog.Inst) > maxRegexpSteps {
			err = fmt.Errorf("it is too large: at most %d steps are allowed, it has %d", maxRegexpSteps, len(prog.Inst))
		}
	}
	if err != nil {
		if e := (*syntax.Error)(nil); errors.As(err, &e) {
			return nil, fmt.Errorf("%s: %.40q", e.Code, e.Expr)
		}
		return nil, err
	}
	if whole {
		text = wholeStart + text + wholeEnd
	}
	return regexp.Compile(text)
}

const (
	wholeStart = `^(?:`
	wholeEnd   = `)$`
)
