package emulator

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"golang.org/x/net/http2"
)

// A slowConn hands out one byte a read.
type slowConn struct {
	net.Conn
	r io.Reader
}

func (c slowConn) Read(p []byte) (int, error) { return c.r.Read(p) }

func TestE02ProtocolIsToldByTheFirstBytes(t *testing.T) {
	tests := []struct {
		name, sent string
		http2, ok  bool
	}{
		{"preface", http2.ClientPreface, true, true},
		{"get", "GET / HTTP/1.1\r\n\r\n", false, true},
		{"put, two letters alike", "PUT / HTTP/1.1\r\n\r\n", false, true},
		{"PRI with another version", "PRI * HTTP/1.1\r\n\r\n", false, true},
		{"one byte", "x", false, true},
		{"cut preface", "PRI * HT", false, false},
		{"nothing", "", false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ours, theirs := net.Pipe()
			defer closeIt(t, ours)
			defer closeIt(t, theirs)
			conn, isHTTP2, err := recognize(slowConn{ours, iotest.OneByteReader(strings.NewReader(tt.sent))})
			if (err == nil) != tt.ok || isHTTP2 != tt.http2 {
				t.Fatalf("recognize: http2 %v, %v", isHTTP2, err)
			}
			if err != nil {
				return
			}
			if got, err := io.ReadAll(conn); string(got) != tt.sent || err != nil {
				t.Errorf("connection yields %q, %v; want all that was sent", got, err)
			}
		})
	}
}

func TestE02KeptAliveHTTPAndGRPCShareThePort(t *testing.T) {
	_, addr := start(t)
	topics, subs := clients(t, addr)
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
	must(t, err)
	defer closeIt(t, conn)
	in := bufio.NewReader(conn)
	for range 3 {
		publishOne(t, topics, "x")
		pullOne(t, subs)
		if _, err := io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(in, nil)
		must(t, err)
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			t.Error(err)
		}
		if err := resp.Body.Close(); err != nil {
			t.Error(err)
		}
		if resp.StatusCode != http.StatusOK {
			t.Errorf("healthz: %s", resp.Status)
		}
	}
}
