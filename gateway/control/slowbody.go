package control

import (
	"io"
	"net/http"
	"time"
)

// uncheckedBytes is how much is read of the body of a worker whose token has not been
// checked yet: the script that does the work checks it, after the body.
const uncheckedBytes = 64 << 10

// A large body of a worker may take longer than the server lets requests take:
// it must come at minRate bytes a second over all, the same that the worker's end
// waits for, and never stand still for maxSilence.
const (
	minRate    = 32 << 10
	maxSilence = 30 * time.Second
	answerTime = time.Minute // what is left then to store it and to answer
)

// body is a request's body that is read beyond uncheckedBytes only after authorize, and in
// its own time from then on.
type body struct {
	io.ReadCloser
	left      int
	authorize func() error
	err       error // of authorize
	size      int64 // that it may have
	conn      *http.ResponseController
	over      time.Time // when it must have come; zero before authorize
}

func (b *body) Read(p []byte) (int, error) {
	if b.left == 0 && b.authorize != nil {
		b.err = b.authorize()
		b.authorize = nil
		if b.err == nil {
			b.over = time.Now().Add(maxSilence + time.Duration(b.size)*time.Second/minRate)
			_ = b.conn.SetWriteDeadline(b.over.Add(answerTime)) // a server that cannot do this has its own times
		}
	}
	if b.err != nil {
		return 0, b.err
	}
	if !b.over.IsZero() {
		_ = b.conn.SetReadDeadline(time.Now().Add(min(maxSilence, time.Until(b.over))))
	}
	if b.authorize != nil && len(p) > b.left {
		p = p[:b.left]
	}
	n, err := b.ReadCloser.Read(p)
	b.left = max(0, b.left-n)
	return n, err
}
