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

// Bounds of what is kept for so long.
const (
	maxShared     = 1000    // answers
	maxSharedSize = 1 << 20 // bytes of one; a longer one is only for those who wait for it already
)

// shared gives one answer to all who ask for the same at about the same time, so that the store is asked once however many
// look. The zero value is ready.
type shared struct {
	mu   sync.Mutex
	made map[string]*sharedAnswer
}

type sharedAnswer struct {
	done chan struct{} // closed when it is there
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
	key := r.URL.Path + "?" + r.URL.RawQuery
	a, mine := s.find(key)
	if mine {
		s.fill(r.Context(), key, a, get)
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

// find returns the answer for a key, and whether the caller is to make it. One that is still being made is shared, too: a
// slow store is not asked more often than a fast one.
func (s *shared) find(key string) (a *sharedAnswer, mine bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.made[key]; a != nil {
		return a, false
	}
	if s.made == nil {
		s.made = map[string]*sharedAnswer{}
	}
	a = &sharedAnswer{done: make(chan struct{})}
	if len(s.made) < maxShared {
		s.made[key] = a
	}
	return a, true
}

// fill makes an answer. It goes on if the one who has asked first leaves: others may wait for it.
func (s *shared) fill(ctx context.Context, key string, a *sharedAnswer, get func(context.Context) (any, error)) {
	begun := time.Now()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	defer func() {
		close(a.done)
		left := fresh - time.Since(begun)
		if a.err != nil || len(a.body) > maxSharedSize || left <= 0 {
			s.forget(key, a)
			return
		}
		time.AfterFunc(left, func() { s.forget(key, a) })
	}()
	a.err = errUnavailable // if get panics
	v, err := get(ctx)
	if err == nil {
		a.body, err = httpd.EncodeJSON(v)
	}
	a.err = err
}

func (s *shared) forget(key string, a *sharedAnswer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.made[key] == a {
		delete(s.made, key)
	}
}

// changedWriter calls changed before anything of an answer is sent: who has read it sees the change.
type changedWriter struct {
	http.ResponseWriter
	changed func()
	begun   bool
}

// Unwrap is for [http.ResponseController].
func (w *changedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader implements [http.ResponseWriter].
func (w *changedWriter) WriteHeader(status int) {
	if status >= 200 && !w.begun {
		w.begun = true
		w.changed()
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (w *changedWriter) Write(p []byte) (int, error) {
	if !w.begun {
		w.begun = true
		w.changed()
	}
	return w.ResponseWriter.Write(p)
}
