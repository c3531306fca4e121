package httpd_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/batchfleet/batchfleet/httpd"
)

var errNoShelf = errors.New("no such shelf")

// writeError is this API's error body, and the place where its own errors get
// their statuses.
func writeError(w http.ResponseWriter, _ *http.Request, status int, err error) {
	if errors.Is(err, errNoShelf) {
		status = http.StatusNotFound
	}
	text := err.Error()
	if status == http.StatusInternalServerError {
		text = "internal error" // the caller cannot act on our insides
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": text}) // a client that left needs no response
}

func putBook(w http.ResponseWriter, r *http.Request) error {
	token, err := httpd.Bearer(r)
	if err != nil {
		return err
	}
	if !httpd.SameToken(token, "librarian") {
		return &httpd.StatusError{Status: http.StatusForbidden, Err: errors.New("not your library")}
	}
	var book struct {
		Title string `json:"title" required:"true"`
		Pages int    `json:"pages"`
	}
	if err := httpd.ReadJSON(w, r, 1<<20, &book, httpd.BodyOptions{}); err != nil {
		return err
	}
	if r.PathValue("shelf") != "novels" {
		return fmt.Errorf("put book on %s: %w", r.PathValue("shelf"), errNoShelf)
	}
	_, err = fmt.Fprintf(w, "%q is on the shelf\n", book.Title)
	return err
}

func Example() {
	api := &httpd.API{
		Log:        slog.New(slog.DiscardHandler),
		WriteError: writeError,
		Admit:      httpd.SecureOnly(nil),
	}
	api.Handle("POST /shelves/{shelf}", putBook)

	ask := func(method, path, token, body string) {
		r := httptest.NewRequestWithContext(context.Background(), method, path, strings.NewReader(body))
		r.RemoteAddr = "127.0.0.1:50000"
		r.Header.Set("Content-Type", "application/json")
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		w := httptest.NewRecorder()
		api.ServeHTTP(w, r)
		fmt.Print(w.Code, " ", w.Body)
	}
	ask("POST", "/shelves/novels", "librarian", `{"title": "Kokoro"}`)
	ask("POST", "/shelves/novels", "librarian", `{"pages": 248}`)
	ask("POST", "/shelves/novels", "librarian", `{"title": "Kokoro", "pages": "many"}`)
	ask("POST", "/shelves/novels", "", `{"title": "Kokoro"}`)
	ask("POST", "/shelves/maps", "librarian", `{"title": "Kokoro"}`)
	ask("GET", "/shelves/novels", "librarian", ``)
	ask("GET", "/shelves/..%2Fnovels", "librarian", ``)
	// Output:
	// 200 "Kokoro" is on the shelf
	// 400 {"error":"Missing required field: title"}
	// 400 {"error":"Invalid field pages: want a whole number of 64 bits, got string"}
	// 401 {"error":"missing header: Authorization: Bearer \u003ctoken\u003e"}
	// 404 {"error":"put book on maps: no such shelf"}
	// 405 {"error":"method not allowed: this route has POST, OPTIONS"}
	// 404 {"error":"no such route: a path has no empty, . or .. segments and no encoded slash, backslash or control character"}
}
