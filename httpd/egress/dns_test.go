package egress

import (
	"context"
	"io"
	"log"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

var quiet = log.New(io.Discard, "", 0)

// dns is a DNS server that knows every name by the same address.
type dns struct {
	conn net.PacketConn
	addr atomic.Value // netip.Addr, the zero one for none
}

// newDNS returns a server that answers 127.0.0.1.
func newDNS(t *testing.T) *dns {
	t.Helper()
	conn, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &dns{conn: conn}
	d.answer("127.0.0.1")
	var serving sync.WaitGroup
	serving.Go(d.serve)
	t.Cleanup(func() {
		_ = conn.Close()
		serving.Wait()
	})
	return d
}

func (d *dns) answer(s string) {
	addr, _ := netip.ParseAddr(s)
	d.addr.Store(addr)
}

func (d *dns) use(p *Policy) {
	p.Resolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp4", d.conn.LocalAddr().String())
	}}
}

func (d *dns) serve() {
	buf := make([]byte, 1500)
	for {
		n, from, err := d.conn.ReadFrom(buf)
		if err != nil {
			return
		}
		var m dnsmessage.Message
		if err := m.Unpack(buf[:n]); err != nil || len(m.Questions) != 1 {
			continue
		}
		q := m.Questions[0]
		m.Response, m.Additionals = true, nil
		switch addr := d.addr.Load().(netip.Addr); {
		case !addr.IsValid():
			m.RCode = dnsmessage.RCodeNameError
		case q.Type == dnsmessage.TypeA:
			m.Answers = []dnsmessage.Resource{{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class}, Body: &dnsmessage.AResource{A: addr.As4()},
			}}
		}
		if out, err := m.Pack(); err == nil {
			_, _ = d.conn.WriteTo(out, from)
		}
	}
}
