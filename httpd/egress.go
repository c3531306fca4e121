package httpd

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// What follows is for those who ask a server: an address that a token may be sent
// to, a client that sends it nowhere else, and what of an answer may be believed.

// ParseBase checks the address of a server that is asked with a token: https, or
// http to this machine, with a path but nothing else. server and token are what
// an error calls the two: "gateway", "the worker's token". It does not repeat what
// may be a password.
func ParseBase(server, token, s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil {
		return nil, fmt.Errorf("%s address is not a URL: write https://host, with a port and a path where there is one", server)
	}
	bad := func(problem string) error {
		if u.Host == "" { // what there is may be anything
			return fmt.Errorf("%s address %s", server, problem)
		}
		return fmt.Errorf("%s address %s %s", server, &url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}, problem)
	}
	switch {
	case u.User != nil:
		return nil, bad("must not hold a user or password: " + token + " is all it needs")
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, bad("must begin with https://")
	case u.Hostname() == "":
		return nil, bad("names no host")
	case u.RawQuery != "" || u.Fragment != "" || u.ForceQuery:
		return nil, bad("must not have a query or a fragment")
	case u.Scheme == "http" && !IsLoopback(u.Hostname()):
		return nil, bad("must begin with https://: by plain http anyone on the way could read " + token + " (http is for this machine only)")
	}
	u.Path = strings.TrimRight(u.Path, "/")
	u.RawPath = ""
	return u, nil
}

// IsLoopback reports whether a host, without a port, is this machine by its name
// or address.
func IsLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}

// NewTransport returns a transport that keeps so many connections open. It trusts
// the system's certificates when roots is nil, and asks the environment for a
// proxy when proxy is.
func NewTransport(proxy func(*http.Request) (*url.URL, error), roots *x509.CertPool, connections int) *http.Transport {
	if proxy == nil {
		proxy = http.ProxyFromEnvironment
	}
	return &http.Transport{
		Proxy:               proxy,
		DialContext:         (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
		TLSClientConfig:     &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout: 10 * time.Second,
		ForceAttemptHTTP2:   true,
		MaxIdleConns:        connections,
		MaxIdleConnsPerHost: connections,
		IdleConnTimeout:     90 * time.Second,
		DisableCompression:  true, // an answer is then as long as it says
		// All calls may share one connection of HTTP/2. When a NAT on the way has
		// forgotten it, calls must fail before a lease does.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 10 * time.Second},
	}
}

// StayHere is a CheckRedirect that follows nothing: wherever a redirect leads, it
// is not where the token belongs.
func StayHere(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Redirected says, of an answer that StayHere did not follow, where it leads.
func Redirected(resp *http.Response) string {
	to := "somewhere else"
	if l, err := resp.Location(); err == nil {
		l.User, l.RawQuery, l.Fragment = nil, "", ""
		to = l.String()
	}
	return fmt.Sprintf("it redirects to %.200s, which is not followed", to)
}

// TrustedCAs returns the system's certificates and those in a text in PEM.
func TrustedCAs(pem []byte) (*x509.CertPool, error) {
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	if !roots.AppendCertsFromPEM(pem) {
		return nil, errors.New("no certificate in PEM (-----BEGIN CERTIFICATE-----)")
	}
	return roots, nil
}

// MaxRetryAfter bounds how long an answer can keep a caller from asking again.
const MaxRetryAfter = 10 * time.Minute

// RetryAfter reads the header Retry-After: seconds, or a date. It returns 0 for
// what it cannot read, and at most 10 minutes.
func RetryAfter(s string, now time.Time) time.Duration {
	var d time.Duration
	if n, err := strconv.ParseUint(s, 10, 31); err == nil {
		d = time.Duration(n) * time.Second
	} else if at, err := http.ParseTime(s); err == nil {
		d = at.Sub(now)
	}
	return max(0, min(d, MaxRetryAfter))
}

// maxQuote is how many bytes of a strange answer an error quotes.
const maxQuote = 200

// Quote returns the beginning of s for an error message. What is secret must have
// been taken out before: the cut could take the end off it.
func Quote(s string) string {
	if len(s) > maxQuote {
		return fmt.Sprintf("%q…", Clip(s, maxQuote))
	}
	return fmt.Sprintf("%q", s)
}

// Clip returns at most limit bytes from the beginning of s, as valid UTF-8.
func Clip(s string, limit int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}
