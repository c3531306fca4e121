package httpd_test

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/internal/testnet"
)

// listening runs s on loopback until the test ends and returns its address.
func listening(t *testing.T, s *httpd.Server) string {
	t.Helper()
	s.Log = slog.New(slog.DiscardHandler)
	addr, _ := testnet.Serve(t, testnet.AnyPort, s.Serve)
	return addr
}

// wire sends text, byte for byte, and returns the answers until the server says
// that it closes, or just does.
func wire(t *testing.T, addr, text string) (answers []reply) {
	t.Helper()
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.WriteString(c, text) }() // the server may close before it has all
	in := bufio.NewReader(c)
	for {
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			if e, ok := err.(net.Error); ok && e.Timeout() { //nolint:errorlint // straight from the connection
				t.Errorf("the connection stays open after %d answers", len(answers))
			}
			return answers
		}
		body, _ := io.ReadAll(resp.Body) // what there is of it
		resp.Body.Close()
		answers = append(answers, reply{resp.StatusCode, resp.Close, resp.Header, string(body)})
		if resp.Close {
			return answers
		}
	}
}

func TestZ03NastyRequestsOnTheWire(t *testing.T) {
	const (
		end  = "Connection: close\r\n\r\n"
		post = "POST /jobs/1 HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer t\r\nContent-Type: application/json\r\n"
	)
	tests := []struct {
		name, send string
		want       string // statuses; j: with a body of the API, p: of net/http
	}{
		{"a good one", post + "Content-Length: 7\r\n" + end + `{"n":1}`, "200"},
		{"two Authorization headers", "POST /jobs/1 HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer a\r\nAuthorization: Bearer b\r\n" + end, "401j"},
		{"announced too large", post + "Content-Length: 1001\r\n\r\n", "413j"},
		{"announced too large, asks first", post + "Expect: 100-continue\r\nContent-Length: 1001\r\n\r\n", "413j"},
		{"asks first", post + "Expect: 100-continue\r\nContent-Length: 7\r\n" + end + `{"n":1}`, "100 200"},
		{"sent too large, more to come", post + "Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat("64\r\n"+strings.Repeat(" ", 100)+"\r\n", 5000), "413j"},
		{"chunk size is nonsense", post + "Transfer-Encoding: chunked\r\n\r\nzz\r\n", "400j"},
		{"chunk of huge size", post + "Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n", "400j"},
		{"two lengths", post + "Content-Length: 7\r\nContent-Length: 8\r\n\r\n{\"n\":1}", "400p"},
		{"negative length", post + "Content-Length: -1\r\n\r\n", "400p"},
		{"length with a plus", post + "Content-Length: +7\r\n\r\n{\"n\":1}", "400p"},
		{"unknown coding", post + "Transfer-Encoding: chunked, identity\r\n\r\n", "501p"},
		{"coding in disguise", post + "Transfer-Encoding : chunked\r\n\r\n", "400p"},
		{"folded header", post + "X-A: b\r\n Content-Length: 7\r\n" + end, "400j"}, // joined: it is no header of its own
		{"bare CR in a header", post + "X-A: b\rContent-Length: 7\r\n" + end, "400p"},
		{"NUL in a header", post + "X-A: b\x00\r\n" + end, "400p"},
		{"NUL in the path", "GET /read/\x00 HTTP/1.1\r\nHost: h\r\n" + end, "400p"},
		{"broken escape in the path", "GET /read/%zz HTTP/1.1\r\nHost: h\r\n" + end, "400p"},
		{"header too large", "GET /read/x HTTP/1.1\r\nHost: h\r\nX-A: " + strings.Repeat("x", 80<<10) + "\r\n" + end, "431p"},
		{"no host", "GET /read/x HTTP/1.1\r\n" + end, "400p"},
		{"two hosts", "GET /read/x HTTP/1.1\r\nHost: a\r\nHost: b\r\n" + end, "400p"},
		{"HTTP/1.0", "GET /read/x HTTP/1.0\r\n\r\n", "200"},
		{"HTTP/1.0, no route", "GET /x HTTP/1.0\r\n\r\n", "404j"},
		{"HTTP/0.9", "GET /read/x\r\n\r\n", "400p"},
		{"HTTP/3.0", "GET /read/x HTTP/3.0\r\nHost: h\r\n\r\n", "505p"},
		{"HTTP/2 without TLS", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "404j"},
		{"TLS to a plain port", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", "400p"},
		{"pipelining", "GET /read/x HTTP/1.1\r\nHost: h\r\n\r\nGET /x HTTP/1.1\r\nHost: h\r\n\r\nGET /read/y HTTP/1.1\r\nHost: h\r\n" + end, "200 404j 200"},
		{"a body where none is read", "GET /x HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nHELLOGET /read/x HTTP/1.1\r\nHost: h\r\n" + end, "404j 200"},
		{"absolute form", "GET http://other/read/x HTTP/1.1\r\nHost: h\r\n" + end, "200"},
		{"absolute form, no path", "GET http://other HTTP/1.1\r\nHost: h\r\n" + end, "404j"},
		{"absolute form, climbing", "GET http://other/tree/%2e%2e/x HTTP/1.1\r\nHost: h\r\n" + end, "404j"},
		{"climbing", "GET /files/../../etc/passwd HTTP/1.1\r\nHost: h\r\n" + end, "404j"},
		{"climbing, encoded", "GET /files/%2e%2e/%2E./etc HTTP/1.1\r\nHost: h\r\n" + end, "404j"},
		{"climbing, encoded slash", "GET /read/..%2f..%2fetc HTTP/1.1\r\nHost: h\r\n" + end, "404j"},
		{"climbing, backslash", "GET /read/..\\..\\etc HTTP/1.1\r\nHost: h\r\n" + end, "404j"},
		{"double slashes", "GET //read//x HTTP/1.1\r\nHost: h\r\n" + end, "404j"},
		{"encoded NUL", "GET /read/%00 HTTP/1.1\r\nHost: h\r\n" + end, "404j"},
		{"OPTIONS *", "OPTIONS * HTTP/1.1\r\nHost: h\r\n" + end, "404j"},
		{"CONNECT", "CONNECT h:80 HTTP/1.1\r\nHost: h\r\n" + end, "404j"},
		{"CONNECT with a path", "CONNECT /files/x HTTP/1.1\r\nHost: h\r\n" + end, "405j"},
		{"small letters", "get /read/x HTTP/1.1\r\nHost: h\r\n" + end, "405j"},
		{"panic", "GET /fail/panic HTTP/1.1\r\nHost: h\r\n" + end, "500j"},
		{"half an answer", "GET /fail/half HTTP/1.1\r\nHost: h\r\n\r\n", ""},
		{"length beside chunks", post + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\nGET /read/smuggled HTTP/1.1\r\nHost: h\r\n" + end, "200"},
		{"length beside chunks, refused", post + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n0\r\n\r\nGET /read/smuggled HTTP/1.1\r\nHost: h\r\n" + end, "400j"},
	}
	api, _ := testAPI()
	addr := listening(t, &httpd.Server{Handler: api})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			answers := wire(t, addr, tt.send)
			var got []string
			for i, a := range answers {
				got = append(got, fmt.Sprint(a.status))
				switch kind := a.header.Get("Content-Type"); {
				case a.status >= 400 && kind == "application/json":
					got[i] += "j"
					checkError(t, a.header, []byte(a.body))
				case a.status >= 400:
					got[i] += "p"
				}
			}
			if all := strings.Join(got, " "); all != tt.want {
				t.Errorf("answered %s, want %s\n%+v", all, tt.want, answers)
			}
		})
	}
}

func TestHalfAnAnswerIsNotTakenForTheWhole(t *testing.T) {
	api, _ := testAPI()
	addr := listening(t, &httpd.Server{Handler: api})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+"/fail/half", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return // cut before the header went out
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err == nil {
		t.Errorf("a client takes %q for the answer", body)
	}
}
