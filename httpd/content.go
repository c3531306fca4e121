package httpd

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// Each part of a content has this long to be sent, however large the content is.
const (
	pace     = time.Minute
	paceSize = 8 << 20 // bytes
)

// ServeContent is [http.ServeContent] for a content of size bytes, whose ETag and Content-Type are set. It gives each part
// a deadline of its own, and keeps the way by which the system sends a file without copying it. A range outside of the
// content is an error of status 416, and a range in another unit than bytes is ignored.
func ServeContent(w http.ResponseWriter, r *http.Request, content io.ReadSeeker, size int64) error {
	if !strings.HasPrefix(r.Header.Get("Range"), "bytes=") {
		r.Header.Del("Range")
	}
	paced := &pacedWriter{ResponseWriter: w, control: http.NewResponseController(w)}
	http.ServeContent(paced, r, "", time.Time{}, content)
	if paced.outside {
		return &StatusError{
			Status: http.StatusRequestedRangeNotSatisfiable, Header: http.Header{"Content-Range": {fmt.Sprintf("bytes */%d", size)}},
			Err: fmt.Errorf("there are %d bytes, and none of those in Range", size),
		}
	}
	return nil
}

// pacedWriter gives each part of a response a deadline of its own.
type pacedWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	outside bool // no byte of the content is in the range, and nothing was sent
}

func (w *pacedWriter) extend() error { return w.control.SetWriteDeadline(time.Now().Add(pace)) }

// WriteHeader implements http.ResponseWriter. The body of an error is not for net/http to write.
func (w *pacedWriter) WriteHeader(status int) {
	if status == http.StatusRequestedRangeNotSatisfiable {
		w.outside = true
		return
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements io.Writer.
func (w *pacedWriter) Write(p []byte) (int, error) {
	if w.outside {
		return len(p), nil
	}
	if err := w.extend(); err != nil {
		return 0, err
	}
	return w.ResponseWriter.Write(p)
}

// ReadFrom implements io.ReaderFrom.
func (w *pacedWriter) ReadFrom(src io.Reader) (n int64, err error) {
	limited, ok := src.(*io.LimitedReader)
	if !ok {
		limited = &io.LimitedReader{R: src, N: 1<<63 - 1}
	}
	for limited.N > 0 {
		if err := w.extend(); err != nil {
			return n, err
		}
		sent, err := io.CopyN(w.ResponseWriter, limited.R, min(limited.N, paceSize))
		n, limited.N = n+sent, limited.N-sent
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
	return n, nil
}
