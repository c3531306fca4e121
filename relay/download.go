package relay

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/jobs"
)

// artifact answers with a file that a task has made, or with a part of it.
func (s *server) artifact(w http.ResponseWriter, r *http.Request, id jobs.ID) error {
	t, err := s.relay.tasks.Get(id)
	if err != nil {
		return err
	}
	a, ok := t.artifact(r.PathValue("name"))
	if !ok { // as before it is uploading, when the index is empty
		return fmt.Errorf("artifact: %w", fs.ErrNotExist)
	}
	f, err := s.relay.tasks.openArtifact(id, a)
	if err != nil {
		return err
	}
	defer f.Close()
	h := w.Header()
	h.Set("Content-Type", a.ContentType)
	h.Set("ETag", `"`+a.SHA256+`"`)
	h.Set("Content-Disposition", `attachment; filename="`+a.Name+`"; filename*=UTF-8''`+a.Name) // names have only letters, digits and ._-
	if sum, err := hex.DecodeString(a.SHA256); err == nil {
		h.Set("Repr-Digest", "sha-256=:"+base64.StdEncoding.EncodeToString(sum)+":")
	}
	if !strings.HasPrefix(r.Header.Get("Range"), "bytes=") {
		r.Header.Del("Range") // units that are not known are ignored
	}
	paced := &pacedWriter{ResponseWriter: w, control: http.NewResponseController(w)}
	http.ServeContent(paced, r, "", time.Time{}, f)
	if paced.outside {
		return &httpd.StatusError{
			Status: http.StatusRequestedRangeNotSatisfiable, Header: http.Header{"Content-Range": {fmt.Sprintf("bytes */%d", a.Size)}},
			Err: fmt.Errorf("the artifact has %d bytes, and none of those in Range", a.Size),
		}
	}
	return nil
}

// Each part of an artifact has this long to be sent, however large the artifact is.
const (
	pace     = time.Minute
	paceSize = 8 << 20 // bytes
)

// pacedWriter gives each part of a response a deadline of its own. It keeps the way by which the system sends a file
// without copying it.
type pacedWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	outside bool // there is nothing in the range that was asked for, and nothing was sent
}

func (w *pacedWriter) extend() error { return w.control.SetWriteDeadline(time.Now().Add(pace)) }

// WriteHeader implements http.ResponseWriter. A range that cannot be sent is left to the caller of ServeContent, whose
// errors are those of the contract.
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
