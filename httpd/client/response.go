package client

import (
	"bytes"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/redact"
)

// HasMedia reports whether a response is of a media type, such as application/json.
func HasMedia(resp *http.Response, want string) bool {
	media, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return err == nil && media == want
}

// Redirected tells where a response redirects to. Redirects are not followed.
func Redirected(resp *http.Response) string {
	to := "somewhere else"
	if l, err := resp.Location(); err == nil {
		l.User, l.RawQuery, l.Fragment = nil, "", ""
		to = l.String()
	}
	return fmt.Sprintf("it redirects to %.200s, which is not followed", to)
}

// speaksTLS is how servers written in Go, and nginx, answer a request without TLS.
var speaksTLS = [][]byte{[]byte("HTTP request to an HTTPS server"), []byte("plain HTTP request was sent to HTTPS port")}

// WantsTLS reports whether a response says that the server speaks TLS, which the request did not.
func WantsTLS(resp *http.Response, text []byte) bool {
	return resp.StatusCode == http.StatusBadRequest &&
		slices.ContainsFunc(speaksTLS, func(says []byte) bool { return bytes.Contains(text, says) })
}

// MaxRetryAfter bounds how long a response can keep a caller from asking again.
const MaxRetryAfter = 10 * time.Minute

// RetryAfter reads the header Retry-After of a response: seconds, or a date. It returns 0 for
// what it cannot read, and at most 10 minutes.
func RetryAfter(resp *http.Response) time.Duration {
	s := resp.Header.Get("Retry-After")
	var d time.Duration
	if n, err := strconv.ParseUint(s, 10, 31); err == nil {
		d = time.Duration(n) * time.Second
	} else if at, err := http.ParseTime(s); err == nil {
		d = time.Until(at)
	}
	return max(0, min(d, MaxRetryAfter))
}

// maxQuote is how many bytes of an unexpected response an error quotes.
const maxQuote = 200

// Quote returns the beginning of a response for an error message, without secrets.
func Quote(text []byte) string {
	s := redact.Reason(string(text)) // before it is shortened, which could cut a secret in two
	if len(s) > maxQuote {
		return fmt.Sprintf("%q…", jobs.Clip(s, maxQuote, ""))
	}
	return fmt.Sprintf("%q", s)
}
