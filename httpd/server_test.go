package httpd_test

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/internal/testnet"
)

// bubble is a server in a synctest bubble.
type bubble struct {
	t     *testing.T
	pipes *testnet.Pipes
	stop  func()
	ended chan error
}

func inBubble(t *testing.T, s *httpd.Server, f func(*bubble)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		b := &bubble{t, testnet.NewPipes(), stop, make(chan error, 1)}
		s.Log = slog.New(slog.DiscardHandler)
		go func() { b.ended <- s.Serve(ctx, b.pipes) }()
		f(b)
		stop()
		if err := <-b.ended; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
}

// dial opens a connection and sends text on it.
func (b *bubble) dial(text string) net.Conn {
	b.t.Helper()
	client, err := b.pipes.Dial(b.t.Context(), "", "")
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { client.Close() })
	if _, err := io.WriteString(client, text); err != nil {
		b.t.Fatalf("send: %v", err)
	}
	return client
}

// reply is what counts of an answer.
type reply struct {
	status int
	closes bool
	header http.Header
	body   string
}

func readReply(t *testing.T, c io.Reader) reply {
	t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatalf("read answer: %v", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("read body of answer: %v", err)
	}
	return reply{resp.StatusCode, resp.Close, resp.Header, string(body)}
}

const getPoll = "GET /poll HTTP/1.1\r\nHost: h\r\n\r\n"

// polling answers when 30 s are over or the server stops.
func polling() http.Handler {
	api, _ := testAPI()
	api.Handle("GET /poll", func(w http.ResponseWriter, r *http.Request) error {
		select {
		case <-httpd.Stopping(r.Context()):
			return say(w, "stopping")
		case <-r.Context().Done():
			return r.Context().Err()
		case <-time.After(30 * time.Second):
			return say(w, "nothing new")
		}
	})
	api.Handle("GET /slow/{time}", func(w http.ResponseWriter, r *http.Request) error {
		d, err := time.ParseDuration(r.PathValue("time"))
		if err != nil {
			return err
		}
		select {
		case <-r.Context().Done():
			return r.Context().Err()
		case <-time.After(d):
			return say(w, "done")
		}
	})
	return api
}

func TestLongPollsLastAndEndWithTheServer(t *testing.T) {
	inBubble(t, &httpd.Server{Handler: polling()}, func(b *bubble) {
		began := time.Now()
		if got := readReply(t, b.dial(getPoll)); got.body != "nothing new" || time.Since(began) != 30*time.Second {
			t.Errorf("%q after %v", got.body, time.Since(began))
		}
		c := b.dial(getPoll)
		time.Sleep(10 * time.Second)
		began = time.Now()
		b.stop()
		if got := readReply(t, c); got.body != "stopping" || time.Since(began) != 0 {
			t.Errorf("%q %v after the stop", got.body, time.Since(began))
		}
	})
}

func TestRequestsInHandAreFinished(t *testing.T) {
	tests := []struct {
		takes  string
		status int
		ends   time.Duration
	}{
		{"7s", 200, 7 * time.Second},
		{"60s", 503, 8 * time.Second},
	}
	for _, tt := range tests {
		inBubble(t, &httpd.Server{Handler: polling()}, func(b *bubble) {
			c := b.dial("GET /slow/" + tt.takes + " HTTP/1.1\r\nHost: h\r\n\r\n")
			synctest.Wait()
			began := time.Now()
			b.stop()
			got := readReply(t, c)
			if got.status != tt.status || time.Since(began) != tt.ends || !got.closes {
				t.Errorf("work of %s: %d after %v, want %d after %v", tt.takes, got.status, time.Since(began), tt.status, tt.ends)
			}
		})
	}
}

func TestHandlersThatNeverEndDoNotKeepTheServer(t *testing.T) {
	forever := make(chan struct{})
	stuck := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-forever })
	inBubble(t, &httpd.Server{Handler: stuck}, func(b *bubble) {
		forever = make(chan struct{}) // of the bubble
		b.dial(getPoll)
		synctest.Wait()
		began := time.Now()
		b.stop()
		if err := <-b.ended; err != nil || time.Since(began) != 9*time.Second {
			t.Errorf("Serve returned %v after %v", err, time.Since(began))
		}
		b.ended <- nil
		close(forever)
	})
}

func TestRequestsThatHaveArrivedMayTakeLongerThanReadTimeout(t *testing.T) {
	body := "POST /jobs/1 HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer t\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
	late := func(w http.ResponseWriter, r *http.Request) error {
		if r.Method == http.MethodPost {
			if err := httpd.ReadJSON(w, r, 10, &struct{}{}, httpd.BodyOptions{}); err != nil {
				return err
			}
		}
		time.Sleep(100 * time.Second)
		return r.Context().Err()
	}
	for _, send := range []string{getPoll, body} {
		api := &httpd.API{Log: slog.New(slog.DiscardHandler), WriteError: writeError}
		api.Handle("/", late)
		inBubble(t, &httpd.Server{Handler: api}, func(b *bubble) {
			if got := readReply(t, b.dial(send)); got.status != 200 {
				t.Errorf("%.4s of 100 s: %+v", send, got)
			}
		})
	}
}

func TestSlowClientsAreCutOff(t *testing.T) {
	post := "POST /jobs/1 HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer t\r\nContent-Type: application/json\r\n"
	tests := []struct {
		name, send string
		drip       string // then sent every second
		status     int    // 0: nothing but the end
		after      time.Duration
	}{
		{"silence", "", "", 0, 10 * time.Second},
		{"header that never ends", "GET / HTTP/1.1\r\n", "X-A: b\r\n", 0, 10 * time.Second},
		{"body that never ends", post + "Content-Length: 900\r\n\r\n", " ", 408, time.Minute},
		{"chunks that never end", post + "Transfer-Encoding: chunked\r\n\r\n", "1\r\n \r\n", 408, time.Minute},
		{"body that never begins", post + "Content-Length: 9\r\n\r\n", "", 408, time.Minute},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			api, _ := testAPI()
			inBubble(t, &httpd.Server{Handler: api}, func(b *bubble) {
				began := time.Now()
				c := b.dial(tt.send)
				var dripping sync.WaitGroup
				dripping.Go(func() {
					for tt.drip != "" {
						time.Sleep(time.Second)
						if _, err := io.WriteString(c, tt.drip); err != nil {
							return
						}
					}
				})
				got, err := io.ReadAll(c)
				if err != nil || time.Since(began) < tt.after || time.Since(began) > tt.after+time.Second {
					t.Errorf("cut after %v, %v, want %v", time.Since(began), err, tt.after)
				}
				c.Close()
				dripping.Wait()
				if tt.status == 0 {
					if strings.Contains(string(got), "200") {
						t.Errorf("answered %q", got)
					}
					return
				}
				reply := readReply(t, strings.NewReader(string(got)))
				if reply.status != tt.status || !reply.closes {
					t.Errorf("answered %+v", reply)
				}
				checkError(t, reply.header, []byte(reply.body))
			})
		})
	}
}

func TestSlowReadersDoNotHoldTheirConnections(t *testing.T) {
	api := &httpd.API{Log: slog.New(slog.DiscardHandler), WriteError: writeError}
	failed := make(chan time.Duration, 1)
	api.Handle("GET /poll", func(w http.ResponseWriter, _ *http.Request) error {
		began := time.Now()
		_, err := w.Write(make([]byte, 1<<20))
		if err == nil {
			t.Error("all was sent to a client that does not read")
		}
		failed <- time.Since(began)
		return err
	})
	inBubble(t, &httpd.Server{Handler: api}, func(b *bubble) {
		failed = make(chan time.Duration, 1) // of the bubble
		b.dial(getPoll)
		if after := <-failed; after != 2*time.Minute {
			t.Errorf("gave up after %v, want 2 min", after)
		}
	})
}

func TestConnectionsAreBounded(t *testing.T) {
	inBubble(t, &httpd.Server{Handler: polling(), MaxConns: 2}, func(b *bubble) {
		first := b.dial(getPoll)
		b.dial(getPoll)
		ctx, cancel := context.WithTimeout(b.t.Context(), time.Second)
		defer cancel()
		if _, err := b.pipes.Dial(ctx, "", ""); err == nil {
			t.Fatal("a third connection was accepted")
		}
		first.Close()
		b.dial(getPoll)
	})
}
