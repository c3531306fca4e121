package access

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync/atomic"

	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/safefile"
)

// ALPN is the protocol that both ends of a TLS connection must name. So no other TLS server is taken for a leader, and no browser's request
// reaches one.
const ALPN = "grid/1"

// ServerTLS has the TLS settings of a listener. The version is 1.3. Its methods may be called concurrently.
type ServerTLS struct {
	cert   *httpd.CertFiles
	caFile string
	cas    atomic.Pointer[x509.CertPool]
}

// OpenServerTLS reads a certificate chain and its key, in PEM. With caFile, also in PEM, a client must have a certificate from one of
// the authorities in it; without, no client is asked for one. The certificate is read again when its files change, and with [ServerTLS.Reload].
func OpenServerTLS(certFile, keyFile, caFile string, log *slog.Logger) (*ServerTLS, error) {
	cert, err := httpd.OpenCertFiles(certFile, keyFile, log)
	if err != nil {
		return nil, err
	}
	s := &ServerTLS{cert: cert, caFile: caFile}
	return s, s.loadCAs()
}

// Reload reads all files again. If one cannot be read, its earlier contents stay in use. Open connections are not changed.
func (s *ServerTLS) Reload() error { return errors.Join(s.cert.Reload(), s.loadCAs()) }

func (s *ServerTLS) loadCAs() error {
	if s.caFile == "" {
		return nil
	}
	pool, err := readCAs(s.caFile)
	if err == nil {
		s.cas.Store(pool)
	}
	return err
}

// Config returns the configuration for [tls.Server] and [tls.NewListener].
func (s *ServerTLS) Config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, GetConfigForClient: s.config}
}

// config returns the configuration for one handshake.
func (s *ServerTLS) config(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	// Package tls accepts a client that names no protocol at all.
	if !slices.Contains(hello.SupportedProtos, ALPN) {
		return nil, fmt.Errorf("the peer does not name the protocol %s (ALPN): it is no peer of the grid", ALPN)
	}
	c := &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{ALPN}, GetCertificate: s.cert.Get,
		// With a ticket a peer would not show its certificate again, which may have been revoked. Connections are long, so tickets save little.
		SessionTicketsDisabled: true,
	}
	if cas := s.cas.Load(); cas != nil {
		c.ClientCAs, c.ClientAuth = cas, tls.RequireAndVerifyClientCert
	}
	return c, nil
}

// ClientTLS has the TLS settings of a client or a worker. The zero value trusts the authorities of the system.
type ClientTLS struct {
	CAFile            string // authorities to trust, in PEM, and no others
	ServerName        string // name that the leader's certificate must have; the host that is dialed if empty
	CertFile, KeyFile string // its own certificate, for a leader that asks for one; read again when the files change
}

// Config returns the configuration for [tls.Dialer], which takes the server's name from the address unless there is one.
func (c ClientTLS) Config(log *slog.Logger) (*tls.Config, error) {
	config := &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{ALPN}, ServerName: c.ServerName,
		VerifyConnection: func(state tls.ConnectionState) error {
			if state.NegotiatedProtocol != ALPN {
				return fmt.Errorf("%s does not name the protocol %s (ALPN): it is no leader; is the port right?", cmp.Or(state.ServerName, "the peer"), ALPN)
			}
			return nil
		},
	}
	if c.CAFile != "" {
		pool, err := readCAs(c.CAFile)
		if err != nil {
			return nil, err
		}
		config.RootCAs = pool
	}
	switch {
	case (c.CertFile == "") != (c.KeyFile == ""):
		return nil, errors.New("a certificate and its key are given together")
	case c.CertFile != "":
		cert, err := httpd.OpenCertFiles(c.CertFile, c.KeyFile, log)
		if err != nil {
			return nil, err
		}
		config.GetClientCertificate = cert.GetClient
	}
	return config, nil
}

// readCAs returns the authorities in a file.
func readCAs(file string) (*x509.CertPool, error) {
	pem, err := safefile.ReadLinked(file, httpd.MaxPEM)
	if err != nil {
		return nil, fmt.Errorf("read CA file: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("read CA file: %s holds no certificate in PEM (-----BEGIN CERTIFICATE-----)", file)
	}
	return pool, nil
}

// PeerCertificate returns the verified certificate of a peer, or nil. It must be called after the handshake, which is complete once a frame has been
// received.
func PeerCertificate(conn net.Conn) *x509.Certificate {
	c, ok := conn.(*tls.Conn)
	if !ok {
		return nil
	}
	if chains := c.ConnectionState().VerifiedChains; len(chains) > 0 {
		return chains[0][0]
	}
	return nil
}

// CheckListen returns an error for an address that other machines could reach without encryption, unless insecure allows that.
func CheckListen(addr string, encrypted, insecure bool) error {
	host, _, err := net.SplitHostPort(addr)
	switch {
	case err != nil:
		return fmt.Errorf("listen on %q: %w", addr, err)
	case encrypted || insecure || httpd.IsLoopback(host):
		return nil
	}
	return fmt.Errorf("listen on %s: other machines could connect without TLS: give a certificate (--tls-cert, --tls-key), "+
		"listen on 127.0.0.1, or allow it with --insecure on a network that you trust", addr)
}
