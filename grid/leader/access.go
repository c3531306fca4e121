package leader

import (
	"crypto/x509"
	"sync"

	"github.com/batchfleet/batchfleet/grid/access"
	"github.com/batchfleet/batchfleet/grid/wire"
)

// entry is what the rules have let a peer in as. It is guarded by Leader.entering until the peer has entered.
type entry struct {
	principal access.Principal
	pattern   string // of a worker
	entered   bool
}

// rules returns those that count now; nil, which allows everything, if there is no file.
func (l *Leader) rules() *access.ACL {
	if l.Access == nil {
		return nil
	}
	return l.Access.ACL()
}

// allowed returns an error if the rules do not let the peer be what it is.
func (p *peer) allowed(rules *access.ACL) error {
	if p.Name != "" {
		_, err := rules.Client(p.principal, p.Name, 1)
		return err
	}
	return rules.Worker(p.principal, p.pattern)
}

// enter lets a peer in that has said who it is, and welcomes it, or returns what the peer is told. The rules are those that have let it in.
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

// Reload reads the file of rules again, and closes the connections of peers that it no longer lets in. If the file cannot be read, the rules of
// before go on to count.
func (l *Leader) Reload() error {
	if l.Access == nil {
		return nil
	}
	if err := l.Access.Reload(); err != nil {
		return err
	}
	var closing sync.WaitGroup
	for p, err := range l.strangers() {
		closing.Go(func() { p.Abort(p.Refuse(wire.CodeForbidden, err)) })
	}
	closing.Wait()
	return nil
}

// strangers returns the peers that the rules no longer let in, and why.
func (l *Leader) strangers() map[*peer]error {
	l.entering.Lock() // who enters by the rules of before has entered
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
