package router

import (
	"crypto/x509"

	"github.com/batchfleet/batchfleet/grid/wire"
)

// enter lets a client in, by its token or certificate, and returns how many of its jobs may run at once. The error is what the client is told.
func (r *Router) enter(s *session, token string, cert *x509.Certificate, desired int) (limit int, err error) {
	r.mu.Lock() // Reload waits, or this does and asks the new rules
	defer r.mu.Unlock()
	rules := r.Access.ACL()
	if s.principal, err = rules.Principal(token, cert); err == nil {
		limit, err = rules.Client(s.principal, s.Name, desired)
	}
	if err != nil {
		return 0, s.Denied(r.Log, err)
	}
	r.sessions[s] = true
	return limit, nil
}

func (r *Router) leave(s *session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.sessions, s)
}

// Reload reads the file of rules again, and closes the connections of clients that it no longer allows. If the file cannot be read, the
// rules stay as they were.
func (r *Router) Reload() error {
	if err := r.Access.Reload(); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	rules := r.Access.ACL()
	for s := range r.sessions {
		if _, err := rules.Client(s.principal, s.Name, 1); err != nil {
			err = s.Denied(r.Log, err)
			r.readers.Go(func() { s.Abort(s.Refuse(wire.CodeForbidden, err)) })
		}
	}
	return nil
}
