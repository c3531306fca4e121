package jobapi

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/jobapi/access"
)

// tokenCheck is how often a request checks whether the file of tokens has changed.
const tokenCheck = 2 * time.Second

// Guard decides who may do what: callers with a token ([OpenTokens]), callers on the
// same machine ([Loopback]), or none ([Closed]). It may be used concurrently.
type Guard struct {
	// judge returns the request's token, if it is known, also when it refuses the request.
	judge  func(r *http.Request, need access.Scope) (who access.Token, err error)
	tokens int
	list   func(context.Context) []access.Token // of the file; nil without one
}

// Tokens returns how many tokens the file had that the guard was opened with.
func (g *Guard) Tokens() int { return g.tokens }

// Check returns an error unless the caller of a request may do what needs a scope. Who asks for long, as one that follows
// events does, is checked again now and then.
func (g *Guard) Check(r *http.Request, need access.Scope) error {
	_, err := g.judge(r, need)
	return err
}

// Closed refuses every request.
var Closed = &Guard{judge: func(*http.Request, access.Scope) (access.Token, error) {
	return access.Token{}, denied("closed", http.StatusUnauthorized, "The Job API is closed: this server has neither a file of tokens (--job-tokens-file) nor an admin token (--admin-token-file)")
}}

// denial refuses a request. Why is one of a few words, for the label of a metric.
type denial struct {
	why string
	*Refusal
}

func (d *denial) Unwrap() error { return d.Refusal }

func denied(why string, status int, message string) error {
	code := CodeUnauthorized
	if status == http.StatusForbidden {
		code = CodeForbidden
	}
	return &denial{why, &Refusal{Status: status, Code: code, Message: message}}
}

// whyDenied returns in one word why a request was refused by a guard, and nothing for
// other errors.
func whyDenied(err error) string {
	if d, ok := errors.AsType[*denial](err); ok {
		return d.why
	}
	if e, ok := errors.AsType[httpd.TokenError](err); ok {
		return string(e)
	}
	return ""
}

// OpenTokens returns a guard that requires a bearer token: one of those in a file,
// which is read again when it has changed, or the token admin, whose scope is
// [access.Admin]. Either may be empty, not both. The error tells what is wrong with the
// file. Later, tokens of invalid lines are rejected, and all tokens of the file while
// it is missing or unreadable; both are logged once.
func OpenTokens(file, admin string, log *slog.Logger) (*Guard, error) {
	s := &tokenSet{file: file, log: log}
	if admin != "" {
		s.admin = []access.Token{{Name: "admin token", Scope: access.Admin, Hash: sha256.Sum256([]byte(admin))}}
	}
	if file == "" {
		if admin == "" {
			return nil, errors.New("open tokens: neither a file nor an admin token is given")
		}
		return &Guard{judge: s.judge}, nil
	}
	if err := s.load(); err != nil {
		return nil, err
	}
	return &Guard{s.judge, len(s.listed), s.tokens}, nil
}

// tokenSet holds the tokens of a server.
type tokenSet struct {
	file  string // may be empty
	log   *slog.Logger
	admin []access.Token // none or one, with a name that the file cannot have

	mu      sync.Mutex
	listed  []access.Token // the file's valid lines; none while it cannot be read
	version os.FileInfo    // of the file when it was last read; nil when it could not be
	checked time.Time      // when version was last compared
	logged  string         // by the last check of the file; empty when it was good
}

func (s *tokenSet) load() error {
	info, err := os.Stat(s.file) // before the text: the next check sees a change in between
	s.version, s.checked = info, time.Now()
	var text []byte
	if err == nil {
		text, err = access.ReadTokenFile(s.file)
	} else {
		err = fmt.Errorf("read tokens: %w", err)
	}
	if err != nil {
		s.version = nil // it was not read: check again, whether it changes or not
		if !lacksFiles(err) {
			s.listed = nil
		}
		return err
	}
	if s.listed, err = access.ParseTokens(text); err != nil {
		return fmt.Errorf("read tokens (%s): %w", s.file, err)
	}
	return nil
}

// lacksFiles reports whether this process has too many open files, which tells nothing
// about this file.
func lacksFiles(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// tokens returns the entries that are valid now. The slice is never changed.
func (s *tokenSet) tokens(ctx context.Context) []access.Token {
	if s.file == "" {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.checked) < tokenCheck {
		return s.listed
	}
	s.checked = time.Now()
	info, err := os.Stat(s.file)
	if err == nil && s.version != nil && sameVersion(info, s.version) {
		return s.listed
	}
	err = s.load()
	logged := ""
	switch {
	case err == nil:
	case lacksFiles(err):
		logged = "cannot open the token file, too many open files; keeping the tokens read before"
	case s.version == nil:
		logged = "token file is missing or unreadable; all its tokens are rejected"
	default:
		logged = "token file has invalid lines; those tokens are rejected"
	}
	if logged != "" && (s.version != nil || logged != s.logged) { // once for each version, and once without one
		cause := err
		if e, ok := errors.AsType[*fs.PathError](err); ok { // the log's filter takes "tokens: " for a secret's name
			cause = e.Err
		}
		s.log.ErrorContext(ctx, logged, "file", s.file, "err", cause)
	}
	s.logged = logged
	return s.listed
}

func sameVersion(a, b os.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

func (s *tokenSet) judge(r *http.Request, need access.Scope) (who access.Token, err error) {
	given, err := httpd.Bearer(r)
	if err != nil {
		return who, err
	}
	has := s.find(sha256.Sum256([]byte(given)), s.tokens(r.Context()))
	switch {
	case has.Scope == 0:
		return who, denied("unknown", http.StatusUnauthorized, "Unknown token")
	case !has.Expires.IsZero() && !time.Now().Before(has.Expires):
		return has, denied("expired", http.StatusUnauthorized, "The token has expired")
	case has.Scope < need:
		return has, denied("scope", http.StatusForbidden, fmt.Sprintf("This needs a token of scope %s; yours is %s", need, has.Scope))
	}
	return has, nil
}

// find returns the entry of a hash, or the zero Token. It compares with all entries,
// so its time does not tell which one it was.
func (s *tokenSet) find(hash [sha256.Size]byte, listed []access.Token) (found access.Token) {
	for _, tokens := range [][]access.Token{listed, s.admin} {
		for _, t := range tokens {
			if subtle.ConstantTimeCompare(t.Hash[:], hash[:]) == 1 {
				found = t
			}
		}
	}
	return found
}
