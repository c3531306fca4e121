package egress

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
)

const canary = "canaryQ7"

// What was sent may be a secret, and what a server has sent is not for those who chose it.
func TestR71R65ErrorsShowNeitherRequestNorResponse(t *testing.T) {
	says := func(answer string) func(net.Conn) {
		return func(c net.Conn) {
			readRequest(c)
			_, _ = io.WriteString(c, answer)
			_ = c.Close()
		}
	}
	others, _ := certified(t, canary)
	for _, tt := range []struct {
		name   string
		server func(net.Conn)
		change func(*Client, *Request)
		want   string
	}{
		{"another protocol", says("SSH-2.0-" + canary + "\r\n"), nil, "its answer is not HTTP"},
		{"a bad status", says("HTTP/1.1 " + canary + "\r\n\r\n"), nil, "its answer is not HTTP"},
		{"a bad header", says("HTTP/1.1 200 OK\r\n" + canary + "\r\n\r\n"), nil, "its answer is not HTTP"},
		{"a bad length", says("HTTP/1.1 200 OK\r\nContent-Length: " + canary + "\r\n\r\n"), nil, "its answer is not HTTP"},
		{"a bad encoding", says("HTTP/1.1 200 OK\r\nTransfer-Encoding: " + canary + "\r\n\r\n"), nil, "its answer is not HTTP"},
		{"a bad chunk", says("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + canary + "\r\n"), nil, "its answer is not HTTP"},
		{"a short body", says("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" + canary), nil, "closed the connection"},
		{"no answer", says(""), nil, "closed the connection"},
		{"silence", func(net.Conn) {}, nil, "no answer within 1m0s"},
		{"a stall", func(net.Conn) {}, func(_ *Client, r *Request) { r.Stall = time.Second }, "no byte was sent"},
		{"no connection", nil, func(c *Client, _ *Request) {
			c.dial = func(context.Context, string, string) (net.Conn, error) {
				return nil, &net.OpError{Op: "dial", Source: &net.UnixAddr{Name: canary}, Err: syscall.ECONNREFUSED}
			}
		}, "connection refused"},
		{"no name", nil, func(c *Client, _ *Request) {
			c.dial = func(context.Context, string, string) (net.Conn, error) {
				return nil, &net.DNSError{Err: canary, Name: canary, Server: canary}
			}
		}, "DNS does not answer"},
		{"an unknown error", nil, func(c *Client, _ *Request) {
			c.dial = func(context.Context, string, string) (net.Conn, error) { return nil, errors.New(canary) }
		}, "its answer is not HTTP"},
		{"a certificate for others", func(c net.Conn) { readRequest(tls.Server(c, others)) }, func(c *Client, _ *Request) {
			c.transport.DialTLSContext = nil
		}, "it is for another host"},
		{"a URL that is refused", nil, func(_ *Client, r *Request) { r.URL += "#" }, "fragment"},
		{"a URL that cannot be read", nil, func(_ *Client, r *Request) { r.URL += "%zz" + "\x7f" }, "percent-encoded"},
		{"a host that cannot be read", nil, func(_ *Client, r *Request) { r.URL = "https://%zz" + canary + "/" }, "not a URL"},
		{"a user", nil, func(_ *Client, r *Request) { r.URL = "https://" + canary + "@hooks.example/" }, "user"},
		{"a scheme", nil, func(_ *Client, r *Request) { r.URL = canary + "://hooks.example/" }, "https://"},
		{"a header that cannot be sent", nil, func(_ *Client, r *Request) { r.Header.Set("X-Relay-Token", canary+"\n") }, "header"},
		{"a method that cannot be sent", nil, func(_ *Client, r *Request) { r.Method = canary }, "method"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := inMemory(t, tt.server)
				r := &Request{
					Method: http.MethodPost, URL: "https://hooks.example/" + canary + "?X-Amz-Signature=" + canary, Header: http.Header{"X-Relay-Token": {canary}},
					Body: of(canary, nil), Length: int64(len(canary)), ResponseLimit: 1000, Timeout: time.Minute,
				}
				if tt.change != nil {
					tt.change(c, r)
				}
				_, err := c.Do(t.Context(), r)
				if !strings.Contains(errorText(err), tt.want) || !errors.Is(err, jobs.ErrUnavailable) && !errors.Is(err, ErrDenied) {
					t.Errorf("got %v, want %q", err, tt.want)
				}
				for e := err; e != nil; e = errors.Unwrap(e) {
					if s := fmt.Sprintf("%v %#v", e, e); strings.Contains(strings.ToLower(s), strings.ToLower(canary)) {
						t.Errorf("it shows a secret: %s", s)
					}
				}
			})
		})
	}
}

func TestTheCallersCauseIsReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := inMemory(t, func(net.Conn) {})
		enough := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(enough) })
		if _, err := c.Do(ctx, &Request{URL: "https://hooks.example", Stall: time.Minute}); err != enough { //nolint:errorlint // the cause itself
			t.Errorf("got %v, want %v", err, enough)
		}
	})
}

// certified returns the settings of a server with a certificate for a name, and what trusts it.
func certified(t *testing.T, name string) (*tls.Config, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	// In a synctest bubble it is the year 2000.
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Unix(0, 0), NotAfter: time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}, pool
}
