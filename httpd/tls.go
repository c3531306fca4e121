package httpd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/batchfleet/batchfleet/safefile"
)

// certCheck is how often a handshake checks whether the files have changed.
const certCheck = 10 * time.Second

// CertFiles is a certificate and its key in PEM, read again when a handshake finds that the files
// have changed, at most every 10 s. While the new ones cannot be used the old ones stay. Its methods
// may be called concurrently.
type CertFiles struct {
	cert, key string
	log       *slog.Logger

	mu      sync.Mutex
	current *tls.Certificate
	version string    // the files' times and sizes when they were last read
	checked time.Time // when version was last compared
}

// OpenCertFiles reads a certificate chain and its key.
func OpenCertFiles(cert, key string, log *slog.Logger) (*CertFiles, error) {
	c := &CertFiles{cert: cert, key: key, log: log}
	return c, c.Reload()
}

// Reload reads the files at once. If that fails, the certificate of before stays.
func (c *CertFiles) Reload() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.load()
}

func (c *CertFiles) load() error {
	version, err := c.stat()
	if err != nil {
		return fmt.Errorf("read TLS certificate: %w", err)
	}
	c.version, c.checked = version, time.Now() // a broken file is read again only after its next change
	pair, err := LoadCertificate(c.cert, c.key)
	if err != nil {
		return err
	}
	c.current = &pair
	return nil
}

// MaxPEM bounds a file of certificates or a key, in bytes.
const MaxPEM = 16 << 20

// LoadCertificate reads a certificate chain and its key, in PEM. The files may be
// links, as those of ACME clients are, but a pipe, which may never end, is refused.
func LoadCertificate(cert, key string) (tls.Certificate, error) {
	chain, err1 := safefile.ReadLinked(cert, MaxPEM)
	secret, err2 := safefile.ReadLinked(key, MaxPEM)
	err := errors.Join(err1, err2)
	var pair tls.Certificate
	if err == nil {
		pair, err = tls.X509KeyPair(chain, secret)
	}
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("read TLS certificate %s with key %s: %w", cert, key, err)
	}
	return pair, nil
}

// Get returns the certificate for a handshake. It is a GetCertificate of [tls.Config].
func (c *CertFiles) Get(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	return c.checkedNow(hello.Context()), nil
}

// GetClient returns the certificate for a handshake of a client. It is a GetClientCertificate of [tls.Config].
func (c *CertFiles) GetClient(request *tls.CertificateRequestInfo) (*tls.Certificate, error) {
	return c.checkedNow(request.Context()), nil
}

func (c *CertFiles) checkedNow(ctx context.Context) *tls.Certificate {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.checked) < certCheck {
		return c.current
	}
	c.checked = time.Now()
	version, err := c.stat()
	if err == nil && version != c.version {
		err = c.load()
	}
	if err != nil {
		c.log.WarnContext(ctx, "cannot read the new TLS certificate; the old one stays", "err", err)
	}
	return c.current
}

func (c *CertFiles) stat() (string, error) {
	cert, err1 := os.Stat(c.cert)
	key, err2 := os.Stat(c.key)
	if err := errors.Join(err1, err2); err != nil {
		return "", err
	}
	return fmt.Sprint(cert.ModTime().UnixNano(), cert.Size(), key.ModTime().UnixNano(), key.Size()), nil
}
