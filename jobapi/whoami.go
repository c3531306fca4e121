package jobapi

import (
	"net/http"
	"sync"
	"time"

	"github.com/batchfleet/batchfleet/jobapi/access"
)

// Caller is who asks, as GET /api/v1/whoami answers.
type Caller struct {
	Name     string `json:"name"`      // of the token; loopback where there are none
	Scope    string `json:"scope"`     // read, operate or admin
	ReadOnly bool   `json:"readOnly"`  // the server changes nothing, whoever asks
	Expires  Time   `json:"expiresAt"` // of the token; null for never
}

func (s *Server) whoami(w http.ResponseWriter, r *http.Request) error {
	if _, err := parameters(r); err != nil {
		return err
	}
	token, err := s.Guard.judge(r, access.Read)
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, Caller{token.Name, token.Scope.String(), s.ReadOnly, At(token.Expires)})
}

// TokenInfo is a token on the wire. The token itself is known to its holder alone.
type TokenInfo struct {
	Name    string `json:"name"`
	Scope   string `json:"scope"`
	Expires Time   `json:"expiresAt"` // null for never
}

func (s *Server) tokens(w http.ResponseWriter, r *http.Request) error {
	if _, err := parameters(r); err != nil {
		return err
	}
	all := []TokenInfo{}
	if s.Guard.list != nil {
		for _, t := range s.Guard.list(r.Context()) {
			all = append(all, TokenInfo{t.Name, t.Scope.String(), At(t.Expires)})
		}
	}
	return answer(w, http.StatusOK, items(all))
}

// Change is something that was asked for, as GET /api/v1/audit answers.
type Change struct {
	At        Time   `json:"at"`
	Token     string `json:"token"`
	Route     string `json:"route"`
	Scope     string `json:"scope"`
	Operation string `json:"operation"`
	Job       string `json:"job,omitempty"`
	Kind      string `json:"kind,omitempty"`   // that was paused or resumed
	Worker    string `json:"worker,omitempty"` // workerId of the one that was drained, resumed or revoked
	Status    int    `json:"status"`           // of the answer
	RequestID string `json:"requestId"`
}

// maxChanges is how many changes a server remembers.
const maxChanges = 1000

// changes are the newest that were asked for. The zero value is ready.
type changes struct {
	mu   sync.Mutex
	all  []Change // a ring once it is full
	next int
}

func (c *changes) add(one Change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	one.At = At(time.Now())
	if len(c.all) < maxChanges {
		c.all = append(c.all, one)
		return
	}
	c.all[c.next] = one
	c.next = (c.next + 1) % maxChanges
}

// newest returns all of them, the newest first.
func (c *changes) newest() []Change {
	c.mu.Lock()
	defer c.mu.Unlock()
	sorted := make([]Change, 0, len(c.all))
	for i := range c.all {
		sorted = append(sorted, c.all[(c.next+len(c.all)-1-i)%len(c.all)])
	}
	return sorted
}

func (s *Server) audit(w http.ResponseWriter, r *http.Request) error {
	if _, err := parameters(r); err != nil {
		return err
	}
	return answer(w, http.StatusOK, items(s.changes.newest()))
}
