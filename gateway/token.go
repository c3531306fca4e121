package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/safefile"
)

// Token is a worker's right to call a control plane, as it is kept in a file.
type Token struct {
	Gateway   string    `json:"gateway,omitempty"` // its address
	WorkerID  string    `json:"worker_id,omitempty"`
	Name      string    `json:"name,omitempty"`
	Token     string    `json:"token"` // the secret
	IssuedAt  time.Time `json:"issued_at,omitzero"`
	ExpiresAt time.Time `json:"expires_at,omitzero"` // by this machine's clock; zero when not known
}

// String keeps the secret out of logs.
func (t Token) String() string { return "token of worker " + t.WorkerID }

// GoString keeps the secret out of logs.
func (t Token) GoString() string { return t.String() }

// rotateAt is when to get a new token: after three quarters of this one's life.
// It is zero when the life of the token is not known.
func (t Token) rotateAt() time.Time {
	life := t.ExpiresAt.Sub(t.IssuedAt)
	if t.IssuedAt.IsZero() || t.ExpiresAt.IsZero() || life <= 0 {
		return time.Time{}
	}
	return t.IssuedAt.Add(life / 4 * 3)
}

// olderThan reports whether t was issued before other, as far as both times are known.
func (t Token) olderThan(other Token) bool {
	return !t.IssuedAt.IsZero() && t.IssuedAt.Before(other.IssuedAt)
}

// ErrOtherGateway means that a token was issued by another gateway than the one it
// would be sent to.
var ErrOtherGateway = errors.New("token of another gateway")

// mayGoTo returns why the token must not be sent to the gateway at base. One that
// does not name its gateway may be sent to any.
func (t Token) mayGoTo(base *url.URL) error {
	if t.Gateway == "" {
		return nil
	}
	own, err := parseBase(t.Gateway)
	if err != nil {
		return fmt.Errorf("%w: it names no gateway that can be read", ErrOtherGateway)
	}
	if plainAddress(own) != plainAddress(base) {
		return fmt.Errorf("%w: it is for %s, not for %s", ErrOtherGateway, own, base)
	}
	return nil
}

// plainAddress returns the one way to write an address from [parseBase].
func plainAddress(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"https": "443", "http": "80"}[u.Scheme]
	}
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	return u.Scheme + "://" + net.JoinHostPort(host, port) + u.Path
}

// validToken reports whether a text may be a worker's token.
func validToken(s string) bool { return len(s) >= 8 && len(s) <= 1000 && httpd.TokenChars(s) }

// LoadToken reads a token from a file: the JSON that [SaveToken] writes, or the
// bare text of a token. A link is refused, and so is a file that others may read,
// because what is in it is no secret any more. Errors never quote the file.
func LoadToken(path string) (Token, error) {
	text, err := safefile.Secret(path, maxTokenSize, safefile.OthersUse)
	if errors.Is(err, fs.ErrNotExist) {
		return Token{}, fmt.Errorf("read token file: %w; register this worker first, with the command register", err)
	}
	if err != nil {
		return Token{}, fmt.Errorf("read token file: %w", err)
	}
	t, err := parseToken(text)
	if err != nil {
		return Token{}, fmt.Errorf("read token file %s: %w", path, err)
	}
	return t, nil
}

func parseToken(text []byte) (Token, error) {
	text = bytes.TrimSpace(text)
	var t Token
	if len(text) > 0 && text[0] == '{' {
		if err := json.Unmarshal(text, &t); err != nil {
			return Token{}, errors.New("it is not the JSON of a token: register this worker again")
		}
	} else {
		t.Token = string(text)
	}
	if !validToken(t.Token) {
		return Token{}, errors.New("it holds no token (8 to 1000 letters, digits and ._~+/=-)")
	}
	return t, nil
}

// SaveToken writes a token to a file that only its owner may read. Readers see
// the file of before or the new one, also after a power cut.
func SaveToken(path string, t Token) error {
	var lines bytes.Buffer
	text, err := httpd.EncodeJSON(t)
	if err == nil {
		err = json.Indent(&lines, text, "", "  ")
	}
	if err == nil {
		err = safefile.Replace(path, lines.Bytes())
	}
	if err != nil {
		return fmt.Errorf("write token file: %w", err)
	}
	return nil
}

// TokenFile is the token a worker uses now, and the file it is kept in. Its
// methods may be called concurrently.
type TokenFile struct {
	path string

	mu  sync.Mutex
	now Token
}

// OpenTokenFile reads the token in a file, see [LoadToken].
func OpenTokenFile(path string) (*TokenFile, error) {
	t, err := LoadToken(path)
	if err != nil {
		return nil, err
	}
	return &TokenFile{path: path, now: t}, nil
}

// Token returns the token to use.
func (f *TokenFile) Token() Token {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

// other reports whether there is another token for the gateway at base now than
// the given one, which was refused. It reads the file, which an operator may have
// replaced.
func (f *TokenFile) other(refused string, base *url.URL) bool {
	if f.Token().Token != refused {
		return true
	}
	t, err := LoadToken(f.path)
	if err != nil || t.Token == refused || t.mayGoTo(base) != nil {
		return false
	}
	f.use(t)
	return true
}

func (f *TokenFile) use(t Token) {
	f.mu.Lock()
	f.now = t
	f.mu.Unlock()
}
