package access

import (
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"fmt"
	"slices"
	"strings"

	"github.com/batchfleet/batchfleet/grid/subject"
	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/jobs"
)

// ACL holds the rules of a file. A nil ACL stands for no file and allows everything. It does not change, so its methods may be called
// concurrently. Their errors are of type [*DeniedError].
type ACL struct {
	file  string
	rules []*rule // in the order of the file
}

// rule is what the file says of one principal.
type rule struct {
	name     string
	line     int
	tokens   [][sha256.Size]byte
	sans     []string
	clients  []string // names, or the beginnings of names with * behind them
	execs    []string // patterns of the subjects of jobs
	patterns []string
	maxCap   int // 0 for no limit
}

// Principal is an identity of the file, and the token or certificate by which a peer has proved it: a later ACL can tell whether that still
// counts. The zero value is allowed nothing, unless everything is allowed.
type Principal struct {
	Name  string // as in the file; empty without a file
	token *[sha256.Size]byte
	sans  []string
}

// DeniedError is the error for what the file does not allow.
type DeniedError struct {
	Where   string // FILE:LINE of the principal, or FILE, for the operator
	Message string // for the peer, too
}

func (d *DeniedError) Error() string { return d.Where + ": " + d.Message }

// MaxToken is the longest token that is looked at, in bytes.
const MaxToken = 512

// Principal returns the principal of a peer, by its token (empty for none) or else by its certificate (nil for none). The certificate must have been
// verified: see [PeerCertificate]. A token that is given must be in the file, even if the certificate is.
func (a *ACL) Principal(token string, cert *x509.Certificate) (Principal, error) {
	switch {
	case a == nil:
		return Principal{}, nil
	case len(token) > MaxToken:
		return Principal{}, &DeniedError{a.file, fmt.Sprintf("the token has %d bytes, at most %d", len(token), MaxToken)}
	case token != "":
		return a.byToken(sha256.Sum256([]byte(token)))
	case cert != nil:
		return a.bySAN(names(cert))
	}
	return Principal{}, &DeniedError{a.file, "a token or a certificate is needed, and none was given"}
}

func (a *ACL) byToken(sum [sha256.Size]byte) (Principal, error) {
	var found *rule
	for _, r := range a.rules { // all of them: the time does not tell which one it is
		if r.hasToken(sum) {
			found = r
		}
	}
	if found == nil {
		return Principal{}, &DeniedError{a.file, "the token is unknown: it was revoked, or is one of another grid"}
	}
	return Principal{Name: found.name, token: &sum}, nil
}

func (r *rule) hasToken(sum [sha256.Size]byte) bool {
	same := 0
	for i := range r.tokens {
		same |= subtle.ConstantTimeCompare(r.tokens[i][:], sum[:])
	}
	return same == 1
}

// names returns the names of a certificate that sans may list: DNS names in lower case, and URIs.
func names(cert *x509.Certificate) (sans []string) {
	for _, name := range cert.DNSNames {
		sans = append(sans, strings.ToLower(name))
	}
	for _, uri := range cert.URIs {
		sans = append(sans, uri.String())
	}
	return sans
}

func (a *ACL) bySAN(sans []string) (Principal, error) {
	var found *rule
	for _, r := range a.rules {
		switch {
		case !r.hasSAN(sans):
		case found != nil:
			return Principal{}, &DeniedError{a.file, fmt.Sprintf("the certificate matches the sans of %s and of %s: it must match one principal", found.name, r.name)}
		default:
			found = r
		}
	}
	if found == nil {
		return Principal{}, &DeniedError{a.file, fmt.Sprintf("the certificate's names %s are in no sans", shown(sans))}
	}
	return Principal{Name: found.name, sans: sans}, nil
}

func (r *rule) hasSAN(sans []string) bool {
	return slices.ContainsFunc(sans, func(san string) bool { return slices.Contains(r.sans, san) })
}

// rule returns the rule of a principal; nil if there is no file. It is an error if the file no longer has the principal, or no longer the token or
// certificate that it was known by.
func (a *ACL) rule(p Principal) (*rule, error) {
	if a == nil {
		return nil, nil //nolint:nilnil // there is no file
	}
	for _, r := range a.rules {
		if r.name == p.Name {
			if p.token != nil && r.hasToken(*p.token) || r.hasSAN(p.sans) {
				return r, nil
			}
			return nil, a.denied(r, "has another token or certificate now")
		}
	}
	if p.Name == "" {
		return nil, &DeniedError{a.file, "a token or a certificate is needed: connect again"}
	}
	return nil, &DeniedError{a.file, p.Name + " is not in the file any more"}
}

func (a *ACL) denied(r *rule, format string, args ...any) error {
	return &DeniedError{fmt.Sprintf("%s:%d", a.file, r.line), r.name + " " + jobs.VisibleLine(fmt.Sprintf(format, args...))}
}

// Client returns how many jobs of a client may run at once, at most what is asked for, if the principal may be that client.
func (a *ACL) Client(p Principal, clientID string, asked int) (allowed int, err error) {
	r, err := a.client(p, clientID)
	if err != nil || r == nil || r.maxCap == 0 {
		return asked, err
	}
	return min(asked, r.maxCap), nil
}

func (a *ACL) client(p Principal, clientID string) (*rule, error) {
	r, err := a.rule(p)
	if err != nil || r == nil {
		return nil, err
	}
	for _, allowed := range r.clients {
		if prefix, ok := strings.CutSuffix(allowed, "*"); allowed == clientID || ok && strings.HasPrefix(clientID, prefix) {
			return r, nil
		}
	}
	return nil, a.denied(r, "may not be the client %.80q: clients has %s", clientID, shown(r.clients))
}

// Submit returns an error unless the principal may be that client and run that exec.
func (a *ACL) Submit(p Principal, clientID, exec string) error {
	r, err := a.client(p, clientID)
	if err != nil || r == nil {
		return err
	}
	for _, pattern := range r.execs {
		if subject.Match(pattern, wire.AssignPrefix+exec) {
			return nil
		}
	}
	short := slices.Clone(r.execs)
	for i := range short {
		short[i] = strings.TrimPrefix(short[i], wire.AssignPrefix)
	}
	return a.denied(r, "may not run %.80q: execs has %s", exec, shown(short))
}

// Worker returns an error unless the principal may be a worker of that pattern: one that it is allowed, or a narrower one.
func (a *ACL) Worker(p Principal, pattern string) error {
	r, err := a.rule(p)
	if err != nil || r == nil {
		return err
	}
	for _, allowed := range r.patterns {
		if covers(allowed, pattern) {
			return nil
		}
	}
	return a.denied(r, "may not be a worker of %.80q: patterns has %s", pattern, shown(r.patterns))
}

// shown lists the first few names, for a message.
func shown(names []string) string {
	if len(names) == 0 {
		return "nothing"
	}
	more := ""
	if len(names) > 5 {
		names, more = names[:5], " …"
	}
	return jobs.VisibleLine(fmt.Sprintf("%.400q", names)) + more
}
