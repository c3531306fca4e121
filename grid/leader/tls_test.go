package leader_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/grid/access"
	"github.com/batchfleet/batchfleet/grid/link"
)

// authority issues certificates.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir()}
	a.cert = &x509.Certificate{Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	a.key = a.sign(a.cert, "ca")
	return a
}

// file is where a part of a certificate of a name is.
func (a *authority) file(name, part string) string { return filepath.Join(a.dir, name+"."+part) }

// sign writes a certificate, which is valid for an hour, and its key.
func (a *authority) sign(cert *x509.Certificate, name string) *ecdsa.PrivateKey {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	cert.SerialNumber, cert.NotAfter = big.NewInt(1), time.Now().Add(time.Hour)
	parent, signer := a.cert, a.key
	if signer == nil {
		signer = key
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, parent, key.Public(), signer)
	if err != nil {
		a.t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	for part, block := range map[string]*pem.Block{"cert": {Type: "CERTIFICATE", Bytes: der}, "key": {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(a.file(name, part), pem.EncodeToMemory(block), 0o600); err != nil {
			a.t.Fatal(err)
		}
	}
	return key
}

// issue writes a certificate of spiffe://fleet/NAME for this machine.
func (a *authority) issue(name string) {
	a.t.Helper()
	a.sign(&x509.Certificate{
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, URIs: []*url.URL{{Scheme: "spiffe", Host: "fleet", Path: "/" + name}},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, name)
}

// listen returns a listener that asks for certificates of the authority.
func (a *authority) listen() net.Listener {
	a.t.Helper()
	a.issue("leader")
	server, err := access.OpenServerTLS(a.file("leader", "cert"), a.file("leader", "key"), a.file("ca", "cert"), slog.New(slog.DiscardHandler))
	if err != nil {
		a.t.Fatal(err)
	}
	listener, err := (&net.ListenConfig{}).Listen(a.t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		a.t.Fatal(err)
	}
	return tls.NewListener(listener, server.Config())
}

// dial connects with the certificate of a name; empty for none.
func (a *authority) dial(r *rig, name string) *end {
	a.t.Helper()
	peer := access.ClientTLS{CAFile: a.file("ca", "cert")}
	if name != "" {
		a.issue(name)
		peer.CertFile, peer.KeyFile = a.file(name, "cert"), a.file(name, "key")
	}
	config, err := peer.Config(slog.New(slog.DiscardHandler))
	if err != nil {
		a.t.Fatal(err)
	}
	conn, err := (&tls.Dialer{Config: config}).DialContext(a.t.Context(), "tcp", r.addr)
	if err != nil {
		a.t.Fatal(err)
	}
	e := &end{Conn: link.New(conn, link.Options{Dialed: true}), t: a.t}
	a.t.Cleanup(func() { e.Abort(net.ErrClosed) })
	return e
}
