package access

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/batchfleet/batchfleet/grid/subject"
	"github.com/batchfleet/batchfleet/grid/wire"
	tokens "github.com/batchfleet/batchfleet/jobapi/access"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/kinds"
)

// Limits of a file of rules.
const (
	maxPrincipals = 1000
	maxValues     = 1000 // of one key
	maxValue      = 512  // bytes of one of them
	maxCap        = 1_000_000
	maxMistakes   = 1000
)

// reader reads a file of rules and notes what is wrong in it, in the order of the file.
type reader struct {
	data  []byte
	acl   *ACL
	lines map[string]int // of the principals, keys, tokens and names of certificates that were read
	begin []int          // offsets at which lines begin
	head  int            // offset of the current principal
	wrong kinds.FileError
}

// Parse is [Load] of a file that was read; its name is for mistakes.
func Parse(name string, data []byte) (*ACL, error) {
	r := &reader{data: data, acl: &ACL{file: name}, lines: map[string]int{}, begin: []int{0}}
	for i, c := range data {
		if c == '\n' {
			r.begin = append(r.begin, i+1)
		}
	}
	p := &unstable.Parser{}
	p.Reset(data)
	var current *rule // nil above the first principal, and below an invalid one
	begun := false
	for p.NextExpression() {
		switch e := p.Expression(); {
		case e.Kind != unstable.KeyValue:
			r.complete(current)
			current, begun = r.principal(e), true
		case current != nil:
			r.key(current, e)
		case !begun:
			at, names := keyOf(e)
			r.mistake(at, names, "is above the first principal: write it below a line such as [team-a]")
		}
	}
	r.complete(current)
	if err := p.Error(); err != nil {
		r.wrong = kinds.FileError{} // earlier mistakes may be consequences
		at := len(data)
		if e, ok := errors.AsType[*unstable.ParserError](err); ok && e.Highlight != nil {
			at = cap(data) - cap(e.Highlight)
		}
		r.mistake(at, "", "the file is not TOML: %v", err)
	}
	if len(r.wrong.Mistakes) > 0 {
		slices.SortStableFunc(r.wrong.Mistakes, func(a, b kinds.Mistake) int { return cmp.Or(a.Line-b.Line, a.Column-b.Column) })
		return nil, &r.wrong
	}
	return r.acl, nil
}

// mistake notes what is wrong with a key at an offset.
func (r *reader) mistake(at int, key, format string, args ...any) {
	if len(r.wrong.Mistakes) == maxMistakes {
		r.wrong.More++
		return
	}
	at = min(at, len(r.data))
	line := r.line(at)
	r.wrong.Mistakes = append(r.wrong.Mistakes, kinds.Mistake{
		File: r.acl.file, Line: line, Column: 1 + utf8.RuneCount(r.data[r.begin[line-1]:at]), Key: key,
		Text: jobs.VisibleLine(strings.TrimLeft(key+" "+fmt.Sprintf(format, args...), " ")),
	})
}

func (r *reader) line(at int) int { return sort.SearchInts(r.begin, at+1) }

// once reports whether something is new, and notes a mistake if it is there for the second time.
func (r *reader) once(at int, key, what, text string) bool {
	first, known := r.lines[what]
	if known {
		r.mistake(at, key, "%s: first in line %d", text, first)
		return false
	}
	r.lines[what] = r.line(at)
	return true
}

// keyOf returns the offset of a key, and its names with dots between them; of more than four names the first ones.
func keyOf(e *unstable.Node) (at int, key string) {
	at = -1
	var names []string
	for it := e.Key(); it.Next(); {
		if at < 0 {
			at = int(it.Node().Raw.Offset)
		}
		if len(names) < 4 {
			names = append(names, string(it.Node().Data))
		}
	}
	return at, fmt.Sprintf("%.100s", strings.Join(names, "."))
}

// principal reads a line [NAME], and returns nil if it is invalid.
func (r *reader) principal(e *unstable.Node) *rule {
	at, name := keyOf(e)
	parts := 0
	for it := e.Key(); it.Next(); {
		parts++
	}
	switch {
	case e.Kind == unstable.ArrayTable:
		r.mistake(at, name, "is a list of tables: write [%s] for one principal", name)
	case parts > 1:
		r.mistake(at, name, "has %d names: a principal has one, and one with dots is written [%q]", parts, name)
	case tokens.CheckTokenName(name) != nil:
		r.mistake(at, name, "is no name of a principal: %v", tokens.CheckTokenName(name))
	case !r.once(at, name, "principal "+name, "is given twice"):
	case len(r.acl.rules) == maxPrincipals:
		r.mistake(at, name, "is one principal too many: at most %d are allowed", maxPrincipals)
	default:
		r.head = at
		r.acl.rules = append(r.acl.rules, &rule{name: name, line: r.line(at)})
		return r.acl.rules[len(r.acl.rules)-1]
	}
	return nil
}

// complete notes which keys a principal lacks.
func (r *reader) complete(p *rule) {
	if p == nil {
		return
	}
	has := func(key string) bool { return r.lines[p.name+"."+key] > 0 }
	switch {
	case !has("tokens") && !has("sans"):
		r.mistake(r.head, p.name, "has no tokens and no sans: no peer could be identified as it")
	case has("clients") && !has("execs"):
		r.mistake(r.head, p.name, `has clients but no execs, so they could submit nothing: want execs = [">"] for all`)
	case has("execs") && !has("clients"):
		r.mistake(r.head, p.name, `has execs and no clients to submit them as: want clients = ["*"] for all`)
	}
}

var keys = []string{"tokens", "sans", "clients", "execs", "patterns", "max_cap"}

// key reads a line KEY = VALUE of a principal.
func (r *reader) key(p *rule, e *unstable.Node) {
	at, name := keyOf(e)
	key, v := p.name+"."+name, e.Value()
	if !slices.Contains(keys, name) {
		r.mistake(at, key, "is no key of a principal: want %s", strings.Join(keys, ", "))
		return
	}
	if !r.once(at, key, key, "is given twice") {
		return
	}
	switch name {
	case "tokens":
		r.values(at, key, v, func(at int, text string) {
			sum, ok := parseHash(text)
			if !ok { // not shown: it may be the token itself
				r.mistake(at, key, "has a text that is no hash: want sha256: and 64 hexadecimal digits, never the token itself")
			} else if r.once(at, key, "token "+string(sum[:]), "has a token that is there already") {
				p.tokens = append(p.tokens, sum)
			}
		})
	case "sans":
		r.values(at, key, v, func(at int, text string) {
			san, problem := readSAN(text)
			if problem != "" {
				r.mistake(at, key, "has %.80q: %s", text, problem)
			} else if r.once(at, key, "san "+san, "has a name of a certificate that is there already") {
				p.sans = append(p.sans, san)
			}
		})
	case "clients":
		r.values(at, key, v, func(at int, text string) {
			if problem := badClient(text); problem != "" {
				r.mistake(at, key, "has %.80q: %s", text, problem)
			}
			p.clients = append(p.clients, text)
		})
	case "execs":
		r.values(at, key, v, func(at int, text string) {
			if err := subject.CheckPattern(text); err != nil {
				r.mistake(at, key, "has a bad %v", err)
			}
			p.execs = append(p.execs, wire.AssignPrefix+text)
		})
	case "patterns":
		r.values(at, key, v, func(at int, text string) {
			if err := subject.CheckPattern(text); err != nil {
				r.mistake(at, key, "has a bad %v", err)
			} else if text != ">" && !strings.HasPrefix(text, wire.AssignPrefix) {
				r.mistake(at, key, "has %.80q, which matches no job: want a pattern as workers have it, such as %s", text, wire.DefaultPattern)
			}
			p.patterns = append(p.patterns, text)
		})
	case "max_cap":
		n, err := strconv.Atoi(strings.ReplaceAll(string(v.Data), "_", ""))
		if v.Kind != unstable.Integer || err != nil || n < 1 || n > maxCap {
			r.mistake(place(at, v), key, "is %.40q: want a whole number from 1 to %d", v.Data, maxCap)
		}
		p.maxCap = n
	}
}

// place returns the offset of a value; for lists and tables it is the offset of their key.
func place(at int, v *unstable.Node) int {
	if v.Kind == unstable.Array || v.Kind == unstable.InlineTable {
		return at
	}
	return int(v.Raw.Offset)
}

// values calls one for each text of a list, with its offset.
func (r *reader) values(at int, key string, v *unstable.Node, one func(at int, text string)) {
	if v.Kind != unstable.Array {
		r.mistake(place(at, v), key, `is no list: want ["…", "…"]`)
		return
	}
	n := 0
	for it := v.Children(); it.Next(); n++ {
		switch item := it.Node(); {
		case item.Kind != unstable.String:
			r.mistake(place(at, item), key, "has something that is no text: want it between quotes")
		case len(item.Data) > maxValue:
			r.mistake(place(at, item), key, "has a text of %d bytes: at most %d are allowed", len(item.Data), maxValue)
		case n >= maxValues:
			r.mistake(place(at, item), key, "has more than %d texts", maxValues)
			return
		default:
			one(place(at, item), string(item.Data))
		}
	}
	if n == 0 {
		r.mistake(at, key, "is empty: leave it out, or write what is allowed")
	}
}

// readSAN returns a name of a certificate as names compares it, or what is wrong with it.
func readSAN(text string) (san, problem string) {
	if strings.Contains(text, ":") {
		u, err := url.Parse(text)
		if err != nil || u.Scheme == "" {
			return "", "is no URI, such as spiffe://fleet/worker-1"
		}
		return u.String(), "" // as certificates are read
	}
	if !dnsName(text) {
		return "", "is no DNS name and no URI: want one such as worker-1.example.org"
	}
	return strings.ToLower(text), ""
}

func dnsName(s string) bool {
	return s != "" && len(s) <= 253 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") == "" &&
		!strings.Contains("."+s+".", "..")
}

// badClient returns what is wrong with a ClientId, or a prefix and *. The prefix must end with - or _, because alice* would match
// alicebob, too.
func badClient(text string) string {
	prefix, many := strings.CutSuffix(text, "*")
	switch {
	case text == "*":
		return ""
	case wire.CheckClientID(prefix) != nil:
		return "want the ClientId of a client, or the beginning of many and *, such as team-a-*"
	case many && !strings.HasSuffix(prefix, "-") && !strings.HasSuffix(prefix, "_"):
		return "want - or _ before the *, because " + text + " matches other people's clients, too"
	}
	return ""
}

// hashPrefix stands before the SHA-256 of a token, in hexadecimal digits.
const hashPrefix = "sha256:"

func parseHash(s string) (sum [sha256.Size]byte, ok bool) {
	digits, found := strings.CutPrefix(s, hashPrefix)
	raw, err := hex.DecodeString(digits)
	if !found || err != nil || len(raw) != len(sum) {
		return sum, false
	}
	return [sha256.Size]byte(raw), true
}
