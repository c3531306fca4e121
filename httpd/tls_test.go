package httpd

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// writeCert makes a certificate for 127.0.0.1 with the given serial number.
func writeCert(t *testing.T, certFile, keyFile string, serial int64) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial),
		NotAfter:     time.Now().Add(time.Hour),
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: cert}, keyFile: {Type: "PRIVATE KEY", Bytes: der}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestZ09TLSIsOfVersion12OrLater(t *testing.T) {
	dir := t.TempDir()
	s := &Server{
		Log:      slog.New(slog.DiscardHandler),
		CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem"),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if err := SecureOnly(nil)(r); err != nil || r.TLS == nil {
				w.WriteHeader(http.StatusForbidden)
			}
		}),
	}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(t.Context(), l); err == nil {
		t.Fatal("Serve without its certificate did not fail")
	}
	if l, err = (&net.ListenConfig{}).Listen(t.Context(), "tcp", l.Addr().String()); err != nil {
		t.Fatalf("the listener of a server that failed is still open: %v", err)
	}
	writeCert(t, s.CertFile, s.KeyFile, 1)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l) }()

	for version, ok := range map[uint16]bool{tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true} {
		transport := &http.Transport{
			ForceAttemptHTTP2: ok,                                                                                       // which needs TLS 1.2 itself
			TLSClientConfig:   &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS10, MaxVersion: version}, //nolint:gosec // a test of versions
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+l.Addr().String(), nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := transport.RoundTrip(req)
		if ok != (err == nil) || ok && (resp.StatusCode != 200 || resp.ProtoMajor != 2) {
			t.Errorf("%s: %v, %v", tls.VersionName(version), resp, err)
		}
		if err == nil {
			resp.Body.Close()
		}
		transport.CloseIdleConnections()
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("Serve: %v", err)
	}
}

func TestNewCertificatesAreReadWhileRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
		writeCert(t, cert, key, 1)
		c, err := OpenCertFiles(cert, key, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		serial := func() int64 {
			t.Helper()
			pair, err := c.Get(&tls.ClientHelloInfo{})
			if err != nil {
				t.Fatal(err)
			}
			return pair.Leaf.SerialNumber.Int64()
		}
		writeCert(t, c.cert, c.key, 2)
		if got := serial(); got != 1 {
			t.Errorf("certificate %d at once, want 1: not every handshake looks", got)
		}
		time.Sleep(certCheck)
		if got := serial(); got != 2 {
			t.Errorf("certificate %d, want the new one", got)
		}
		if err := os.WriteFile(c.key, []byte("half written"), 0o600); err != nil {
			t.Fatal(err)
		}
		time.Sleep(certCheck)
		if got := serial(); got != 2 {
			t.Errorf("certificate %d while the key is broken, want the old one", got)
		}
		writeCert(t, c.cert, c.key, 3)
		time.Sleep(certCheck)
		if got := serial(); got != 3 {
			t.Errorf("certificate %d after the key was repaired, want 3", got)
		}
	})
}
