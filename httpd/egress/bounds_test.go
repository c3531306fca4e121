package egress

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchfleet/batchfleet/internal/pipenet"
	"github.com/batchfleet/batchfleet/jobs"
)

const day = 24 * time.Hour

func TestR54CallsThatStallFail(t *testing.T) {
	for _, tt := range []struct {
		name   string
		server func(net.Conn)
		moved  time.Duration // how long bytes move before nothing does
	}{
		{"nothing of the request is read", func(net.Conn) {}, 0},
		{"a part of the body is read", func(c net.Conn) { _, _ = io.CopyN(io.Discard, c, 100_000) }, 0},
		{"the body is read for a quarter of an hour", func(c net.Conn) { readSlowly(c, 92) }, 920 * time.Second},
		{"there is no answer", func(c net.Conn) { readRequest(c) }, 0},
		{"a part of the answer comes", func(c net.Conn) {
			readRequest(c)
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc")
		}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := inMemory(t, tt.server)
				began := time.Now()
				got, err := c.Do(t.Context(), &Request{Method: http.MethodPut, URL: "https://hooks.example", Body: zeros, Length: 1 << 20, Timeout: day, Stall: time.Minute, ResponseLimit: 1000})
				took := time.Since(began) - tt.moved
				if !errors.Is(err, jobs.ErrUnavailable) || !strings.Contains(errorText(err), "no byte was sent or received for 1m0s") {
					t.Errorf("got %+v, %v; want a stall", got, err)
				}
				if took < time.Minute || took > time.Minute*5/4 {
					t.Errorf("it took %s after the last byte", took)
				}
			})
		})
	}
}

func TestR54SlowCallsGoOn(t *testing.T) {
	slowly := func(c net.Conn) {
		readSlowly(c, -1)
		for _, b := range []byte("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") {
			time.Sleep(time.Second)
			_, _ = c.Write([]byte{b})
		}
	}
	cfg, pool := certified(t, "hooks.example")
	for name, secure := range map[string]bool{"with TLS": true, "without TLS": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := inMemory(t, func(c net.Conn) {
					if secure {
						c = tls.Server(c, cfg)
					}
					slowly(c)
				})
				if secure {
					c.transport.DialTLSContext, c.transport.TLSClientConfig.RootCAs = nil, pool
				}
				got, err := c.Do(t.Context(), &Request{Method: http.MethodPut, URL: "https://hooks.example", Body: zeros, Length: 1 << 20, Timeout: day, Stall: time.Minute})
				if err != nil || got.Status != http.StatusOK {
					t.Errorf("got %+v, %v", got, err)
				}
			})
		})
	}
}

func TestR63R65ResponsesAreBounded(t *testing.T) {
	const (
		head = "HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n"
		cut  = `200 "aaaaa" true`
		fast = 3 * time.Second // where the server goes on without waiting
	)
	for _, tt := range []struct {
		name   string
		begin  string
		again  string        // until the connection is closed
		wait   time.Duration // before each time
		limit  int64
		within time.Duration
		want   string
	}{
		{"a body without end is not kept", head, strings.Repeat("a", 1000), 0, 0, fast, `200 "" false`},
		{"a body without end is cut", head, "aaaaaaaaaa", 0, 5, fast, cut},
		{"chunks without end are cut", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "1\r\na\r\n", 0, 5, fast, cut},
		{"a body that is not kept delays nothing", head, "a", time.Hour, 0, fast, `200 "" false`},
		{"a slow body that is kept ends", head, "a", 10 * time.Second, 100, 3 * time.Minute, "the answer does not end"},
		{"slow headers end", "HTTP/1.1 200 OK\r\nA: ", "a", 10 * time.Second, 0, 3 * time.Minute, "too long to connect or to answer"},
		{"a header without end", "HTTP/1.1 200 OK\r\nA: ", "aaaaaaaaaa", 0, 0, fast, "headers are too long"},
		{"headers without end", "HTTP/1.1 200 OK\r\n", "A: b\r\n", 0, 0, fast, "headers are too long"},
		{"a status without end", "HTTP/1.1 200 ", "a", 0, 0, fast, "headers are too long"},
		{"1xx without end", "", "HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n", 0, 0, fast, "headers are too long"},
		{"100 without end", "", "HTTP/1.1 100 Continue\r\n\r\n", 0, 0, fast, "headers are too long"},
		{"slow 1xx end", "", "HTTP/1.1 103 Early Hints\r\n\r\n", 10 * time.Second, 0, 3 * time.Minute, "too long to connect or to answer"},
		{"another protocol", "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: a\r\n\r\n", "a", 0, 0, fast, `101 "" false`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var sent atomic.Int64
				c := inMemory(t, func(c net.Conn) {
					readRequest(c)
					_, err := io.WriteString(c, tt.begin)
					for err == nil {
						time.Sleep(tt.wait)
						_, err = io.WriteString(c, tt.again)
						sent.Add(int64(len(tt.again)))
					}
				})
				began := time.Now()
				r := &Request{URL: "https://hooks.example", Timeout: day, Stall: time.Hour, ResponseLimit: tt.limit}
				answer, err := c.Do(t.Context(), r)
				got := fmt.Sprintf("%d %q %t", answer.Status, answer.Body, answer.Cut)
				if err != nil {
					got = err.Error()
				}
				if !strings.HasSuffix(got, tt.want) || time.Since(began) > tt.within {
					t.Errorf("got %s after %s, want %s within %s", got, time.Since(began), tt.want, tt.within)
				}
				c.Close()
				synctest.Wait()
				if n := sent.Load(); n > 80_000 {
					t.Errorf("the server could send %d bytes", n)
				}
			})
		})
	}
}

func TestR63CallsEndInTime(t *testing.T) {
	for _, tt := range []struct{ timeout, want time.Duration }{{0, 15 * time.Second}, {time.Second, time.Second}, {time.Minute, time.Minute}} {
		synctest.Test(t, func(t *testing.T) {
			c := inMemory(t, func(net.Conn) {})
			began := time.Now()
			_, err := c.Do(t.Context(), &Request{URL: "https://hooks.example", Timeout: tt.timeout})
			if !errors.Is(err, jobs.ErrUnavailable) || !strings.Contains(err.Error(), "no answer within "+tt.want.String()) || time.Since(began) != tt.want {
				t.Errorf("got %v after %s, want %s", err, time.Since(began), tt.want)
			}
		})
	}
}

// inMemory returns a client whose connections, without TLS, are each served by a call of serve. They stay open until
// the client closes them.
func inMemory(t *testing.T, serve func(net.Conn)) *Client {
	t.Helper()
	c := New(Policy{Hosts: []string{"hooks.example"}})
	pipes := pipenet.Listen()
	c.dial = pipes.Dial
	c.transport.DialTLSContext = c.connect // TLS has bytes of its own
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := pipes.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				serve(conn)
				_, _ = io.Copy(io.Discard, stubborn{conn}) // until it is closed
				_ = conn.Close()
			})
		}
	})
	t.Cleanup(func() {
		c.Close()
		_ = pipes.Close()
		serving.Wait()
	})
	return c
}

// stubborn is a connection that is not read, but whose end is noticed.
type stubborn struct{ net.Conn }

func (s stubborn) Read([]byte) (int, error) {
	for {
		// A write of nothing tells whether the other end of a pipe is closed.
		if _, err := s.Write(nil); err != nil {
			return 0, err
		}
		time.Sleep(time.Second)
	}
}

// readRequest reads all of a request.
func readRequest(c net.Conn) {
	if r, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
		_, _ = io.Copy(io.Discard, r.Body)
	}
}

// readSlowly reads a request 8 KiB each 10 s, n times or to its end.
func readSlowly(c net.Conn, n int) {
	r, err := http.ReadRequest(bufio.NewReaderSize(c, 16))
	for ; err == nil && n != 0; n-- {
		time.Sleep(10 * time.Second)
		_, err = io.CopyN(io.Discard, r.Body, 8192)
	}
}

// zeros opens a body of a MiB.
func zeros() (io.ReadCloser, error) { return io.NopCloser(io.LimitReader(zero{}, 1<<20)), nil }

type zero struct{}

func (zero) Read(p []byte) (int, error) { clear(p); return len(p), nil }
