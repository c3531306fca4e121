package client

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/safefile"
)

// newTransport returns a transport that keeps at most connections open. When roots is
// nil it trusts the system's certificates; when proxy is nil the environment names
// the proxy.
func newTransport(proxy func(*http.Request) (*url.URL, error), roots *x509.CertPool, connections int) *http.Transport {
	if proxy == nil {
		proxy = http.ProxyFromEnvironment
	}
	return &http.Transport{
		Proxy:               proxy,
		DialContext:         (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
		TLSClientConfig:     &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout: 10 * time.Second,
		// A server that does not know of it gets the content after this time.
		ExpectContinueTimeout: 2 * time.Second,
		ForceAttemptHTTP2:     true,
		MaxIdleConns:          connections,
		MaxIdleConnsPerHost:   connections,
		IdleConnTimeout:       90 * time.Second,
		DisableCompression:    true, // so that the length of a response is what its header says
		// All calls may share one connection of HTTP/2. When a NAT on the way has
		// forgotten it, calls must fail before a lease does.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 10 * time.Second},
	}
}

// noRedirects is a CheckRedirect that follows nothing: the token must not go to
// another address.
func noRedirects(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// ErrCAFile marks what is wrong with a file of certificates.
var ErrCAFile = errors.New("read CA file")

// trusted returns the system's certificates and those in file, which is in PEM; nil
// for the system's alone when there is no file.
func trusted(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil //nolint:nilnil // the system's, to package tls
	}
	pem, err := safefile.ReadLinked(file, httpd.MaxPEM)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCAFile, err)
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%w: %s holds no certificate in PEM (-----BEGIN CERTIFICATE-----)", ErrCAFile, file)
	}
	return roots, nil
}
