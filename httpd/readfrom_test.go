package httpd_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/batchfleet/batchfleet/httpd"
)

// readerFrom counts what reaches the writer of net/http in one piece: there a file is sent by the system.
type readerFrom struct {
	*httptest.ResponseRecorder
	from []io.Reader
}

func (w *readerFrom) ReadFrom(src io.Reader) (int64, error) {
	w.from = append(w.from, src)
	return io.Copy(w.ResponseRecorder, src)
}

func TestZ03AFileIsHandedToTheSystem(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	status := 0
	api := &httpd.API{Done: func(_ *http.Request, s int, _ time.Duration) { status = s }}
	api.Handle("GET /file", func(w http.ResponseWriter, _ *http.Request) error {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.Copy(w, io.LimitReader(f, 4))
		return err
	})
	w := &readerFrom{ResponseRecorder: httptest.NewRecorder()}
	api.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/file", nil))
	if w.Code != http.StatusOK || w.Body.String() != "cont" || status != http.StatusOK {
		t.Errorf("%d %s, and it is counted as %d", w.Code, w.Body, status)
	}
	if len(w.from) != 1 {
		t.Fatalf("the writer below has read from %v", w.from)
	}
	if limited, ok := w.from[0].(*io.LimitedReader); !ok {
		t.Errorf("it has read from a %T: net/http would copy that", w.from[0])
	} else if _, ok := limited.R.(*os.File); !ok {
		t.Errorf("it has read from a %T: net/http would copy that", limited.R)
	}
}

// The status that was sent stays, and an error after it has begun ends the connection.
func TestZ03AnAnswerThatIsCopiedHasItsStatus(t *testing.T) {
	status := 0
	api, _ := testAPI()
	api.Done = func(_ *http.Request, s int, _ time.Duration) { status = s }
	api.Handle("GET /partial", func(w http.ResponseWriter, _ *http.Request) error {
		w.WriteHeader(http.StatusPartialContent)
		_, err := io.Copy(w, strings.NewReader("part"))
		return err
	})
	api.Handle("GET /broken", func(w http.ResponseWriter, _ *http.Request) error {
		_, err := io.Copy(w, struct{ io.Reader }{iotest.ErrReader(errors.New("disk died"))})
		return err
	})
	server := httptest.NewServer(api)
	defer server.Close()
	get := func(path string) (*http.Response, error) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		return http.DefaultClient.Do(req)
	}
	resp, err := get("/partial")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, err := io.ReadAll(resp.Body); err != nil || string(text) != "part" || resp.StatusCode != http.StatusPartialContent || status != http.StatusPartialContent {
		t.Errorf("%d %s, counted as %d, %v", resp.StatusCode, text, status, err)
	}
	if resp, err := get("/broken"); err == nil {
		defer resp.Body.Close()
		if text, err := io.ReadAll(resp.Body); err == nil {
			t.Errorf("an answer without its content is taken for whole: %d %s", resp.StatusCode, text)
		}
	}
}
