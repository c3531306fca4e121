package leader

import (
	"crypto/x509"
	"sync"

	"github.com/batchfleet/batchfleet/grid/access"
	"github.com/batchfleet/batchfleet/grid/wire"
)

// entry is what the rules know a peer by. It is guarded by Leader.entering until the peer has entered.
type entry struct {
	principal access.Principal
	pattern   string // of a worker
	entered   bool
}

// rules returns the rules that count now; nil, which allows everything, if there is no file.
func (l *Leader) rules() *access.ACL { return l.Access.ACL() }

// allowed returns an error if the rules do not let the peer be what it is.
func (p *peer) allowed(rules *access.ACL) error {
	if p.Name != "" {
		_, err := rules.Client(p.principal, p.Name, 1)
		return err
	}
	return rules.Worker(p.principal, p.pattern)
}

// enter lets a peer in, by its token or certificate, and welcomes it. It returns the rules that have allowed the peer, or what the peer is told.
func (l *Leader) enter(p *peer, token string, cert *x509.Certificate) (rules *access.ACL, err error) {
	l.entering.RLock()
	defer l.entering.RUnlock()
	rules = l.rules()
	if p.principal, err = rules.Principal(token, cert); err == nil {
		err = p.allowed(rules)
	}
	if err != nil {
		return nil, p.Denied(l.Log, err)
	}
	p.entered = true
	_ = p.Welcome(l.welcome()) // an error is that the connection has ended, which its reader finds out
	return rules, nil
}

// Reload reads the file of rules again, and closes the connections of peers that it no longer allows. If the file cannot be read, the rules stay as
// they were.
func (l *Leader) Reload() error {
	if err := l.Access.Reload(); err != nil {
		return err
	}
	var closing sync.WaitGroup
	for p, err := range l.disallowed() {
		closing.Go(func() { p.Abort(p.Refuse(wire.CodeForbidden, err)) })
	}
	closing.Wait()
	return nil
}

// disallowed returns the peers that the rules no longer allow, and why.
func (l *Leader) disallowed() map[*peer]error {
	l.entering.Lock() // no peer is being let in by the old rules
	defer l.entering.Unlock()
	all := map[*peer]error{}
	rules := l.rules()
	for _, p := range l.peers.all() {
		if !p.entered {
			continue
		}
		if err := p.Denied(l.Log, p.allowed(rules)); err != nil {
			all[p] = err
		}
	}
	return all
}
