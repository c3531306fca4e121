package httpd_test

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/httpd"
)

// deadlines counts the deadlines that a connection was given.
type deadlines struct {
	readerFrom
	n int
}

func (w *deadlines) SetWriteDeadline(time.Time) error {
	w.n++
	return nil
}

func TestZ03EachPartOfAContentHasItsDeadline(t *testing.T) {
	content := bytes.Repeat([]byte("x"), 20<<20)
	for asked, want := range map[string]struct{ status, length, deadlines int }{
		"":                {http.StatusOK, len(content), 3},
		"bytes=1-2":       {http.StatusPartialContent, 2, 1},
		"lines=1-2":       {http.StatusOK, len(content), 3},
		"bytes=99999999-": {http.StatusRequestedRangeNotSatisfiable, 0, 0},
	} {
		w := &deadlines{readerFrom: readerFrom{ResponseRecorder: httptest.NewRecorder()}}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.Header.Set("Range", asked)
		w.Header().Set("Content-Type", "text/plain")
		err := httpd.ServeContent(w, r, bytes.NewReader(content), int64(len(content)))
		status := w.Code
		if refused, ok := errors.AsType[*httpd.StatusError](err); ok {
			status = refused.Status
		}
		if status != want.status || w.Body.Len() != want.length || w.n != want.deadlines || len(w.from) != want.deadlines {
			t.Errorf("%q: %d, %d bytes in %d parts with %d deadlines, want %+v", asked, status, w.Body.Len(), len(w.from), w.n, want)
		}
	}
}
