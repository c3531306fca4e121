package jobapi

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/batchfleet/batchfleet/httpd"
)

// fresh is how long an answer is given to others who ask for the same.
const fresh = 250 * time.Millisecond

// maxShared bounds how many answers are kept.
const maxShared = 1000

// shared gives one answer to all who ask for the same at about the same time, so that the store is asked once however many
// look. The zero value is ready.
type shared struct {
	mu   sync.Mutex
	made map[string]*sharedAnswer
}

type sharedAnswer struct {
	done chan struct{} // closed when it is there
	at   time.Time     // when it was begun
	body []byte
	err  error
}

// changed forgets all answers: what comes now must show what was changed.
func (s *shared) changed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.made)
}

// answer answers with what get returns, or with what it has returned just now to another request for the same path and
// query. The caller is known to be allowed to see it.
func (s *shared) answer(w http.ResponseWriter, r *http.Request, get func(context.Context) (any, error)) error {
	a, mine := s.find(r.URL.Path + "?" + r.URL.RawQuery)
	if mine {
		s.fill(r.Context(), a, get)
	}
	select {
	case <-a.done:
	case <-r.Context().Done():
		return r.Context().Err()
	}
	if a.err != nil {
		return a.err
	}
	httpd.WriteJSON(w, http.StatusOK, a.body)
	return nil
}

// find returns the answer for a key, and whether the caller is to make it.
func (s *shared) find(key string) (a *sharedAnswer, mine bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if a := s.made[key]; a != nil && now.Sub(a.at) < fresh {
		return a, false
	}
	if s.made == nil || len(s.made) >= maxShared {
		s.made = map[string]*sharedAnswer{} // who waits for one still gets it
	}
	a = &sharedAnswer{done: make(chan struct{}), at: now}
	s.made[key] = a
	return a, true
}

// fill makes an answer. It goes on if the one who has asked first leaves: others may wait for it.
func (s *shared) fill(ctx context.Context, a *sharedAnswer, get func(context.Context) (any, error)) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	defer close(a.done)
	a.err = errUnavailable // if get panics
	v, err := get(ctx)
	if err == nil {
		a.body, err = httpd.EncodeJSON(v)
	}
	a.err = err
}
