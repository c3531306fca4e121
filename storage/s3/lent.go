package s3

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"sync"
)

// lending is a transport that reads nothing of the body of a request after RoundTrip has
// returned. That of net/http may: when an answer comes before all was sent, or the context
// ends, it lets go of the body only later. But then the body is sent again, from its beginning,
// or the buffer below it has been lent to the next upload.
type lending struct{ http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (l lending) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return l.RoundTripper.RoundTrip(r)
	}
	body := &lent{ReadCloser: r.Body}
	defer body.takeBack()
	r = r.WithContext(r.Context()) // a copy: it is not ours to change
	r.Body = body
	resp, err := l.RoundTripper.RoundTrip(r)
	if err == nil && resp.StatusCode >= http.StatusMultipleChoices {
		// To take the body back may end the connection, and with it this answer.
		err = gather(resp)
	}
	return resp, err
}

// maxAnswer is more than the text of any error.
const maxAnswer = 1 << 20

// gather reads the whole answer.
func gather(resp *http.Response) error {
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return err
	}
	resp.Body = io.NopCloser(bytes.NewReader(text))
	return nil
}

// lent is a body that can be taken back.
type lent struct {
	io.ReadCloser
	mu   sync.Mutex
	back bool
}

var errTakenBack = errors.New("the body of the request was taken back")

// Read implements [io.Reader].
func (l *lent) Read(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.back {
		return 0, errTakenBack
	}
	return l.ReadCloser.Read(p)
}

func (l *lent) takeBack() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.back = true
}
