package access

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/grid/link"
	"github.com/batchfleet/batchfleet/grid/wire"
)

var quiet = slog.New(slog.DiscardHandler)

// authority is a certificate authority with a file of its certificate.
type authority struct {
	file string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	template.Subject.CommonName = name
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "ca.pem")
	writePEM(t, file, "CERTIFICATE", der)
	return &authority{file, cert, key}
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func writePEM(t *testing.T, file, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}

// issue writes a certificate for 127.0.0.1 and a name, which ends then, and its key.
func (a *authority) issue(t *testing.T, cert, key, name string, serial int64, end time.Time) {
	t.Helper()
	secret := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), NotBefore: end.Add(-24 * time.Hour), NotAfter: end,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{name},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, secret.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	writePEM(t, cert, "CERTIFICATE", der)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	writePEM(t, key, "PRIVATE KEY", pkcs8)
}

// pair issues a certificate into a directory of its own.
func (a *authority) pair(t *testing.T, name string, end time.Time) (cert, key string) {
	t.Helper()
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	a.issue(t, cert, key, name, 1, end)
	return cert, key
}

// leader is a listener that greets each peer with a Welcome, whose subject is the name in the peer's certificate, and then echoes its frames.
type leader struct {
	addr   string
	failed chan error // of each connection that has ended
}

func startLeader(t *testing.T, config *tls.Config) *leader {
	t.Helper()
	plain, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &leader{plain.Addr().String(), make(chan error, 100)}
	listener := tls.NewListener(plain, config)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() { l.failed <- serve(conn) }()
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		<-done
	})
	return l
}

func serve(conn net.Conn) error {
	c := link.New(conn, link.Options{})
	defer func() { _ = c.Close() }()
	for {
		f, err := c.Receive()
		if err != nil {
			return err
		}
		if f.Type == wire.HelloClient {
			f = wire.Frame{Type: wire.Welcome}
			if cert := PeerCertificate(conn); cert != nil {
				f.Subject = cert.DNSNames[0]
			}
		}
		if err := c.Send(f); err != nil {
			return err
		}
	}
}

// hello connects and returns the connection and the leader's Welcome.
func (l *leader) hello(t *testing.T, config *tls.Config) (*tls.Conn, *link.Conn, wire.Frame, error) {
	t.Helper()
	conn, err := (&tls.Dialer{Config: config}).DialContext(t.Context(), "tcp", l.addr)
	if err != nil {
		return nil, nil, wire.Frame{}, err
	}
	c := link.New(conn, link.Options{})
	t.Cleanup(func() { _ = c.Close() })
	if err := c.Send(wire.Frame{Type: wire.HelloClient}); err != nil {
		return nil, nil, wire.Frame{}, err
	}
	f, err := c.Receive()
	return conn.(*tls.Conn), c, f, err
}

func clientConfig(t *testing.T, c ClientTLS) *tls.Config {
	t.Helper()
	config, err := c.Config(quiet)
	if err != nil {
		t.Fatal(err)
	}
	return config
}

func serverTLS(t *testing.T, cert, key, ca string) *ServerTLS {
	t.Helper()
	s, err := OpenServerTLS(cert, key, ca, quiet)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestG71ServerNeedsTLS13AndALPN(t *testing.T) {
	ca, other := newAuthority(t, "ours"), newAuthority(t, "other")
	cert, key := ca.pair(t, "leader.example.org", time.Now().Add(time.Hour))
	l := startLeader(t, serverTLS(t, cert, key, "").Config())
	good := clientConfig(t, ClientTLS{CAFile: ca.file})
	with := func(change func(c *tls.Config)) *tls.Config {
		c := good.Clone()
		change(c)
		return c
	}
	tests := []struct {
		name   string
		config *tls.Config
		want   string // a part of the error; empty for none
	}{
		{"client of ours", good, ""},
		{"client that asks for a name the leader has", clientConfig(t, ClientTLS{CAFile: ca.file, ServerName: "leader.example.org"}), ""},
		{"name that the leader has not", clientConfig(t, ClientTLS{CAFile: ca.file, ServerName: "evil.example.org"}), "not evil.example.org"},
		{"other authority", clientConfig(t, ClientTLS{CAFile: other.file}), "unknown authority"},
		{"authorities of the system", clientConfig(t, ClientTLS{}), "unknown authority"},
		{"TLS 1.2", with(func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS12, tls.VersionTLS12 }), "protocol version not supported"},
		{"no protocol", with(func(c *tls.Config) { c.NextProtos = nil }), "remote error"},
		{"another protocol", with(func(c *tls.Config) { c.NextProtos = []string{"h2", "http/1.1"} }), "remote error"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			conn, _, f, err := l.hello(t, tt.config)
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("got %v, want %q", err, tt.want)
				}
				return
			}
			if err != nil || f.Type != wire.Welcome {
				t.Fatalf("got %v, %v", f.Type, err)
			}
			if s := conn.ConnectionState(); s.Version != tls.VersionTLS13 || s.NegotiatedProtocol != ALPN {
				t.Errorf("%s with protocol %q", tls.VersionName(s.Version), s.NegotiatedProtocol)
			}
		})
	}
}

func TestG71ClientNeedsALPN(t *testing.T) {
	ca := newAuthority(t, "ours")
	cert, key := ca.pair(t, "leader.example.org", time.Now().Add(time.Hour))
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	for name, config := range map[string]*tls.Config{
		"no protocol":  {Certificates: []tls.Certificate{pair}},                             //nolint:gosec // 1.3 is the client's wish
		"HTTP/2 alone": {Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2"}}, //nolint:gosec // as above
	} {
		l := startLeader(t, config)
		_, _, _, err := l.hello(t, clientConfig(t, ClientTLS{CAFile: ca.file}))
		if err == nil || !strings.Contains(err.Error(), "protocol") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestG71ExpiredCertificateIsRefused(t *testing.T) {
	ca := newAuthority(t, "ours")
	cert, key := ca.pair(t, "leader.example.org", time.Now().Add(-time.Minute))
	l := startLeader(t, serverTLS(t, cert, key, "").Config())
	if _, _, _, err := l.hello(t, clientConfig(t, ClientTLS{CAFile: ca.file})); err == nil || !strings.Contains(err.Error(), "expired") {
		t.Errorf("got %v", err)
	}
}

func TestG71ClientCertificates(t *testing.T) {
	ca, other := newAuthority(t, "ours"), newAuthority(t, "other")
	hour := time.Now().Add(time.Hour)
	cert, key := ca.pair(t, "leader.example.org", hour)
	s := serverTLS(t, cert, key, ca.file)
	l := startLeader(t, s.Config())
	own := func(a *authority, end time.Time) ClientTLS {
		cert, key := a.pair(t, "worker-1.example.org", end)
		return ClientTLS{CAFile: ca.file, CertFile: cert, KeyFile: key}
	}
	for name, c := range map[string]ClientTLS{
		"none":    {CAFile: ca.file},
		"other":   own(other, hour),
		"expired": own(ca, time.Now().Add(-time.Minute)),
	} {
		// A client of TLS 1.3 has done its part of the handshake before the leader refuses it.
		_, _, f, err := l.hello(t, clientConfig(t, c))
		if err == nil {
			t.Errorf("%s: got %s", name, f.Type)
			continue
		}
		if err := <-l.failed; err == nil || !strings.Contains(err.Error(), "tls: ") {
			t.Errorf("%s: the leader's error is %v", name, err)
		}
	}
	_, _, f, err := l.hello(t, clientConfig(t, own(ca, hour)))
	if err != nil || f.Subject != "worker-1.example.org" {
		t.Errorf("with a certificate: %q, %v", f.Subject, err)
	}

	// The leader trusts another authority from now on.
	text, err := os.ReadFile(other.file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(ca.file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	worker := own(ca, hour)
	worker.CAFile = newFile(t, ca)
	if err := s.Reload(); err != nil {
		t.Fatal(err)
	}
	if _, _, f, err := l.hello(t, clientConfig(t, worker)); err == nil {
		t.Errorf("a certificate of the authority of before: got %s", f.Type)
	}
}

// newFile writes the authority's certificate to another file.
func newFile(t *testing.T, a *authority) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ca.pem")
	writePEM(t, file, "CERTIFICATE", a.cert.Raw)
	return file
}

func TestG71CertificateReloadKeepsConnections(t *testing.T) {
	ca := newAuthority(t, "ours")
	hour := time.Now().Add(time.Hour)
	cert, key := ca.pair(t, "leader.example.org", hour)
	s := serverTLS(t, cert, key, "")
	l := startLeader(t, s.Config())
	config := clientConfig(t, ClientTLS{CAFile: ca.file})
	serial := func(conn *tls.Conn) int64 { return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64() }

	before, conn, _, err := l.hello(t, config)
	if err != nil || serial(before) != 1 {
		t.Fatal(err)
	}
	ca.issue(t, cert, key, "leader.example.org", 2, hour)
	if err := s.Reload(); err != nil {
		t.Fatal(err)
	}
	after, _, _, err := l.hello(t, config)
	if err != nil || serial(after) != 2 {
		t.Errorf("after Reload: certificate %d, %v", serial(after), err)
	}
	if err := os.WriteFile(key, []byte("half written"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Reload(); err == nil {
		t.Error("a broken key was taken")
	}
	if after, _, _, err = l.hello(t, config); err != nil || serial(after) != 2 {
		t.Errorf("while the key is broken: certificate %d, %v", serial(after), err)
	}
	id := wire.NewGUID()
	if err := conn.Send(wire.Frame{Type: wire.Query, CorrID: id}); err != nil {
		t.Fatal(err)
	}
	if f, err := conn.Receive(); err != nil || f.CorrID != id {
		t.Errorf("the connection of before got %v, %v", f, err)
	}
}

func TestG71BadFilesAreRefusedAtStart(t *testing.T) {
	ca := newAuthority(t, "ours")
	cert, key := ca.pair(t, "x", time.Now().Add(time.Hour))
	_, otherKey := ca.pair(t, "x", time.Now().Add(time.Hour))
	_, noCert := OpenServerTLS(cert+"x", key, "", quiet)
	_, mixed := OpenServerTLS(cert, otherKey, "", quiet)
	_, noCA := OpenServerTLS(cert, key, key, quiet)
	_, clientCA := ClientTLS{CAFile: key}.Config(quiet)
	_, half := ClientTLS{CertFile: cert}.Config(quiet)
	for want, err := range map[string]error{
		"no such file": noCert, "private key does not match": mixed, "holds no certificate": noCA, "read CA file": clientCA, "given together": half,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestG71PlaintextOnlyOnLoopback(t *testing.T) {
	tests := []struct {
		addr                string
		encrypted, insecure bool
		ok                  bool
	}{
		{"127.0.0.1:5000", false, false, true},
		{"localhost:5000", false, false, true},
		{"[::1]:5000", false, false, true},
		{":5000", false, false, false},
		{"0.0.0.0:5000", false, false, false},
		{"[::]:5000", false, false, false},
		{"10.0.0.7:5000", false, false, false},
		{"leader.example.org:5000", false, false, false},
		{"localhost.example.org:5000", false, false, false},
		{":5000", true, false, true},
		{":5000", false, true, true},
		{"5000", true, true, false},
	}
	for _, tt := range tests {
		if err := CheckListen(tt.addr, tt.encrypted, tt.insecure); (err == nil) != tt.ok {
			t.Errorf("%s, TLS %t, --insecure %t: %v", tt.addr, tt.encrypted, tt.insecure, err)
		}
	}
}
